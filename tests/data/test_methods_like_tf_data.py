"""Methods and readers that need more than one line, as in ``tf.data``, where it is installed."""

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset

tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the bench extra has")

ROWS = np.arange(24, dtype=np.float32).reshape(12, 2)


def plain(element):
    if isinstance(element, dict):
        return {k: plain(v) for k, v in element.items()}
    if isinstance(element, tuple | list):
        return type(element)(plain(v) for v in element)
    if isinstance(element, tf.RaggedTensor | dl.RaggedArray):
        return element.to_list()
    array = np.asarray(element)
    kind = array.dtype.kind
    return ("O" if kind == "S" else array.dtype.str), array.tolist()


def both(make):
    """The elements that each has."""
    ours = [plain(e) for e in make(Dataset, dl)]
    theirs = make(tf.data.Dataset, tf)
    return ours, [plain(e) for e in theirs.as_numpy_iterator()]


def twice(dataset):
    return dataset.map(lambda v: v * 2).repeat(2)


def uneven(D, _):
    return D.range(6).map(lambda n: n * 3 % 5).filter(lambda n: n >= 0)


PIPELINES = {
    "apply": lambda D, _: D.range(5).apply(twice),
    "prefetch": lambda D, _: D.range(5).prefetch(3).batch(2).prefetch(1),
    "assert_cardinality": lambda D, lib: (
        D.range(9)
        .filter(lambda v: v % 2 == 0)
        .apply(
            lib.data.experimental.assert_cardinality(5)
            if lib is tf
            else lambda d: d.assert_cardinality(5)
        )
    ),
    "batch in parallel": lambda D, _: D.range(11).batch(3, num_parallel_calls=2),
    "batch, tuned": lambda D, lib: D.range(11).batch(
        3, True, num_parallel_calls=lib.data.AUTOTUNE, deterministic=False
    ),
    "sample of one": lambda D, _: D.sample_from_datasets(
        [D.range(4), D.range(10, 14)], weights=[0.0, 1.0], seed=1, stop_on_empty_dataset=True
    ),
    "window spec": lambda D, _: D.range(7).window(3).flat_map(lambda w: w),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_same_elements(name):
    ours, theirs = both(PIPELINES[name])
    if name == "batch, tuned":  # TensorFlow gives the batches in any order where that is allowed
        theirs.sort(key=lambda batch: batch[1])
    assert ours == theirs and theirs
    cardinality = int(PIPELINES[name](tf.data.Dataset, tf).cardinality())
    assert PIPELINES[name](Dataset, dl).cardinality() == cardinality


def test_element_specs():
    def shapes(spec):
        if isinstance(spec, dict):
            return {k: shapes(v) for k, v in spec.items()}
        if isinstance(spec, tuple):
            return tuple(map(shapes, spec))
        dtype = spec.dtype.name if hasattr(spec.dtype, "name") else str(spec.dtype)
        return tuple(spec.shape), "string" if dtype == "object" else dtype

    for make in (
        lambda D: D.from_tensor_slices({"x": ROWS, "s": ["a"] * 12}).batch(5),
        lambda D: D.from_tensor_slices((ROWS, [1.5] * 12)).batch(5, drop_remainder=True),
        lambda D: D.range(4).enumerate(),
        lambda D: D.from_tensors(ROWS).padded_batch(2, [None, 3]),
    ):
        theirs = make(tf.data.Dataset).element_spec
        assert shapes(make(Dataset).element_spec) == shapes(theirs)
    ours, theirs = (D.range(4).window(2).element_spec for D in (Dataset, tf.data.Dataset))
    assert isinstance(ours, dl.data.DatasetSpec) and isinstance(theirs, tf.data.DatasetSpec)
    assert shapes(ours.element_spec) == shapes(theirs.element_spec)


def test_the_single_element():
    for make in (lambda D: D.range(3, 4), lambda D: D.from_tensors((ROWS, 2))):
        ours, theirs = (make(D).get_single_element() for D in (Dataset, tf.data.Dataset))
        flat = ours if isinstance(ours, tuple) else (ours,)
        other = theirs if isinstance(theirs, tuple) else (theirs,)
        assert [np.asarray(x).tolist() for x in flat] == [x.numpy().tolist() for x in other]
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.data.Dataset.range(0).get_single_element()
    with pytest.raises(ValueError, match="element"):
        Dataset.range(0).get_single_element()


def test_ragged_batches():
    def make(D):
        return D.range(7).map(lambda n: n).flat_map(lambda n: D.range(n).batch(9)).ragged_batch(4)

    theirs = [batch.to_list() for batch in make(tf.data.Dataset)]
    assert [batch.to_list() for batch in make(Dataset)] == theirs


def test_options():
    ours, theirs = dl.data.Options(), tf.data.Options()
    for options in (ours, theirs):
        options.deterministic = False
        options.autotune.enabled = True
    for D, options, lib in ((Dataset, ours, dl), (tf.data.Dataset, theirs, tf)):
        more = lib.data.Options()
        more.autotune.cpu_budget = 3
        found = D.range(3).with_options(options).batch(2).with_options(more).options()
        assert (found.deterministic, found.autotune.enabled) == (False, True)
        assert found.autotune.cpu_budget == 3
        assert D.range(3).options().deterministic is None


def test_found_files(tmp_path):
    for name in ("b.txt", "a.txt", "c.png", "[d].txt"):
        (tmp_path / name).touch()
    for pattern in ("*.txt", "?.*", "[ab].txt", "*"):
        ours, theirs = (
            D.list_files(str(tmp_path / pattern), shuffle=False) for D in (Dataset, tf.data.Dataset)
        )
        assert list(ours) == list(theirs.as_numpy_iterator())


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
def test_records(tmp_path, kind):
    path = str(tmp_path / "a")
    records = [b"one", b"", b"three" * 99]
    with tf.io.TFRecordWriter(path, kind) as writer:
        for record in records:
            writer.write(record)
    with dl.io.TFRecordWriter(path + "b", kind) as writer:
        for record in records:
            writer.write(record)
    for library in (dl, tf):
        dataset = library.data.TFRecordDataset([path, path + "b"], compression_type=kind)
        assert list(dataset.as_numpy_iterator()) == records * 2


def test_lines_and_fixed_lengths(tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\n\nlast")
    path = str(tmp_path / "a")
    ours, theirs = (
        list(lib.data.TextLineDataset([path, path]).as_numpy_iterator()) for lib in (dl, tf)
    )
    assert ours == theirs
    for sizes in ((3, 1, 2), (5, 0, 0)):
        (tmp_path / "b").write_bytes(bytes(range(sizes[1] + 4 * sizes[0] + sizes[2])))
        ours, theirs = (
            list(lib.data.FixedLengthRecordDataset(str(tmp_path / "b"), *sizes).as_numpy_iterator())
            for lib in (dl, tf)
        )
        assert ours == theirs and len(theirs) == 4


def test_comma_separated_values(tmp_path):
    path = str(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text('i,x,s\n1,2.5,"a,b"\n3,,c\n-7,1e3,\n')
    defaults = [[0], [9.5], ["none"]]
    ours = list(dl.data.experimental.CsvDataset(path, defaults, header=True))
    theirs = tf.data.experimental.CsvDataset(path, defaults, header=True)
    assert [plain(e) for e in ours] == [plain(e) for e in theirs.as_numpy_iterator()]
    given = {"label_name": "i", "num_epochs": 1, "shuffle": False}
    mine = dl.data.experimental.make_csv_dataset(path, 2, **given)
    other = tf.data.experimental.make_csv_dataset(path, 2, **given)
    assert [plain(e) for e in mine] == [
        plain((dict(features), label)) for features, label in other.as_numpy_iterator()
    ]


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("shards", [None, 2])
def test_saved_and_loaded(tmp_path, compression, shards):
    orders = []
    for name, D in (("ours", Dataset), ("theirs", tf.data.Dataset)):
        path = str(tmp_path / name)
        shard_func = None if shards is None else (lambda i, row: i % shards)
        dataset = D.from_tensor_slices((np.arange(7), ROWS[:7]))
        dataset.save(path, compression=compression, shard_func=shard_func)
        loaded = D.load(path, compression=compression)
        backwards = D.load(
            path,
            compression=compression,
            reader_func=lambda shards: shards.flat_map(lambda shard: shard.skip(1)),
        )
        orders.append([[int(i) for i, _ in ds.as_numpy_iterator()] for ds in (loaded, backwards)])
    assert orders[0] == orders[1]


def test_snapshots(tmp_path):
    orders = []
    for name, D in (("ours", Dataset), ("theirs", tf.data.Dataset)):
        found = []
        for given in (
            {},
            {"shard_func": lambda i: i % 2},
            {
                "shard_func": lambda i: i // 3,
                "reader_func": lambda d: d.flat_map(lambda shard: shard.take(2)),
            },
        ):
            path = str(tmp_path / name / str(len(found)))
            dataset = D.range(8).map(lambda i: i + 1).snapshot(path, **given)
            found.append([[int(i) for i in dataset.as_numpy_iterator()] for _ in range(3)])
        orders.append(found)
    assert orders[0] == orders[1]


def test_fingerprints_tell_the_same_datasets_apart():
    makers = [
        lambda D: D.range(5),
        lambda D: D.range(6),
        lambda D: D.range(5).map(lambda i: i + 1),
        lambda D: D.range(5).map(lambda i: i + 2),
        lambda D: D.range(5).shuffle(3),
        lambda D: D.from_tensor_slices(ROWS),
        lambda D: D.from_tensor_slices(ROWS + 1),
    ]
    for D in (Dataset, tf.data.Dataset):
        numbers = [int(make(D).fingerprint()) for make in makers]
        assert numbers == [int(make(D).fingerprint()) for make in makers]
        assert len(set(numbers)) == len(makers)
    assert Dataset.range(5).fingerprint().dtype == np.uint64
    assert tf.data.Dataset.range(5).fingerprint().dtype == tf.uint64
    # Seeds count here only.
    for D, count in ((Dataset, 2), (tf.data.Dataset, 1)):
        numbers = {int(D.range(5).shuffle(3, seed=seed).fingerprint()) for seed in (1, 2)}
        assert len(numbers) == count
