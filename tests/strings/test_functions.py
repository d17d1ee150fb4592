"""Functions of strings, against what TensorFlow 2.21 gives."""

import numpy as np
import pytest

import drumline as dl
from drumline import RaggedArray, strings

RAGGED = RaggedArray.from_rows([["a", "b", "c"], ["d"]])


def plain(value):
    if isinstance(value, RaggedArray):
        return value.to_list()
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


CASES = [
    (lambda: strings.split("a  b c "), [b"a", b"b", b"c"]),
    (lambda: strings.split("a,,b,", ","), [b"a", b"", b"b", b""]),
    (lambda: strings.split("a,,b,", ",", 1), [b"a", b",b,"]),
    (lambda: strings.split("  a", maxsplit=1), [b"a", b""]),
    (lambda: strings.split([["a b"], ["c"]]), [[[b"a", b"b"]], [[b"c"]]]),
    (lambda: strings.split(RaggedArray([b"a b"], [0, 1, 1])), [[[b"a", b"b"]], []]),
    (lambda: strings.substr("hello", -3, 2), b"ll"),
    (lambda: strings.substr("hello", 1, 100), b"ello"),
    (lambda: strings.substr("héllo", 1, 2, unit="UTF8_CHAR"), "él".encode()),
    (lambda: strings.substr("abcdef", [0, 1], [2, 2]), [b"ab", b"bc"]),
    (lambda: strings.substr([["abc"], ["def"]], [0, 1], [1, 1]), [[b"a", b"b"], [b"d", b"e"]]),
    (lambda: strings.substr(RAGGED, 0, 5), [[b"a", b"b", b"c"], [b"d"]]),
    (lambda: strings.length(["héllo", b"\xff\x80", ""], unit="UTF8_CHAR"), [5, 1, 0]),
    (lambda: strings.length("héllo"), 6),
    (lambda: strings.join(["a", "b"]), b"ab"),
    (lambda: strings.join([["a", "b"], "x", ["c", "d"]], "-"), [b"a-x-c", b"b-x-d"]),
    (lambda: strings.join([RAGGED, "x"]), [[b"ax", b"bx", b"cx"], [b"dx"]]),
    (lambda: strings.reduce_join([["a", "b"], ["c", "d"]]), b"abcd"),
    (lambda: strings.reduce_join([["a", "b"], ["c", "d"]], axis=0), [b"ac", b"bd"]),
    (lambda: strings.reduce_join([["a", "b"], ["c", "d"]], [0, 1], separator=","), b"a,c,b,d"),
    (lambda: strings.reduce_join([["a", "b"]], 1, keepdims=True), [[b"ab"]]),
    (lambda: strings.reduce_join(RAGGED, axis=-1, separator=","), [b"a,b,c", b"d"]),
    (lambda: strings.reduce_join(RAGGED), b"abcd"),
    (lambda: strings.lower("AÉß"), "aÉß".encode()),
    (lambda: strings.lower("AÉΣ ΑΣ", encoding="utf-8"), "aéς ας".encode()),
    (lambda: strings.upper("aéßﬁ", encoding="utf-8"), "AÉSSFI".encode()),
    (lambda: strings.lower(b"A\xff\xe2\x82x", "utf-8"), "a\ufffd\ufffdx".encode()),
    (lambda: strings.strip(["\x0b\x0cx\r\t", "\u00a0a"]), [b"x", "\u00a0a".encode()]),
    (lambda: strings.regex_replace("aéb1_ 2", r"\w", "-"), "-é--- -".encode()),
    (lambda: strings.regex_replace("aab", "(a)(b)?", r"[\2\1\0\\]"), rb"[aa\][baab\]"),
    (lambda: strings.regex_replace("aaa", "a", "b", False), b"baa"),
    (lambda: strings.regex_full_match(["ab", "abc"], "a|ab"), [True, False]),
    (lambda: strings.to_number([" 1 ", "0x10", "-INF"]), [1.0, 16.0, -np.inf]),
    (lambda: strings.to_number("+7", np.int64), 7),
    (lambda: strings.as_string([3.5, 1e20]), [b"3.500000", b"100000002004087734272.000000"]),
    (lambda: strings.as_string(1e20, shortest=True), b"1e+20"),
    (lambda: strings.as_string(-2.25, precision=1, width=9, fill="-"), b"-2.2     "),
    (lambda: strings.as_string(-7, width=10, fill="0"), b"-000000007"),
    (lambda: strings.as_string(np.uint64(2**64 - 1)), b"18446744073709551615"),
    (lambda: strings.as_string(np.complex64(1 + 2j), precision=2), b"(1.00,2.00)"),
    (lambda: strings.as_string([True, False]), [b"true", b"false"]),
    (lambda: strings.to_hash_bucket_fast(["a", "hello world", "w" * 65], 1000), [939, 11, 776]),
    (lambda: strings.to_hash_bucket_strong("abc", 1000, [0x0123456789ABCDEF, -5]), 76),
    (lambda: strings.unicode_decode(["aé", ""], "UTF-8"), [[97, 233], []]),
    (lambda: strings.unicode_decode(b"\xed\xa0\x80", "UTF-8"), [65533] * 3),
    (lambda: strings.unicode_decode(b"a\xffb", "UTF-8", "ignore"), [97, 98]),
    (
        lambda: strings.unicode_decode_with_offsets("aé😀", "UTF-8"),
        [[97, 233, 128512], [0, 1, 3]],
    ),
    (lambda: strings.unicode_split(["é😀"], "UTF-8"), [["é".encode(), "😀".encode()]]),
    (
        lambda: strings.unicode_transcode("aé😀", "UTF-8", "UTF-16-BE"),
        b"\x00a\x00\xe9\xd8=\xde\x00",
    ),
    (
        lambda: strings.unicode_transcode(b"\xd8\x3d\x00a\x00", "UTF-16-BE", "UTF-8"),
        "\ufffda\ufffd".encode(),
    ),
    (lambda: strings.unicode_transcode(b"a\x07", "UTF-8", "UTF-8", "replace", 63, True), b"a?"),
    (lambda: strings.unicode_decode(b"a\x07b", "UTF-8", "ignore", 63, True), [97, 98]),
    (lambda: strings.regex_replace("\u00e91", r"\x{e9}", "-"), b"-1"),
    (lambda: strings.regex_full_match("\u03bb", r"\p{Greek}"), True),
    (lambda: strings.unicode_encode([97, 0xD800, -1], "UTF-8"), "a\ufffd\ufffd".encode()),
    (
        lambda: strings.unicode_encode(
            RaggedArray.from_rows([[97], [98, 99]], dtype=np.int32), "UTF-8"
        ),
        [b"a", b"bc"],
    ),
    (lambda: strings.ngrams(["a", "b", "c"], (1, 2)), [b"a", b"b", b"c", b"a b", b"b c"]),
    (lambda: strings.ngrams([["a", "b"], ["c", "d"]], 3), [[], []]),
    (lambda: strings.ngrams(RAGGED, 2), [[b"a b", b"b c"], []]),
    (lambda: strings.ngrams(["a", "b"], 2, pad_values=("<", ">")), [b"< a", b"a b", b"b >"]),
    (lambda: strings.ngrams(["a", "b"], 3, "_", "#", 1), [b"#_a_b", b"a_b_#"]),
    (lambda: strings.ngrams(["a"], 3, preserve_short_sequences=True), [b"a"]),
    (lambda: strings.equal([["a", "b"]], "a"), [[True, False]]),
    (lambda: strings.not_equal(RAGGED, RAGGED), [[False] * 3, [False]]),
]


@pytest.mark.parametrize(("call", "wanted"), CASES)
def test_values_are_tensorflows(call, wanted):
    assert plain(call()) == wanted


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: strings.to_number(["1", "x"]), "to_number: b'x' is no valid float32"),
        (lambda: strings.to_number("2147483648", np.int32), "is no valid int32"),
        (lambda: strings.to_number("1", np.int8), "out_type must be one of"),
        (lambda: strings.substr(["ab", ""], 1, 1), "pos 1 is out of range for the string b''"),
        (lambda: strings.substr(["ab", "c"], 0, -1), "len must be at least 0, got -1"),
        (lambda: strings.substr("a", 0, [1]), "pos and len must have the same shape"),
        (lambda: strings.unicode_decode(b"a\xff", "UTF-8", "strict"), "byte 1 begins no character"),
        (lambda: strings.unicode_encode([55296], "UTF-8", "strict"), "a number is no character"),
        (lambda: strings.unicode_decode("a", "UTF-9"), "input_encoding must be one of UTF-8"),
        (lambda: strings.regex_replace("a", "(", ""), "pattern '\\('.*unclosed group"),
        (lambda: strings.regex_replace("a", r"\x{e9", ""), "pattern .*x.e9.: regex parse error"),
        (
            lambda: strings.regex_replace("a", "a{1001}", ""),
            "pattern 'a.1001.': invalid repetition",
        ),
        (lambda: strings.regex_replace("a", "a", r"\1"), "no group: the pattern has 0"),
        (lambda: strings.lower("a", "latin"), "encoding must be '' or 'utf-8'"),
        (lambda: strings.join([["a"], ["b", "c"]]), "shapes must be equal, or scalars"),
        (lambda: strings.to_hash_bucket_fast("a", 0), "num_buckets must be at least 1"),
        (lambda: strings.as_string(1, precision=2), "for floating point numbers, not for int32"),
        (lambda: strings.ngrams(["a"], 0), "ngram_width must be at least 1"),
        (lambda: strings.ngrams(["a"], 2, padding_width=1), "pad_values must be given"),
    ],
)
def test_errors_name_the_value(call, message):
    with pytest.raises(ValueError, match=f"(?s)strings\\..*{message}"):
        call()


def test_other_values_are_refused():
    for call in (strings.lower, strings.split, strings.length, strings.to_number, strings.ngrams):
        arguments = (2,) if call is strings.ngrams else ()
        with pytest.raises(TypeError, match="expected strings, got int32"):
            call([1], *arguments)


def words(texts):
    return dl.data.Dataset.from_tensor_slices(texts)


def segments(dataset):
    (line,) = (line for line in dataset.explain().splitlines() if "native" in line)
    return line.split(": ", 1)[1]


def test_functions_run_natively_in_map():
    dataset = words(["b a", "", "c"]).map(lambda x: strings.split(strings.upper(x)))
    assert segments(dataset) == "native strings.upper + strings.split"
    assert [row.tolist() for row in dataset] == [[b"B", b"A"], [], [b"C"]]
    (padded,) = dataset.padded_batch(3)
    assert padded.tolist() == [[b"B", b"A"], [b"", b""], [b"C", b""]]


def test_batches_give_ragged_arrays_in_map():
    batches = words(["b a", "", "c"]).batch(2)
    dataset = batches.map(lambda x: strings.reduce_join(strings.split(x), -1, separator="+"))
    assert [row.tolist() for row in dataset] == [[b"b+a", b""], [b"c"]]
    assert segments(dataset) == "native strings.split, strings.reduce_join"
    lengths = batches.map(lambda x: strings.length(strings.split(x)))
    assert [row.to_list() for row in lengths] == [[[1, 1], []], [[1]]]


def test_numbers_go_on_compiled_and_errors_keep_their_place():
    dataset = words(["1", "x", "3"]).map(lambda x: strings.to_number(x, np.int32) * 2)
    iterator = iter(dataset)
    assert next(iterator) == 2
    with pytest.raises(ValueError, match="b'x' is no valid int32"):
        next(iterator)
    assert next(iterator) == 6


def test_arguments_may_be_computed():
    texts = words({"text": ["abc", "def"], "start": np.array([1, 2])})
    dataset = texts.map(lambda row: strings.substr(row["text"], row["start"] - 1, row["start"]))
    assert list(dataset) == [b"a", b"ef"]


def test_tables_number_other_strings_by_their_hash():
    table = strings.StaticVocabularyTable(["cat", "dog"], num_oov_buckets=3)
    assert table.lookup(["dog", "a", "b", "cat"]).tolist() == [
        1,
        *(2 + strings.to_hash_bucket_fast(["a", "b"], 3)).tolist(),
        0,
    ]
    assert table.size() == 5
    assert strings.StaticVocabularyTable(["cat"], 0)[["cow"]].tolist() == [-1]
    with pytest.raises(ValueError, match='"a" occurs twice'):
        strings.StaticVocabularyTable(["a", "a"])
