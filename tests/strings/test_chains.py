"""Functions of strings that run as one in ``map``, against each by itself."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import drumline as dl
from drumline import strings

TABLES = [
    strings.StaticVocabularyTable(["a", "b c", "ab", ""], buckets, -7) for buckets in (0, 1, 5)
]
CHANGES = {
    "lower": strings.lower,
    "upper": strings.upper,
    "lower utf-8": lambda text: strings.lower(text, "utf-8"),
    "upper utf-8": lambda text: strings.upper(text, "utf-8"),
    "strip": strings.strip,
    "all": lambda text: strings.regex_replace(text, "[b!]+", r"<\0>"),
    "first": lambda text: strings.regex_replace(text, "a", "", False),
}
CUTS = {
    "": strings.split,
    "space once": lambda text: strings.split(text, maxsplit=1),
    "b": lambda text: strings.split(text, "b"),
}
ENDS = {
    "strings": lambda words: words,
    **{f"table {i}": table.lookup for i, table in enumerate(TABLES)},
}
texts = st.lists(
    st.one_of(st.text("aAbB !é\t\n", max_size=12).map(str.encode), st.binary(max_size=8)),
    min_size=1,
    max_size=7,
)


def plain(value):
    if isinstance(value, dl.RaggedArray):
        return value.to_list()
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def operations_in(dataset):
    (line,) = (line for line in dataset.explain().splitlines() if "native" in line)
    return line.split(": native ", 1)[1]


@given(
    texts,
    st.lists(st.sampled_from(list(CHANGES)), max_size=3),
    st.sampled_from([None, *CUTS]),
    st.sampled_from(list(ENDS)),
    st.sampled_from([None, 1, 3]),
)
def test_chains_give_what_their_links_give(values, changes, cut, end, batch):
    def call(text):
        for name in changes:
            text = CHANGES[name](text)
        return ENDS[end](text if cut is None else CUTS[cut](text))

    source = dl.data.Dataset.from_tensor_slices(np.array(values, object))
    source = source if batch is None else source.batch(batch)
    mapped = source.map(call)
    links = len(changes) + (cut is not None) + (end != "strings")
    if links:
        assert operations_in(mapped).count(" + ") == links - 1
    found = [(getattr(row, "dtype", None), plain(row)) for row in mapped]
    wanted = [(getattr(row, "dtype", None), plain(row)) for row in map(call, source)]
    assert found == wanted


def test_what_is_used_twice_is_made_once():
    lines = dl.data.Dataset.from_tensor_slices(["A b", ""])

    def call(line):
        words = strings.split(strings.lower(line))
        return words, TABLES[1].lookup(words)

    mapped = lines.map(call)
    assert operations_in(mapped) == "strings.lower + strings.split, strings.lookup"
    assert [(w.tolist(), n.tolist()) for w, n in mapped] == [([b"a", b"b"], [0, 4]), ([], [])]


def test_what_may_fail_is_done_by_itself():
    lines = dl.data.Dataset.from_tensor_slices([" 1", "2 "])
    mapped = lines.map(lambda line: strings.to_number(strings.strip(line), np.int32))
    assert operations_in(mapped) == "strings.strip, strings.to_number"
    assert list(mapped) == [1, 2]


def test_ways_that_part_stay_apart():
    rows = dl.data.Dataset.from_tensor_slices({"a": ["X y", "Z"], "b": ["p,Q", "R"]})

    def call(row):
        low, high = strings.lower(row["a"]), strings.upper(row["b"])
        return TABLES[0].lookup(strings.split(low)), strings.split(high, ",")

    mapped = rows.map(call)
    assert operations_in(mapped) == (
        "strings.lower + strings.split + strings.lookup, strings.upper + strings.split"
    )
    assert [(a.tolist(), b.tolist()) for a, b in mapped] == [
        ([-7, -7], [b"P", b"Q"]),
        ([-7], [b"R"]),
    ]
