"""Prepared datasets are interchangeable with TensorFlow Datasets, for every feature."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from drumline import datasets
from tests.datasets.prepared.every_feature import every_feature, every_value, plain

tfds = pytest.importorskip(
    "tensorflow_datasets", reason="compares with TensorFlow Datasets (the extra `reference`)"
)

TRAIN, TEST, SHARDS = 103, 7, 20


class EveryFeature(datasets.GeneratorBasedBuilder):
    """Every feature."""

    name = "every"
    VERSION = "1.2.3"
    BUILDER_CONFIGS = (datasets.BuilderConfig("one", description="The only one."),)

    def _info(self) -> datasets.DatasetInfo:
        return self.dataset_info(
            features=every_feature(datasets.features),
            supervised_keys=("image", "class"),
            description="Every feature.",
            homepage="https://example.org",
            citation="@cite{x}",
        )

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._examples(0, TRAIN), "test": self._examples(TRAIN, TEST)}

    def _examples(self, first: int, count: int) -> Any:
        for i in range(first, first + count):
            yield f"key{i}", every_value(i, datasets.features)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same data, prepared by TFDS."""

    class Every(tfds.core.GeneratorBasedBuilder):
        """Every feature."""

        VERSION = tfds.core.Version("1.2.3")
        BUILDER_CONFIGS = [  # noqa: RUF012
            tfds.core.BuilderConfig(name="one", description="The only one.")
        ]

        def _info(self) -> Any:
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict(every_feature(tfds.features)),
                supervised_keys=("image", "class"),
                description="Every feature.",
                homepage="https://example.org",
                citation="@cite{x}",
            )

        def _split_generators(self, dl_manager: Any) -> Any:
            return {
                "train": self._generate_examples(0, TRAIN),
                "test": self._generate_examples(TRAIN, TEST),
            }

        def _generate_examples(self, first: int, count: int) -> Any:
            for i in range(first, first + count):
                yield f"key{i}", every_value(i, tfds.features)

    made = Every(data_dir=str(tmp_path_factory.mktemp("theirs")))
    config = tfds.download.DownloadConfig(num_shards=SHARDS)
    with pytest.MonkeyPatch.context() as patch:
        # A split of 7 examples cannot have 20 files.
        shards = tfds.core.utils.shard_utils.ShardConfig
        number = shards.get_number_shards
        patch.setattr(
            shards,
            "get_number_shards",
            lambda self, size, count, *a: min(number(self, size, count, *a), count),
        )
        made.download_and_prepare(download_config=config)
    return made


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> EveryFeature:
    """The data, prepared by drumline."""
    made = EveryFeature(data_dir=tmp_path_factory.mktemp("ours"))
    made.download_and_prepare(num_shards=SHARDS)
    return made


def numbers(dataset: Any) -> list[int]:
    return [int(example["int32"]) for example in dataset]


def test_we_read_what_tfds_prepared(theirs: Any) -> None:
    root = pathlib.Path(theirs.data_dir).parents[2]
    found, info = datasets.load("every", split="train", data_dir=root, with_info=True)
    assert len(found) == TRAIN
    for mine, other in zip(found, theirs.as_dataset(split="train"), strict=True):
        assert list(mine) == sorted(every_feature(datasets.features))
        for name, value in mine.items():
            assert plain(value) == plain(other[name]), name
    assert info.features["class"].names == ["cat", "dog"]
    assert info.features["objects"]["area"].dtype == np.int64
    assert info.full_name == theirs.info.full_name
    assert repr(info.features) == repr(theirs.info.features)
    assert info.splits.sizes == {n: s.num_examples for n, s in theirs.info.splits.items()}
    assert (info.citation, info.homepage) == (theirs.info.citation, theirs.info.homepage)


def test_tfds_reads_what_we_prepared(ours: EveryFeature, theirs: Any) -> None:
    read = tfds.builder_from_directory(str(ours.data_dir))
    assert read.info.full_name == theirs.info.full_name
    assert read.info.supervised_keys == ("image", "class")
    assert repr(read.info.features) == repr(theirs.info.features)
    assert read.info.features["labels"].names == ["x", "y"]
    for split in ("train", "test"):
        lengths = {s: s.info.splits[split].shard_lengths for s in (read, theirs)}
        assert list(lengths[read]) == list(lengths[theirs])
        pairs = zip(read.as_dataset(split=split), theirs.as_dataset(split=split), strict=True)
        for mine, other in pairs:
            for name, value in mine.items():
                assert plain(value) == plain(other[name]), name


EXPRESSIONS = [
    "train",
    "test",
    "all",
    "train[:50%]",
    "train[33%:66%]",
    "train[-10%:]+test",
    "train[5:47]",
    "train[-3:]",
    "train[2shard:5shard]",
    "train[3shard]",
    "train[-1shard]",
    "test+train[:4]",
    "train[99%:]",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_select_the_same_in_the_same_order(
    expression: str, ours: EveryFeature, theirs: Any
) -> None:
    only = tfds.decode.PartialDecoding({"int32": True})
    expected = numbers(theirs.as_dataset(split=expression, decoders=only))
    found = ours.as_dataset(expression, decoders=datasets.PartialDecoding({"int32": True}))
    assert numbers(found) == expected
    assert ours.info.splits[expression].num_examples == len(expected)


def test_even_parts_and_instructions(ours: EveryFeature, theirs: Any) -> None:
    only = tfds.decode.PartialDecoding(["int32"])
    mine = datasets.PartialDecoding(["int32"])
    for drop in (False, True):
        parts = zip(
            datasets.even_splits("train[10%:]+test", 4, drop_remainder=drop),
            tfds.even_splits("train[10%:]+test", 4, drop_remainder=drop),
            strict=True,
        )
        for part, other in parts:
            expected = numbers(theirs.as_dataset(split=other, decoders=only))
            assert numbers(ours.as_dataset(part, decoders=mine)) == expected
    for given in [
        {"to": 20, "unit": "%", "rounding": "pct1_dropremainder"},
        {"from_": -30, "unit": "%", "rounding": "pct1_dropremainder"},
        {"from_": 3, "to": 40, "unit": "abs"},
        {"from_": 1, "unit": "shard"},
    ]:
        other = tfds.core.ReadInstruction("train", **given)
        expected = numbers(theirs.as_dataset(split=other, decoders=only))
        part = datasets.ReadInstruction("train", **given)  # type: ignore[arg-type]
        assert numbers(ours.as_dataset(part, decoders=mine)) == expected


def test_what_is_not_decoded_and_ids(ours: EveryFeature, theirs: Any) -> None:
    names = ["image", "images", "dynamic", "bytes_tensor", "int32"]
    skips = {
        library: library.decode.SkipDecoding() if library is tfds else datasets.SkipDecoding()
        for library in (tfds, datasets)
    }
    mine = ours.as_dataset(
        "train",
        decoders=dict.fromkeys(names, skips[datasets]),
        read_config=datasets.ReadConfig(add_tfds_id=True),
    )
    other = theirs.as_dataset(
        split="train",
        decoders=dict.fromkeys(names, skips[tfds]),
        read_config=tfds.ReadConfig(add_tfds_id=True),
    )
    # The files of pictures are not compressed by the same encoder: those of our files, by TFDS.
    again = tfds.builder_from_directory(str(ours.data_dir)).as_dataset(
        split="train", decoders=dict.fromkeys(names, skips[tfds])
    )
    for a, b, c in zip(mine, other, again, strict=True):
        assert a["tfds_id"] == b["tfds_id"].numpy()
        for name in names:
            assert plain(a[name]) == plain(c[name]), name


def test_supervised_pairs_and_batches(ours: EveryFeature, theirs: Any) -> None:
    pairs = zip(
        ours.as_dataset("test", as_supervised=True),
        theirs.as_dataset(split="test", as_supervised=True),
        strict=True,
    )
    for mine, other in pairs:
        assert [plain(value) for value in mine] == [plain(value) for value in other]
    only = {"of_length": True, "class": True}
    batch = ours.as_dataset("test", batch_size=-1, decoders=datasets.PartialDecoding(only))
    other = theirs.as_dataset(
        split="test", batch_size=-1, decoders=tfds.decode.PartialDecoding(only)
    )
    assert plain(batch) == plain(other)


def test_array_records_both_ways(tmp_path: pathlib.Path, theirs: Any) -> None:
    pytest.importorskip("array_record", reason="reads ArrayRecord files (the extra array_record)")
    made = EveryFeature(data_dir=tmp_path)
    made.download_and_prepare(num_shards=SHARDS, file_format="array_record")
    only = tfds.decode.PartialDecoding({"int32": True})
    expected = numbers(theirs.as_dataset(split="train[7:99]", decoders=only))
    mine = datasets.PartialDecoding({"int32": True})
    found = made.as_dataset("train[7:99]", decoders=mine)
    assert numbers(found) == expected
    assert found.index(5)["int32"] == expected[5]
    read = tfds.builder_from_directory(str(made.data_dir))
    method = tfds.decode.DeserializeMethod.DESERIALIZE_NO_DECODE
    source = read.as_data_source(split="test", deserialize_method=method)
    found = sorted(each.features.feature["int32"].int64_list.value[0] for each in source)
    assert found == list(range(TRAIN, TRAIN + TEST))
