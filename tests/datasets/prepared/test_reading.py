"""Prepared files are read as they are; what is damaged or missing is named."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drumline as dl
from drumline import datasets
from drumline.data.elements.errors import DataLossError
from drumline.datasets.features import FeatureError
from drumline.datasets.features.json_format import feature_from_json, feature_to_json
from drumline.datasets.features.stored_values import ExampleEncoder
from drumline.datasets.prepared.directories import Folder, shard_names
from drumline.datasets.prepared.info_json import read_info
from tests.datasets.prepared.every_feature import every_feature, every_value, plain
from tests.datasets.prepared.numbered_files import FEATURES, PREFIX, numbers, write


def test_a_name_and_a_directory_lead_to_the_files(tmp_path: Path) -> None:
    place = write(tmp_path, {"train": [5], "test": [3]})
    for data_dir in (tmp_path, tmp_path / "numbers", place):
        parts, info = datasets.load("numbers", data_dir=data_dir, with_info=True)
        assert numbers(parts["train"]) == [0, 1, 2, 3, 4]
        assert numbers(parts["test"]) == [5, 6, 7]
        assert info.features["label"].int2str(1) == "odd"
        assert info.supervised_keys == ("n", "label")
    made = datasets.builder_from_directory(place)
    assert numbers(made.as_dataset("train[1:2]+test[-1:]")) == [1, 7]
    pairs = made.as_dataset("test", as_supervised=True)
    assert [(int(n), int(label)) for n, label in pairs] == [(5, 1), (6, 0), (7, 1)]
    assert "numbers/1.0.0" in str(made.info) and "ClassLabel, 2 classes" in str(made.info)


def test_what_tfds_has_prepared_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DRUMLINE_DATA_DIR", str(tmp_path / "own"))
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    with pytest.raises(ValueError, match="Unknown dataset 'numbers'"):
        datasets.load("numbers", split="train")
    for count, root in ((1, "home/tensorflow_datasets"), (2, "theirs"), (3, "own")):
        write(tmp_path / root, {"train": [count]})
        monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "theirs"))
        assert len(datasets.load("numbers", split="train")) == count


def test_files_of_another_file_system(tmp_path: Path) -> None:
    import fsspec

    place = write(tmp_path, {"train": [5, 4]})
    system = fsspec.filesystem("memory")
    for path in place.iterdir():
        system.pipe(f"/prepared/numbers/1.0.0/{path.name}", path.read_bytes())
    found, info = datasets.load(
        "numbers", split="train[3:]", data_dir="memory://prepared", with_info=True
    )
    assert numbers(found) == [3, 4, 5, 6, 7, 8]
    assert info.features["label"].names == ["even", "odd"]
    system.rm("/prepared/numbers/1.0.0/numbers-train.tfrecord-00001-of-00002")
    made = datasets.builder_from_directory("memory://prepared/numbers/1.0.0")
    with pytest.raises(FileNotFoundError, match="memory://prepared/.*00001-of-00002 is not there"):
        made.as_dataset("train")
    with pytest.raises(ValueError, match="prepared in a local directory"):
        datasets.load("mnist", split="train", data_dir="memory://prepared")


def test_threads_read_what_is_remote_and_decode_what_is_encoded(tmp_path: Path) -> None:
    import fsspec

    features = {"image": datasets.features.Image(shape=(4, 4, 1)), "label": np.int64}

    class Pictures(datasets.GeneratorBasedBuilder):
        """Four pictures."""

        VERSION = "1.0.0"

        def _info(self) -> Any:
            return self.dataset_info_from_configs(features=datasets.features.FeaturesDict(features))

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Any:
            for i in range(4):
                yield i, {"image": np.full((4, 4, 1), i, np.uint8), "label": i}

    made = Pictures(data_dir=tmp_path)
    made.download_and_prepare(num_shards=2)
    decoded = made.as_dataset("train").explain()
    assert re.search(r"decode\(pictures/1.0.0\), \d+ threads \(AUTOTUNE", decoded)
    assert "read at once" not in decoded  # the system reads local files ahead
    stored = {"image": datasets.SkipDecoding()}
    assert "threads" not in made.as_dataset("train", decoders=stored).explain()

    system = fsspec.filesystem("memory")
    for path in Path(made.data_dir).iterdir():
        system.pipe(f"/remote/pictures/1.0.0/{path.name}", path.read_bytes())
    there = datasets.builder_from_directory("memory://remote/pictures/1.0.0")
    assert "2 read at once (AUTOTUNE" in there.as_dataset("train").explain()
    labels = [[int(each["label"]) for each in one.as_dataset("train")] for one in (made, there)]
    assert labels[0] == labels[1] and sorted(labels[0]) == [0, 1, 2, 3]


def test_files_are_read_by_turns(tmp_path: Path) -> None:
    write(tmp_path, {"train": [20, 3, 40]})
    found = numbers(datasets.load("numbers", split="train", data_dir=tmp_path))
    first, second, third = list(range(20)), [20, 21, 22], list(range(23, 63))
    assert found == [*first[:16], *second, *third[:16], *first[16:], *third[16:]]
    ordered = datasets.ReadConfig(interleave_cycle_length=1)
    assert numbers(
        datasets.load("numbers", split="train", data_dir=tmp_path, read_config=ordered)
    ) == list(range(63))
    part = datasets.load("numbers", split="train[18:30]", data_dir=tmp_path)
    assert sorted(numbers(part)) == list(range(18, 30)) and len(part) == 12


def test_ordered_data_stay_in_order(tmp_path: Path) -> None:
    place = write(tmp_path, {"train": [20, 3, 40]}, disableShuffling=True)
    made = datasets.builder_from_directory(place)
    assert numbers(made.as_dataset("train")) == list(range(63))
    with pytest.raises(ValueError, match="shuffle_files=True would change"):
        made.as_dataset("train", shuffle_files=True)
    free = datasets.ReadConfig(enable_ordering_guard=False, shuffle_seed=3)
    mixed = numbers(made.as_dataset("train", shuffle_files=True, read_config=free))
    assert sorted(mixed) == list(range(63))


def test_configurations_and_versions(tmp_path: Path) -> None:
    for config, version, count in [("a", "1.9.0", 1), ("a", "1.10.2", 2), ("b", "1.0.0", 3)]:
        place = write(tmp_path / "made", {"train": [count]}, configName=config, version=version)
        target = tmp_path / "all" / "numbers" / config / version
        target.parent.mkdir(parents=True, exist_ok=True)
        place.rename(target)

    def count_of(name: str, **kwargs: Any) -> int:
        return len(datasets.load(name, split="train", data_dir=tmp_path / "all", **kwargs))

    assert count_of("numbers/a") == 2 and count_of("numbers/b") == 3
    assert count_of("numbers/a:1.9.0") == 1 and count_of("numbers/a:1.*.*") == 2
    assert count_of("numbers", builder_kwargs={"config": "a", "version": "1.9.0"}) == 1
    with pytest.raises(ValueError, match="has the configurations a, b: name one"):
        count_of("numbers")
    with pytest.raises(ValueError, match="no configuration 'c'.*There are: a, b"):
        count_of("numbers/c")
    with pytest.raises(ValueError, match=r"no version 2\.0\.0 .* there are 1\.10\.2, 1\.9\.0"):
        count_of("numbers/a:2.0.0")
    (tmp_path / "all/numbers/.config").mkdir()
    (tmp_path / "all/numbers/.config/metadata.json").write_text('{"default_config_name": "b"}')
    assert count_of("numbers") == 3
    with pytest.raises(ValueError, match="no name of a dataset"):
        count_of("num bers")
    with pytest.raises(NotImplementedError, match="try_gcs"):
        count_of("numbers", try_gcs=True)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    place = write(tmp_path, {"train": [4, 4, 4]})
    missing = place / "numbers-train.tfrecord-00001-of-00003"
    missing.unlink()
    made = datasets.builder_from_directory(place)
    with pytest.raises(FileNotFoundError, match=f"{missing} is not there"):
        made.as_dataset("train")
    assert numbers(made.as_dataset("train[:4]")) == [0, 1, 2, 3]
    assert made.reader.missing() == [str(missing)]


def test_a_cut_file_is_named_with_the_place(tmp_path: Path) -> None:
    place = write(tmp_path, {"train": [4]})
    cut = place / "numbers-train.tfrecord-00000-of-00001"
    content = cut.read_bytes()
    cut.write_bytes(content[:-7])
    with pytest.raises(DataLossError, match=f"{cut}.*"):
        list(datasets.builder_from_directory(place).as_dataset("train"))
    cut.write_bytes(content[: len(content) // 4])  # one whole record
    with pytest.raises(Exception, match="4"):
        list(datasets.builder_from_directory(place).as_dataset("train"))


@pytest.mark.parametrize(
    ("lengths", "nbytes", "options", "kept"),
    [
        ([4], 1000, {}, True),
        ([2, 2], 1000, {}, True),
        ([2, 2], 250 << 20, {"add_tfds_id": True}, True),
        ([2, 2], (250 << 20) + 1, {}, False),
        ([2, 2], 0, {}, False),
        ([4], 1000, {"try_autocache": False}, False),
        ([4], 1000, {"shuffle_files": True}, True),
        ([2, 2], 1000, {"shuffle_files": True}, False),
        (
            [2, 2],
            1000,
            {"shuffle_files": True, "shuffle_reshuffle_each_iteration": False},
            True,
        ),
        ([2, 2], 1000, {"repeat_filenames": True}, False),
    ],
)
def test_small_data_are_kept_in_memory_as_tfds_does(
    tmp_path: Path, lengths: list[int], nbytes: int, options: dict[str, Any], kept: bool
) -> None:
    """What a first epoch read is there in the second, though the files are gone."""
    place = write(tmp_path, {"train": lengths}, nbytes=nbytes)
    shuffle = options.pop("shuffle_files", False)
    made = datasets.builder_from_directory(place)
    config = datasets.ReadConfig(**options)
    dataset = made.as_dataset("train", shuffle_files=shuffle, read_config=config)
    assert ("cache" in dataset.explain()) == kept
    if options.get("repeat_filenames"):
        return
    first = numbers(dataset)
    for file in place.glob("*.tfrecord*"):
        file.unlink()
    if kept:
        assert numbers(dataset) == first
    else:
        with pytest.raises(OSError, match="tfrecord"):
            numbers(dataset)


@pytest.mark.parametrize("lengths", [[4], [2, 2]])
@pytest.mark.parametrize("add_tfds_id", [False, True])
def test_bytes_behind_the_last_record_are_named(
    tmp_path: Path, lengths: list[int], add_tfds_id: bool
) -> None:
    place = write(tmp_path, {"train": lengths})
    last = place / f"numbers-train.tfrecord-{len(lengths) - 1:05}-of-{len(lengths):05}"
    content = last.read_bytes()
    options: Any = {"read_config": datasets.ReadConfig(add_tfds_id=add_tfds_id)}
    made = datasets.builder_from_directory(place)
    for extra in (b"x", bytes(16), b"x" * 40):
        last.write_bytes(content + extra)
        with pytest.raises(DataLossError, match=rf"{last}: .*byte {len(content):,}"):
            list(made.as_dataset("train", **options))
    assert len(list(made.as_dataset("train[:1]", **options))) == 1
    last.write_bytes(content + content)
    with pytest.raises(ValueError, match="4 elements were expected, there are at least 5"):
        list(made.as_dataset("train", **options))


def test_other_formats_are_refused_by_name(tmp_path: Path) -> None:
    place = write(tmp_path, {"train": [4]}, fileFormat="riegeli")
    with pytest.raises(NotImplementedError, match="'riegeli', which is not read"):
        datasets.builder_from_directory(place).as_dataset("train")


def test_no_description(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"dataset_info\.json is not there"):
        datasets.builder_from_directory(tmp_path)
    place = write(tmp_path, {"train": [4]})
    (place / "features.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"features\.json is not there"):
        datasets.builder_from_directory(place)
    with pytest.raises(ValueError, match="Unknown dataset 'other'"):
        datasets.load("other", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"dataset_info\.json: line 1, column 2"),
        ("[]", "it: it is to be an object"),
        ('{"splits": 3}', "splits: it is to be a list"),
        ('{"splits": [{"name": "a", "shardLengths": ["x"]}]}', r"splits\[0\]\.shardLengths"),
        ('{"splits": [{"name": "a", "shardLengths": ["-1"]}]}', r"splits\[0\]\.shardLengths"),
        ('{"splits": [{"name": "a", "filepathTemplate": "../{SPLIT}"}]}', "template"),
        ('{"splits": [{"name": "a", "filepathTemplate": "{X}"}]}', "template"),
        ('{"name": 3}', "name: it is to be a text"),
        ('{"supervisedKeys": {"tuple": {"items": [{}]}}}', "supervisedKeys"),
        ("\xff", "at byte 0"),
    ],
)
def test_damaged_descriptions_name_the_place(tmp_path: Path, text: str, message: str) -> None:
    place = write(tmp_path, {"train": [4]})
    (place / "dataset_info.json").write_text(text, encoding="latin-1")
    with pytest.raises(datasets.PreparedDataError, match=message):
        datasets.builder_from_directory(place)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "splits", "shardLengths", "dimensions", "dtype", "tensor", "shape"]
                + ["featuresDict", "features", "sequence", "feature", "length", "image", "type"]
                + ["content", "pythonClassName", "supervisedKeys", "tuple", "items", "classLabel"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.lists(st.sampled_from(["featuresDict", "features", "n", "tensor", "shape"])))
def test_any_json_is_features_or_an_error(value: Any, path: list[str]) -> None:
    whole = json.loads(json.dumps(FEATURES))
    place = whole
    for name in path:
        if isinstance(place.get(name), dict):
            place = place[name]
    if isinstance(value, dict):
        place.update(value)
    for given_ in (value, whole):
        try:
            found = feature_from_json(given_)
        except FeatureError:
            continue
        assert feature_to_json(feature_from_json(feature_to_json(found))) == feature_to_json(found)


@given(JSON)
def test_any_json_is_a_description_or_an_error(value: Any) -> None:
    class Memory(Folder):
        def has(self, name: str) -> bool:
            return True

        def names(self) -> list[str]:
            return []

        def read(self, name: str) -> str:
            return json.dumps(FEATURES if name == "features.json" else value)

    with contextlib.suppress(datasets.PreparedDataError):
        read_info(Memory("/nowhere"))


def test_names_of_files() -> None:
    assert shard_names("", "d", "train", "tfrecord", 2) == [
        "d-train.tfrecord-00000-of-00002",
        "d-train.tfrecord-00001-of-00002",
    ]
    assert shard_names("{SPLIT}/x.{FILEFORMAT}-{SHARD_INDEX}", "d", "a", "tfrecord", 1) == [
        "a/x.tfrecord-00000"
    ]


def test_features_of_before_2022_are_read() -> None:
    former = {
        "type": PREFIX + "features_dict.FeaturesDict",
        "content": {
            "image": {
                "type": PREFIX + "image_feature.Image",
                "content": {"shape": [28, 28, 1], "dtype": "uint8", "encoding_format": "png"},
            },
            "label": {
                "type": PREFIX + "class_label_feature.ClassLabel",
                "content": {"num_classes": 10},
            },
            "box": {
                "type": PREFIX + "bounding_boxes.BBoxFeature",
                "content": {},
                "proto_cls": "",
            },
            "words": {
                "type": PREFIX + "sequence_feature.Sequence",
                "content": {
                    "feature": {"type": PREFIX + "text_feature.Text", "content": {}},
                    "length": None,
                },
            },
        },
    }
    f = datasets.features
    assert feature_from_json(former) == f.FeaturesDict(
        {
            "image": f.Image((28, 28, 1), encoding_format="png"),
            "label": f.ClassLabel(10),
            "box": f.BBoxFeature(),
            "words": f.Sequence(f.Text()),
        }
    )
    with pytest.raises(FeatureError, match=r"features: the class 'mine\.Special' is none of"):
        feature_from_json({"type": "mine.Special", "content": {}})


def test_every_feature_returns_as_it_was(tmp_path: Path) -> None:
    f = datasets.features

    class Every(datasets.GeneratorBasedBuilder):
        VERSION = "1.0.0"

        def _info(self) -> datasets.DatasetInfo:
            return self.dataset_info(features=every_feature(f))

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": ((i, every_value(i, f)) for i in range(12))}

    made = Every(data_dir=tmp_path)
    made.download_and_prepare()
    seen = set()
    for example in made.as_dataset("train"):
        i = int(example["int32"])
        seen.add(i)
        given_ = every_value(i, f)
        for name in ("video", "image_of_shape", "image", "image_floats", "bytes_tensor", "dynamic"):
            np.testing.assert_array_equal(example[name], given_[name])
        assert example["ragged"].to_list() == given_["ragged"]
        assert example["ragged_twice"].to_list() == given_["ragged_twice"]
        assert example["ragged_dict"]["x"].to_list() == [e["x"] for e in given_["ragged_dict"]]
        assert [int(each) for each in example["steps_of_numbers"]] == given_["steps_of_numbers"]
        assert [plain(s["seen"]) for s in example["steps"]] == [
            plain(s["seen"]) for s in given_["steps"]
        ]
        for row, images in zip(example["ragged_images"], given_["ragged_images"], strict=True):
            np.testing.assert_array_equal(row, np.array(images).reshape(-1, 2, 2, 3))
        assert example["optional"] == (i if i % 2 == 0 else np.iinfo(np.int64).min)
        assert example["languages"]["language"].tolist() == [b"en", b"fr", b"fr"]
        assert example["uint64"] == 2**63 + i and example["text"] == f"té{i}".encode()
        assert example["labels"].shape == (2, 2, 1)
    assert seen == set(range(12))


@pytest.mark.parametrize(
    ("feature", "entries", "message"),
    [
        ("image", {"x": [b"no picture"]}, "feature 'x': .*no JPEG, PNG, GIF or BMP"),
        ("zlib", {"x": [b"abc"]}, "feature 'x': the values are damaged"),
        ("lengths", {"x/ragged_row_lengths_0": [5], "x/ragged_flat_values": [1]}, "lengths"),
        ("lengths", {"x/ragged_row_lengths_0": [-1, 2], "x/ragged_flat_values": [1]}, "lengths"),
        ("number", {}, "feature 'x'"),
    ],
)
def test_a_damaged_record_is_an_error_after_the_good_ones(
    tmp_path: Path, feature: str, entries: dict[str, Any], message: str
) -> None:
    f = datasets.features
    made = {
        "image": f.Image(shape=(None, None, 1)),
        "zlib": f.Tensor(shape=(2,), dtype=np.int32, encoding="zlib"),
        "lengths": f.Sequence(f.Sequence(np.int64)),
        "number": np.int64,
    }[feature]
    good = {
        "image": np.ones((2, 2, 1), np.uint8),
        "zlib": np.ones(2, np.int32),
        "lengths": [[1], [2, 3]],
        "number": 7,
    }[feature]

    class One(datasets.GeneratorBasedBuilder):
        VERSION = "1.0.0"

        def _info(self) -> datasets.DatasetInfo:
            return self.dataset_info(features={"x": made})

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": ((i, {"x": good}) for i in range(3))}

    builder = One(data_dir=tmp_path)
    builder.download_and_prepare()
    path = builder.data_dir / "one-train.tfrecord-00000-of-00001"
    records = list(dl.data.TFRecordDataset(str(path)))
    assert records[0] == ExampleEncoder(f.FeaturesDict({"x": made})).encode({"x": good})

    def list_of(values: list[Any]) -> Any:
        if isinstance(values[0], bytes):
            return dl.train.Feature(bytes_list=dl.train.BytesList(value=values))
        return dl.train.Feature(int64_list=dl.train.Int64List(value=values))

    bad = dl.train.Example(
        features=dl.train.Features(feature={k: list_of(v) for k, v in entries.items()})
    )
    with dl.io.TFRecordWriter(str(path)) as writer:
        for record in (records[0], records[1], bad.SerializeToString()):
            writer.write(record)
    found = iter(builder.as_dataset("train"))
    assert plain(next(found)["x"]) == plain(next(found)["x"])
    with pytest.raises(ValueError, match=message):
        next(found)


@pytest.mark.parametrize("split", ["train", "train[2:]"])
def test_a_file_that_is_too_short_is_named_whatever_is_read(tmp_path: Path, split: str) -> None:
    class Few(datasets.GeneratorBasedBuilder):
        VERSION = "1.0.0"

        def _info(self) -> datasets.DatasetInfo:
            return self.dataset_info(features={"x": np.int64})

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": ((i, {"x": i}) for i in range(4))}

    builder = Few(data_dir=tmp_path)
    builder.download_and_prepare()
    path = builder.data_dir / "few-train.tfrecord-00000-of-00001"
    path.write_bytes(b"")
    with pytest.raises(datasets.PreparedDataError, match=f"{path}: its 0 bytes are too few for"):
        builder.as_dataset(split)
    lenient = datasets.ReadConfig(assert_cardinality=False)
    assert list(builder.as_dataset("train", read_config=lenient)) == []
