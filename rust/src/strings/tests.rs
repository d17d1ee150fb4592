use super::chain::Change;
use super::chain::{Chain, Room};
use super::fingerprint::fingerprint64;
use super::fingerprint::siphash;
use super::ngrams::Ngrams;
use super::numbers::Number;
use super::pattern::{Pattern, Rewrite};
use super::split::Splitter;
use super::substring::{substring, Unit};
use super::texts::Texts;
use super::unicode::{Encoding, Errors, Policy};
use super::vectorize::{Cut, Tokenizer};
use super::vocabulary::Vocabulary;

/// `tf.strings.to_hash_bucket_fast(text, 2**63 - 1)` and `to_hash_bucket_strong` of the key [1, 2].
const HASHES: [(&str, usize, i64, i64); 9] = [
    ("", 1, 1936946117179621456, 443797209252341628),
    ("a", 1, 3694432073954588132, 5158252350249958646),
    ("abc", 1, 2640714258260161385, 5862226954915230110),
    ("hello world", 1, 6381520714923946011, 1015233985318741639),
    ("x", 17, 2082709914559524774, 3111895715772102225),
    ("y", 33, 8610735037765521150, 202190614605344851),
    ("z", 64, 294799756062990872, 5018482603022759484),
    ("w", 65, 3272011567211491969, 3260008274609568768),
    ("0123456789", 20, 439712990348739478, 3663624978397590962),
];

#[test]
fn hashes_are_tensorflows() {
    let bucket = |hash: u64| (hash % i64::MAX as u64) as i64;
    for (text, times, fast, strong) in HASHES {
        let text = text.repeat(times);
        assert_eq!(bucket(fingerprint64(text.as_bytes())), fast, "{text}");
        assert_eq!(bucket(siphash([1, 2], text.as_bytes())), strong, "{text}");
    }
}

/// Short numbers are read otherwise than long ones, and must be what the standard library reads.
#[test]
fn short_numbers_are_rounded_once() {
    let mut seed = 1u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
        seed >> 33
    };
    let mut texts: Vec<String> = ["-0", "+0.0", "5.", "-.5", "1.2.3", "+", "0.1", "-00012.50"]
        .map(str::to_owned)
        .to_vec();
    for _ in 0..20_000 {
        let float = f32::from_bits((draw() as u32) % 0x2800_0000 + 0x2e00_0000);
        let next = f32::from_bits(float.to_bits() + 1);
        let middle = (f64::from(float) + f64::from(next)) / 2.0;
        texts.push(format!("{middle:.*}", (draw() % 18) as usize));
        texts.push(format!("{}.{}", draw() % 1000, draw() * draw()));
        texts.push(format!("-{}", draw() * draw() % 1_000_000_000_000));
    }
    let mut singles = 0;
    for text in &texts {
        let bytes = text.as_bytes();
        let bits = |number: f32| number.to_bits();
        assert_eq!(
            f32::parse(bytes).map(bits),
            text.parse().ok().map(bits),
            "{text}"
        );
        let bits = |number: f64| number.to_bits();
        assert_eq!(
            f64::parse(bytes).map(bits),
            text.parse().ok().map(bits),
            "{text}"
        );
        assert_eq!(i32::parse(bytes), text.parse().ok(), "{text}");
        assert_eq!(u64::parse(bytes), text.parse().ok(), "{text}");
        let twice = text.parse::<f64>().map(|number| number as f32).ok();
        singles += usize::from(twice != text.parse().ok());
    }
    assert!(singles > 10, "{singles} are rounded otherwise in two steps");
}

#[test]
fn numbers_follow_strtod() {
    assert_eq!(i32::parse(b" \t7\n"), Some(7));
    assert_eq!(i32::parse(b"+1"), Some(1));
    assert_eq!(i32::parse(b"2147483648"), None);
    for bad in ["", "  ", "1.5", "1_0", "0x10", "- 1", "--1", "+-1"] {
        assert_eq!(i64::parse(bad.as_bytes()), None, "{bad:?}");
    }
    for (text, value) in [
        ("0x10", 16.0),
        ("0x1p3", 8.0),
        ("-0x.8P-1", -0.25),
        (".5", 0.5),
    ] {
        assert_eq!(f64::parse(text.as_bytes()), Some(value), "{text}");
    }
    assert_eq!(f32::parse(b"1e400"), Some(f32::INFINITY));
    assert_eq!(f32::parse(b"-INF"), Some(f32::NEG_INFINITY));
    assert!(f64::parse(b"nan(1)").is_some_and(f64::is_nan));
    for bad in [".", "1e", "1f", "0x", "nan(", "1d3", "0xp1"] {
        assert_eq!(f64::parse(bad.as_bytes()), None, "{bad:?}");
    }
}

fn parts(text: &str, separator: &str, most: i64) -> Vec<String> {
    let mut found = Vec::new();
    let keep = |part: &[u8]| found.push(String::from_utf8_lossy(part).into_owned());
    Splitter::new(separator.as_bytes()).each(text.as_bytes(), most, keep);
    found
}

#[test]
fn strings_are_cut_as_tensorflow_does() {
    assert_eq!(parts("a  b c ", "", -1), ["a", "b", "c"]);
    assert_eq!(parts("a,,b,", ",", -1), ["a", "", "b", ""]);
    assert_eq!(parts("a,,b,", ",", 1), ["a", ",b,"]);
    assert_eq!(parts("  a", "", 1), ["a", ""]);
    assert_eq!(parts(" a b ", "", 0), [" a b "]);
    assert_eq!(parts("", ",", -1), [""]);
    assert_eq!(parts("  ", "", -1), Vec::<String>::new());
}

#[test]
fn substrings_count_bytes_or_characters() {
    let cut =
        |text: &'static str, start, length, unit| substring(text.as_bytes(), start, length, unit);
    assert_eq!(cut("hello", -3, 2, Unit::Byte), Some(&b"ll"[..]));
    assert_eq!(cut("hello", 1, -1, Unit::Byte), Some(&b""[..]));
    assert_eq!(cut("hello", 6, 1, Unit::Byte), None);
    assert_eq!(cut("hello", i64::MIN, i64::MAX, Unit::Byte), None);
    assert_eq!(cut("héllo", 1, 2, Unit::Character), Some("él".as_bytes()));
    assert_eq!(cut("héllo", -6, 2, Unit::Character), None);
    assert_eq!(
        substring(b"\x80\x80a", 0, 1, Unit::Character),
        Some(&b"\x80\x80"[..])
    );
    let alone = |start| substring(b"\x80", start, 1, Unit::Character);
    assert_eq!([alone(0), alone(-1)], [Some(&b"\x80"[..]); 2]);
    assert_eq!([alone(2), alone(-2)], [None; 2]);
    assert_eq!(cut("héllo", -4, 2, Unit::Character), Some("él".as_bytes()));
}

fn replaced(text: &str, pattern: &str, by: &str, all: bool) -> String {
    let pattern = Pattern::new(pattern).expect("a pattern");
    let by = Rewrite::new(by.as_bytes(), pattern.groups()).expect("a rewrite");
    let mut out = Vec::new();
    pattern.replace(text.as_bytes(), &by, all, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// What `tf.strings.regex_replace` says of each.
#[test]
fn repetitions_have_the_limits_of_re2() {
    let size = "invalid repetition size";
    let again = "bad repetition operator";
    for (bad, message) in [
        ("a{1001}", size),
        ("a{0,1001}", size),
        ("x{1001}?", size),
        ("a{1001,}", size),
        ("a{2,1}", size),
        ("(a{100}){11}", size),
        ("((a{10}){10}){11}", size),
        ("(?:a{2}){501}", size),
        ("(?P<n>a{2}){501}", size),
        ("(a{0,2}){501}", size),
        ("(a{2,}){501}", size),
        ("(a*){1001}", size),
        ("(ab{100}c){11}", size),
        ("(a{100}|b{3}){11}", size),
        ("(a{1}){1001}", size),
        ("((a{0}){2000})", size),
        ("((a{1000})+){2}", size),
        ("a{1000}{2}", again),
        ("a{2}{3}", again),
        ("a**", again),
        ("a{2}*", again),
    ] {
        let error = Pattern::new(bad).err().unwrap_or_default();
        assert!(error.contains(message), "{bad}: {error}");
    }
    for good in [
        "a{1000}",
        "(a{100}){10}",
        "(a{31}){32}",
        "(a{500}){0}",
        "(a{1000})*",
        "(a{1000})?",
        "(a{1000}){1,}",
        "a{1000}b{1000}",
        "[{]1001}",
        "a{1001",
        "a{99999999999}",
        "a{01}{2}",
        r"\x{1001}{2}",
        r"\Qa{1001}\E",
        "(?i)a{2}",
        "(?s:a{2}){500}",
    ] {
        assert_eq!(Pattern::new(good).err(), None, "{good}");
    }
}

#[test]
fn patterns_are_those_of_re2() {
    let cases = [
        ("aéb1_ 2", r"\w", "-", "-é--- -"),
        ("aé٣1", r"\d", "-", "aé٣-"),
        ("aab", "(a)(b)?", r"[\2\1\0\\]", r"[aa\][baab\]"),
        ("abc", "x*", "-", "-a-b-c-"),
        ("aé€😀", "x*", "-", "-a-é-€-😀-"),
        ("é", r"(x?)", r"<\1>", "<>é<>"),
        ("abc", "b*", "-", "-a-c-"),
        ("a\nb", ".", "-", "-\n-"),
        ("aXa", "(?i)x", "y", "aya"),
        ("a\u{2003}b \u{b}", r"\s", "_", "a\u{2003}b_\u{b}"),
        ("x{,2}", "x{,2}", "y", "y"),
        ("[a&&b]", "[[&]", "_", "_a__b]"),
        ("é", r"\b", "|", "é"),
        ("foo.bar", r"\Q.\E", "-", "foo-bar"),
        ("a-b+", "[+--]", "_", "a_b_"),
        ("a_b-c", r"[\W]", "", "a_bc"),
        ("a.b", "[[:punct:]]", "", "ab"),
        ("é1", r"\x{e9}", "-", "-1"),
        ("aλ", r"\p{Greek}[\P{Greek}]?", "-", "a-"),
    ];
    for (text, pattern, by, wanted) in cases {
        assert_eq!(replaced(text, pattern, by, true), wanted, "{pattern}");
    }
    assert_eq!(replaced("aaa", "a", "b", false), "baa");
    for bad in ["(a", "[a", "a\\", r"\1", r"\x{e9"] {
        assert!(Pattern::new(bad).is_err(), "{bad}");
    }
    for bad in [r"\1", r"\q", "\\"] {
        assert!(Rewrite::new(bad.as_bytes(), 0).is_err(), "{bad}");
    }
    let whole = Pattern::new("a|ab").expect("a pattern");
    assert!(whole.matches(b"ab") && !whole.matches(b"ab\n"));
}

fn decoded(encoding: Encoding, text: &[u8], errors: Errors) -> Result<Vec<u32>, usize> {
    let mut found = Vec::new();
    let policy = Policy {
        errors,
        replacement: char::REPLACEMENT_CHARACTER,
        controls: false,
    };
    policy.decode(encoding, text, |character, _| found.push(character.into()))?;
    Ok(found)
}

#[test]
fn damaged_text_is_replaced_as_icu_does() {
    let replaced = |text: &[u8]| decoded(Encoding::Utf8, text, Errors::Replace);
    assert_eq!(replaced(b"\xe2\x82"), Ok(vec![0xfffd]));
    assert_eq!(replaced(b"\xed\xa0\x80"), Ok(vec![0xfffd; 3]));
    assert_eq!(replaced(b"\xf4\x90\x80\x80"), Ok(vec![0xfffd; 4]));
    assert_eq!(replaced(b"\xf0\x9f\x98a"), Ok(vec![0xfffd, 97]));
    assert_eq!(
        decoded(Encoding::Utf8, b"a\xffb", Errors::Ignore),
        Ok(vec![97, 98])
    );
    assert_eq!(decoded(Encoding::Utf8, b"a\xffb", Errors::Strict), Err(1));
    let big = Encoding::Utf16 { big: true };
    let found = decoded(big, b"\xd8\x3d\0a\0", Errors::Replace);
    assert_eq!(found, Ok(vec![0xfffd, 97, 0xfffd]));
}

#[test]
fn ngrams_are_padded_less_than_their_width() {
    let mut ngrams = Ngrams::plain(vec![2, 3], b" ");
    ngrams.left = b"<".to_vec();
    ngrams.right = b">".to_vec();
    let made = |ngrams: &Ngrams, tokens: &[&[u8]]| {
        let mut out = Texts::default();
        ngrams.append(tokens, &mut out);
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        out.iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(made(&ngrams, &[b"a", b"b"]), ["a b"]);
    ngrams.padding = 9;
    let wanted = ["< a", "a b", "b >", "< < a", "< a b", "a b >", "b > >"];
    assert_eq!(made(&ngrams, &[b"a", b"b"]), wanted);
    ngrams.padding = 0;
    ngrams.preserve_short = true;
    assert_eq!(made(&ngrams, &[b"a"]), ["a"]);
    assert_eq!(made(&ngrams, &[]), Vec::<String>::new());
}

#[test]
fn tokens_are_those_of_keras() {
    let mut tokenizer = Tokenizer {
        lower: true,
        strip_punctuation: true,
        cut: Cut::AtSpace,
        ngrams: None,
    };
    let tokens = |tokenizer: &Tokenizer, text: &[u8]| {
        let mut found = Vec::new();
        tokenizer.tokens(&[text], |token| found.push(token.to_vec()));
        found
    };
    assert_eq!(tokens(&tokenizer, b"The CAT's. "), [&b"the"[..], b"cats"]);
    tokenizer.ngrams = Some(Ngrams::plain(vec![1, 2], b" "));
    assert_eq!(tokens(&tokenizer, b"A, b"), [&b"a"[..], b"b", b"a b"]);
    tokenizer.ngrams = None;
    tokenizer.cut = Cut::IntoCharacters;
    assert_eq!(tokens(&tokenizer, b"\xc3\xa9A"), [&b"\xc3\xa9"[..], b"a"]);
    assert_eq!(tokens(&tokenizer, b"a\xff"), [&b"a"[..], b"\xef\xbf\xbd"]);
}

#[test]
fn a_vocabulary_finds_what_it_holds() {
    let texts: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let table = Vocabulary::new(texts.iter().map(|text| text.as_bytes())).expect("no doubles");
    for (number, text) in texts.iter().enumerate() {
        assert_eq!(table.number(text.as_bytes()), Some(number));
        assert_eq!(table.text(number), Some(text.as_bytes()));
    }
    assert_eq!(table.number(b"1000"), None);
    assert_eq!(Vocabulary::default().number(b""), None);
    assert_eq!(Vocabulary::new([&b"a"[..], b"b", b"a"]).err(), Some(2));
}

#[test]
fn chains_change_then_cut() {
    let each = |names: &[&str], cut: Option<(&[u8], i64)>, text: &str| {
        let chain = Chain {
            changes: names.iter().map(|n| Change::named(n).unwrap()).collect(),
            cut: cut.map(|(separator, most)| (Splitter::new(separator), most)),
        };
        let mut found = Vec::new();
        chain.each(text.as_bytes(), &mut Room::default(), |part| {
            found.push(String::from_utf8_lossy(part).into_owned());
        });
        found
    };
    assert_eq!(each(&[], None, " A b "), [" A b "]);
    assert_eq!(each(&["lower"], Some((b"", -1)), "A  b É"), ["a", "b", "É"]);
    let names = ["lower utf-8", "strip", "upper"];
    assert_eq!(each(&names, Some((b"B", 1)), " éabcbx\n"), ["éA", "CBX"]);
    assert_eq!(each(&["upper utf-8"], None, "ß"), ["SS"]);
    assert!(Change::named("other").is_none());
}
