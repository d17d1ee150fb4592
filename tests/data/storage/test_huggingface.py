"""Datasets of Hugging Face: the rows that indexing gives, whatever the table below holds."""

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.data import GLOBAL, Dataset, RaggedTensorSpec, TensorSpec

datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")

ROWS = 40


def numbers(rows=ROWS):
    return datasets.Dataset.from_dict({"x": list(range(rows)), "y": [i / 2 for i in range(rows)]})


def xs(dataset):
    return [int(row["x"]) for row in dataset]


def plain(value):
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def large(monkeypatch):
    """Have even small tables read a block at a time."""
    monkeypatch.setattr("drumline.data.operations.reading.huggingface._IN_MEMORY", -1)


@pytest.fixture(params=["arrays", "blocks"], autouse=True)
def how(request, monkeypatch):
    if request.param == "blocks":
        large(monkeypatch)
    return request.param


@pytest.mark.parametrize("make", [Dataset.from_arrow, Dataset.from_huggingface])
@pytest.mark.parametrize(
    "part",
    [
        lambda d: d.select([3, 1, 30]),
        lambda d: d.select(range(5, 9)),
        lambda d: d.shuffle(seed=1),
        lambda d: d.filter(lambda row: row["x"] % 3 == 0),
        lambda d: d.train_test_split(0.25, seed=2)["test"],
        lambda d: d.shard(3, 1),
        lambda d: d.select([]),
        lambda d: datasets.concatenate_datasets([d.select([1, 2]), d.shuffle(seed=3)]),
        lambda d: d,
    ],
)
def test_the_rows_are_those_of_indexing(make, part):
    given_dataset = part(numbers())
    dataset = make(given_dataset)
    assert dataset.cardinality() == len(given_dataset)
    assert xs(dataset) == [given_dataset[i]["x"] for i in range(len(given_dataset))]
    assert dataset.element_spec == {"x": TensorSpec((), np.int64), "y": TensorSpec((), np.float64)}


def test_train_and_test_are_apart():
    split = numbers().train_test_split(0.25, seed=4)
    train, test = (xs(Dataset.from_huggingface(split[name])) for name in ("train", "test"))
    assert sorted(train + test) == list(range(ROWS)) and len(test) == 10


FEATURES = datasets.Features(
    {
        "label": datasets.ClassLabel(names=["cat", "dog"]),
        "text": datasets.Value("string"),
        "byte": datasets.Value("uint8"),
        "half": datasets.Value("float32"),
        "yes": datasets.Value("bool"),
        "ids": datasets.List(datasets.Value("int32")),
        "pair": datasets.List(datasets.Value("int16"), length=2),
        "deep": datasets.List(datasets.List(datasets.Value("int64"))),
        "box": {"name": datasets.Value("string"), "at": datasets.List(datasets.Value("float32"))},
        "spans": datasets.List({"start": datasets.Value("int64"), "tag": datasets.Value("string")}),
        "grid": datasets.Array2D((2, 3), "float32"),
        "rows": datasets.Array2D((None, 2), "int32"),
        "words": datasets.Translation(["de", "en"]),
    }
)


def row_of(i):
    return {
        "label": ["cat", "dog"][i % 2],
        "text": f"t é {i}",
        "byte": i,
        "half": i / 4,
        "yes": i % 2 == 0,
        "ids": list(range(i % 4)),
        "pair": [i, -i],
        "deep": [[i] * j for j in range(i % 3)],
        "box": {"name": f"b{i}", "at": [0.5] * (i % 2)},
        "spans": [{"start": i, "tag": f"s{j}"} for j in range(i % 3)],
        "grid": (np.arange(6).reshape(2, 3) + i).tolist(),
        "rows": [[i, i + 1]] * (1 + i % 3),
        "words": {"de": f"Wort {i}", "en": f"word {i}"},
    }


def expected(i):
    row = row_of(i)
    return {
        **row,
        "label": i % 2,
        "text": row["text"].encode(),
        "box": {"name": row["box"]["name"].encode(), "at": row["box"]["at"]},
        "spans": {
            "start": [span["start"] for span in row["spans"]],
            "tag": [span["tag"].encode() for span in row["spans"]],
        },
        "words": {key: word.encode() for key, word in row["words"].items()},
    }


def of_all_features():
    rows = [row_of(i) for i in range(12)]
    columns = {name: [row[name] for row in rows] for name in FEATURES}
    return datasets.Dataset.from_dict(columns, FEATURES)


def listed(value):
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return value.to_list() if hasattr(value, "to_list") else plain(value)


def test_every_feature():
    dataset = Dataset.from_huggingface(of_all_features().select([7, 2, 11, 3, 4]))
    spec = dataset.element_spec
    assert spec["label"] == TensorSpec((), np.int64) and spec["text"] == TensorSpec((), "string")
    assert spec["ids"] == TensorSpec((None,), np.int32) and spec["pair"] == TensorSpec(
        (2,), "int16"
    )
    assert spec["deep"] == RaggedTensorSpec((None, None), np.int64)
    assert spec["grid"] == TensorSpec((2, 3), np.float32)
    assert spec["rows"] == TensorSpec((None, 2), np.int32)
    assert [listed(row) for row in dataset] == [expected(i) for i in (7, 2, 11, 3, 4)]


@settings(max_examples=15, deadline=None)
@given(indices=st.lists(st.integers(0, 11), max_size=20), seed=st.integers(0, 5))
def test_any_indices_shuffled_and_restored(indices, seed):
    rows = of_all_features().select_columns(["ids", "text", "grid"]).select(indices)
    dataset = Dataset.from_huggingface(rows) if indices else Dataset.from_arrow(rows)
    shuffled = dataset.shuffle(GLOBAL if seed % 2 else 5, seed=seed)
    iterator = iter(shuffled)
    first = [next(iterator) for _ in range(len(indices) // 2)]
    again = iter(shuffled)
    again.restore(iterator.state())
    rest = [plain(row) for row in iterator]
    assert [plain(row) for row in again] == rest
    found = sorted(row["text"] for row in [*map(plain, first), *rest])
    assert found == sorted(f"t é {i}".encode() for i in indices)


def test_random_access_and_what_explain_says(how):
    dataset = Dataset.from_huggingface(numbers().select([5, 9, 2]))
    assert [int(dataset.index(i)["x"]) for i in (1, -1)] == [9, 2]
    text = dataset.explain()
    if how == "blocks":
        assert "items of Hugging Face Dataset (3 elements, read a block at a time)" in text
    else:
        assert "arrays in memory (3 elements" in text


@pytest.mark.parametrize("kind", [None, "numpy", "arrow", "pandas", "python"])
def test_of_a_format_the_columns_count(kind):
    rows = numbers().with_format(kind, columns=["y"])
    assert Dataset.from_huggingface(rows).element_spec == {"y": TensorSpec((), np.float64)}
    both = numbers().with_format(kind, columns=["y"], output_all_columns=True)
    assert list(Dataset.from_huggingface(both).element_spec) == ["x", "y"]


def test_a_transform_and_options_of_a_format_are_honoured():
    doubled = numbers().with_transform(lambda batch: {"z": [2 * x for x in batch["x"]]})
    assert [int(row["z"]) for row in Dataset.from_huggingface(doubled).take(3)] == [0, 2, 4]
    pairs = of_all_features().with_format("numpy", columns=["pair"], dtype=np.float32)
    assert Dataset.from_huggingface(pairs).element_spec == {"pair": TensorSpec((2,), np.float32)}


def picture(height, width, mode="RGB", shade=7):
    images = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    channels = {"RGB": (3,), "L": (), "RGBA": (4,)}[mode]
    return images.fromarray(np.full((height, width, *channels), shade, np.uint8), mode)


def of_pictures(pictures, **options):
    features = datasets.Features({"image": datasets.Image(**options), "n": datasets.Value("int64")})
    stored = []
    for each in pictures:
        file = io.BytesIO()
        each.save(file, "PNG")
        stored.append({"bytes": file.getvalue(), "path": None})
    raw = datasets.Features({"image": datasets.Image(decode=False), "n": datasets.Value("int64")})
    made = datasets.Dataset.from_dict({"image": stored, "n": list(range(len(stored)))}, raw)
    return made.cast(features)


def test_images_of_various_sizes():
    sizes = [(2, 3), (2, 3), (4, 1), (2, 3), (5, 5)]
    rows = of_pictures([picture(*size, shade=i) for i, size in enumerate(sizes)])
    dataset = Dataset.from_huggingface(rows.select([4, 0, 1, 2, 3]))
    assert dataset.element_spec["image"] == TensorSpec((None, None, 3), np.uint8)
    found = list(dataset)
    assert [row["image"].shape[:2] for row in found] == [sizes[i] for i in (4, 0, 1, 2, 3)]
    assert [int(row["image"][0, 0, 0]) for row in found] == [4, 0, 1, 2, 3]
    assert [int(row["n"]) for row in found] == [4, 0, 1, 2, 3]


def test_grey_images_have_a_channel_and_a_signature_gives_their_size():
    rows = of_pictures([picture(4, 5, "L", shade) for shade in range(6)])
    assert Dataset.from_huggingface(rows).element_spec["image"] == TensorSpec(
        (None, None, 1), "uint8"
    )
    signature = {"image": TensorSpec((4, 5, 1), np.uint8), "n": TensorSpec((), np.int32)}
    dataset = Dataset.from_huggingface(rows, signature)
    assert dataset.batch(3, drop_remainder=True).element_spec["image"].shape == (3, 4, 5, 1)
    assert [b["image"][:, 0, 0, 0].tolist() for b in dataset.batch(3)] == [[0, 1, 2], [3, 4, 5]]
    assert next(iter(dataset))["n"].dtype == np.int32


def test_an_image_of_other_channels_fails_in_its_place_and_a_mode_mends_it():
    rows = of_pictures([picture(2, 2), picture(2, 2, "L"), picture(2, 2)])
    iterator = iter(Dataset.from_huggingface(rows))
    next(iterator)
    with pytest.raises(ValueError, match=r"\(2, 2, 1\).*") as raised:
        next(iterator)
    assert raised.value.element_index == 1
    assert int(next(iterator)["n"]) == 2
    alike = rows.cast_column("image", datasets.Image(mode="RGB"))
    assert [r["image"].shape for r in Dataset.from_huggingface(alike)] == [(2, 2, 3)] * 3


def test_files_that_are_not_decoded_are_bytes():
    rows = of_pictures([picture(2, 2)], decode=False)
    (row,) = Dataset.from_huggingface(rows)
    assert bytes(row["image"]["bytes"]).startswith(b"\x89PNG") and row["image"]["path"] == b""


def test_a_damaged_image_fails_in_its_place():
    raw = datasets.Features({"image": datasets.Image(decode=False), "n": datasets.Value("int64")})
    good = of_pictures([picture(2, 2)] * 3, decode=False)[:]
    good["image"][1] = {"bytes": b"no image", "path": None}
    rows = datasets.Dataset.from_dict(good, raw).cast_column("image", datasets.Image())
    iterator = iter(Dataset.from_huggingface(rows))
    assert int(next(iterator)["n"]) == 0
    with pytest.raises(Exception, match="cannot identify image") as raised:
        next(iterator)
    assert raised.value.element_index == 1
    assert int(next(iterator)["n"]) == 2


def test_streams():
    stream = numbers().to_iterable_dataset(num_shards=3)
    dataset = Dataset.from_huggingface(stream)
    assert dataset.element_spec == {"x": TensorSpec((), np.int64), "y": TensorSpec((), np.float64)}
    assert xs(dataset) == xs(dataset) == list(range(ROWS))
    iterator = iter(dataset.batch(7))
    next(iterator)
    again = iter(dataset.batch(7))
    again.restore(iterator.state())
    assert [b["x"].tolist() for b in again] == [b["x"].tolist() for b in iterator]
    unknown = stream.map(lambda row: {"z": row["x"] * 2}, remove_columns=["x", "y"])
    with pytest.raises(ValueError, match="features of this IterableDataset are not known"):
        Dataset.from_huggingface(unknown)
    known = unknown.cast(datasets.Features({"z": datasets.Value("int32")}))
    assert [int(row["z"]) for row in Dataset.from_huggingface(known).take(3)] == [0, 2, 4]
    signed = Dataset.from_huggingface(unknown, {"z": TensorSpec((), np.int16)})
    assert [row["z"].dtype for row in signed.take(2)] == [np.int16] * 2


def test_a_stream_of_every_feature_and_of_images():
    stream = of_all_features().to_iterable_dataset()
    assert [listed(row) for row in Dataset.from_huggingface(stream)] == [
        expected(i) for i in range(12)
    ]
    images = of_pictures([picture(2, 3), picture(4, 1), picture(4, 1)]).to_iterable_dataset()
    shapes = [row["image"].shape for row in Dataset.from_huggingface(images)]
    assert shapes == [(2, 3, 3), (4, 1, 3), (4, 1, 3)]


def of_audio(files, feature):
    stored = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    rows = datasets.Dataset.from_dict({"a": files}, datasets.Features({"a": stored}))
    return rows.cast_column("a", feature)


def with_nulls():
    return datasets.Dataset.from_dict({"x": [1, None, 3], "y": [[1], [None], [2]]})


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (lambda: {"x": [1]}, TypeError, "takes a Dataset or an IterableDataset.*got dict"),
        (
            lambda: datasets.DatasetDict(train=numbers(), test=numbers()),
            TypeError,
            "choose one of 'train', 'test'",
        ),
        (with_nulls, ValueError, "1 rows have a null in column 'x'.*dataset.filter"),
        (
            lambda: with_nulls().select([0, 1]).remove_columns("x"),
            ValueError,
            "1 rows have a null in column 'y'",
        ),
        (
            lambda: of_audio([{"bytes": b"", "path": None}], datasets.Audio()),
            TypeError,
            r"'a' has the feature Audio.*cast_column\('a', datasets.Audio\(decode=False\)\)",
        ),
        (
            lambda: datasets.Dataset.from_dict(
                {"t": [0]}, datasets.Features({"t": datasets.Value("timestamp[s]")})
            ),
            TypeError,
            "'t' has type timestamp",
        ),
    ],
)
def test_refusals(value, error, message):
    with pytest.raises(error, match=message):
        Dataset.from_huggingface(value())


def test_nulls_outside_of_the_indices_do_not_matter():
    assert xs(Dataset.from_huggingface(with_nulls().select([2, 0]))) == [3, 1]


def test_audio_files_as_bytes():
    files = [{"bytes": b"RIFF", "path": None}, {"bytes": None, "path": "x.wav"}]
    rows = of_audio(files, datasets.Audio(decode=False))
    found = [plain(row["a"]) for row in Dataset.from_huggingface(rows)]
    assert found == [{"bytes": b"RIFF", "path": b""}, {"bytes": b"", "path": b"x.wav"}]


def test_arrow_tables_of_lists_of_structs():
    table = pa.table({"s": [[{"a": 1}], [], [{"a": 2}, {"a": 3}]]})
    assert [plain(row) for row in Dataset.from_arrow(table)] == [
        {"s": {"a": [1]}},
        {"s": {"a": []}},
        {"s": {"a": [2, 3]}},
    ]
