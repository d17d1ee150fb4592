//! Numbers and characters as text, as TensorFlow 2.21 writes them.

use _core::strings::numbers::{Format, Style};
use _core::strings::substring::Unit;
use _core::strings::unicode::{Encoding, Errors, Policy};

fn printed(format: &Format, value: f64) -> String {
    let mut out = b"=".to_vec();
    format.append_float(value, &mut out);
    String::from_utf8(out).unwrap()
}

fn counted(format: &Format, value: i64) -> String {
    let mut out = b"=".to_vec();
    format.append_integer(value, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn numbers_are_printed_as_by_as_string() {
    let fixed = Format::float(Style::Fixed, None, -1, -1);
    assert_eq!(printed(&fixed, 3.5), "=3.500000");
    let single = f64::from(1e20_f32);
    assert_eq!(printed(&fixed, single), "=100000002004087734272.000000");
    let long = printed(&fixed, 1e300);
    assert_eq!(long.len(), 1 + 301 + 7);
    assert!(long.starts_with("=1000000000000000052504760255204420248704468581108159154915"));
    let shortest = Format::float(Style::Shortest, None, -1, -1);
    assert_eq!(printed(&shortest, 1e20), "=1e+20");
    let narrow = Format::float(Style::Fixed, Some(b'-'), 9, 1);
    assert_eq!(printed(&narrow, -2.25), "=-2.2     ");
    let scientific = Format::float(Style::Scientific, None, -1, 2);
    assert_eq!(printed(&scientific, 1234.5), "=1.23e+03");
    let filled = Format::integer(true, Some(b'0'), 10);
    assert_eq!(counted(&filled, -7), "=-000000007");
    let unsigned = Format::integer(false, None, -1);
    assert_eq!(counted(&unsigned, -1), "=18446744073709551615");
}

fn policy(errors: &str, controls: bool) -> Policy {
    Policy {
        errors: Errors::named(errors).unwrap(),
        replacement: char::REPLACEMENT_CHARACTER,
        controls,
    }
}

fn encoded(encoding: &str, errors: &str, numbers: &[i32]) -> Result<Vec<u8>, usize> {
    let encoding = Encoding::named(encoding).unwrap();
    let mut out = Vec::new();
    let done = policy(errors, false).encode(encoding, numbers, &mut out);
    done.map(|()| out)
}

#[test]
fn numbers_become_characters() {
    let numbers = [97, 0xd800, -1];
    let replaced = "a\u{fffd}\u{fffd}".as_bytes().to_vec();
    assert_eq!(encoded("utf-8", "replace", &numbers), Ok(replaced));
    assert_eq!(encoded("UTF-8", "ignore", &numbers), Ok(b"a".to_vec()));
    assert_eq!(encoded("UTF8", "strict", &numbers), Err(1));
    for (encoding, wanted) in [
        ("UTF-16-BE", &b"\0a\0\xe9\xd8\x3d\xde\0"[..]),
        ("UTF-16LE", b"a\0\xe9\0\x3d\xd8\0\xde"),
        ("UTF-32-BE", b"\0\0\0a\0\0\0\xe9\0\x01\xf6\0"),
        ("UTF-32-LE", b"a\0\0\0\xe9\0\0\0\0\xf6\x01\0"),
        ("US-ASCII", b"a??"),
        ("latin1", b"a\xe9?"),
    ] {
        let numbers = [97, 0xe9, 0x1f600];
        assert_eq!(encoded(encoding, "strict", &numbers).as_deref(), Ok(wanted));
    }
    assert!(Encoding::named("UTF-9").is_none() && Errors::named("other").is_none());
}

#[test]
fn control_characters_are_replaced_if_asked_for() {
    for (controls, wanted) in [(true, "a\u{fffd}"), (false, "a\u{7}")] {
        let mut found = String::new();
        let read = policy("strict", controls).decode(Encoding::Utf8, b"a\x07", |character, _| {
            found.push(character)
        });
        assert_eq!((read, &*found), (Ok(()), wanted));
    }
}

#[test]
fn units_have_tensorflows_names() {
    assert_eq!(
        Unit::named("BYTE").map(|unit| unit.length("é".as_bytes())),
        Some(2)
    );
    assert_eq!(
        Unit::named("UTF8_CHAR").map(|unit| unit.length("é".as_bytes())),
        Some(1)
    );
    assert!(Unit::named("byte").is_none());
}
