"""``save`` in shards and compressed, and ``load`` of what was saved so."""

import itertools
import json
import os

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset
from drumline.data.storage import saved as stored_shards
from tests.data.storage.test_store import bits, kinds


@pytest.mark.parametrize(
    ("packing", "shards"),
    [("GZIP", None), ("SNAPPY", None), pytest.param("GZIP", 3, marks=pytest.mark.thorough)],
)
def test_every_kind_of_leaf_survives_compression(tmp_path, monkeypatch, packing, shards):
    monkeypatch.setattr(stored_shards, "_PART_NBYTES", 2000)
    shard_func = None if shards is None else (lambda e: e["wide"] // 4)
    kinds(11).save(tmp_path / "a", compression=packing, shard_func=shard_func)
    assert len(list((tmp_path / "a").glob("*/dataset.json"))) > 1
    loaded = Dataset.load(tmp_path / "a", reader_func=lambda d: d.flat_map(lambda shard: shard))
    assert bits(loaded) == bits(kinds(11))
    assert type(next(iter(loaded))["pairs"]).__name__ == "Pair"
    assert bits(Dataset.load(tmp_path / "a", kinds(11).element_spec, packing)) != []


def test_shards_are_directories_that_numpy_reads(tmp_path):
    Dataset.range(10).save(tmp_path / "a", shard_func=lambda i: i % 3 * 2)
    names = sorted(os.listdir(tmp_path / "a"))
    assert names == ["0-0", "2-0", "4-0", "dataset.json"]
    assert np.load(tmp_path / "a" / "2-0" / "0.values.npy").tolist() == [1, 4, 7]
    assert list(Dataset.load(tmp_path / "a")) == list(range(10))
    assert os.listdir(tmp_path) == ["a"]


def test_a_reader_gets_a_dataset_of_datasets(tmp_path):
    pairs = Dataset.from_tensor_slices((np.arange(6), np.arange(6.0)))
    pairs.save(tmp_path / "a", shard_func=lambda a, b: (a < 2).astype(np.int32))
    loaded = Dataset.load(tmp_path / "a", reader_func=lambda d: d.skip(1).flat_map(lambda s: s))
    assert list(loaded) == [(0, 0.0), (1, 1.0)]
    lengths = Dataset.load(tmp_path / "a", reader_func=lambda d: d.map(lambda s: s.cardinality()))
    assert list(lengths) == [4, 2]


def test_python_functions_may_choose_shards(tmp_path):
    words = Dataset.from_tensor_slices([b"a", b"bb", b"c", b"dd"])
    words.save(tmp_path / "a", shard_func=lambda word: len(word))
    assert list(Dataset.load(tmp_path / "a")) == [b"a", b"bb", b"c", b"dd"]
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["1-0", "2-0", "dataset.json"]


def test_resuming_in_compressed_elements(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_shards, "_PART_NBYTES", 64)
    Dataset.range(60).save(tmp_path / "a", "GZIP")
    for used in (0, 1, 31, 60):
        iterator = iter(Dataset.load(tmp_path / "a").batch(7).unbatch())
        assert list(itertools.islice(iterator, used)) == list(range(used))
        again = iter(Dataset.load(tmp_path / "a").batch(7).unbatch())
        again.restore(json.loads(json.dumps(iterator.state())))
        assert list(again) == list(iterator) == list(range(used, 60))
    assert list(Dataset.load(tmp_path / "a").skip(55)) == [55, 56, 57, 58, 59]


def test_nothing_stored_in_shards(tmp_path):
    Dataset.range(0).save(tmp_path / "a", "GZIP", lambda i: i)
    assert list(Dataset.load(tmp_path / "a")) == []
    assert list(Dataset.load(tmp_path / "a", reader_func=lambda d: d.flat_map(lambda s: s))) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda a: os.truncate(a / "0-0" / "0.values.npy.gz", 60),
            "0.values.npy.gz: .* it cannot be read",
        ),
        (lambda a: os.remove(a / "0-0" / "dataset.json"), "no dataset is stored"),
        (
            lambda a: (a / "0-0").rename(a / "b") and Dataset.range(3).save(a / "0-0"),
            "says 5 x",
        ),
    ],
)
def test_damage_is_named(tmp_path, damage, message):
    Dataset.range(5).save(tmp_path / "a", "GZIP")
    damage(tmp_path / "a")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        list(Dataset.load(tmp_path / "a"))


@pytest.mark.parametrize("packing", ["GZIP", "SNAPPY"])
def test_a_flipped_bit_is_found(tmp_path, packing):
    Dataset.range(500).save(tmp_path / "a", packing)
    (file,) = (tmp_path / "a" / "0-0").glob("*.npy.*")
    whole = bytearray(file.read_bytes())
    whole[-6] ^= 1
    file.write_bytes(whole)
    with pytest.raises(ValueError, match="cannot be read: (CRC check failed|.*orrupt)"):
        list(Dataset.load(tmp_path / "a"))


def rewrite_description(directory, old, new):
    """Change what a directory says of itself, with no checksum, as older releases wrote it."""
    described = directory / "dataset.json"
    text = json.loads(described.read_text().replace(old, new))
    described.write_text(json.dumps({k: text[k] for k in text.keys() - {"crc32", "checksums"}}))


def test_a_compression_of_later_times(tmp_path):
    Dataset.range(5).save(tmp_path / "a", "SNAPPY")
    rewrite_description(tmp_path / "a", "SNAPPY", "ZSTD")
    with pytest.raises(ValueError, match="with compression 'ZSTD', this drumline reads GZIP and"):
        Dataset.load(tmp_path / "a")


def test_names_of_parts_stay_inside(tmp_path):
    Dataset.range(5).save(tmp_path / "a", "GZIP")
    rewrite_description(tmp_path / "a", "0-0", "../x")
    with pytest.raises(ValueError, match="is no part of a shard"):
        Dataset.load(tmp_path / "a")


def test_refusals(tmp_path):
    ds = Dataset.range(5)
    with pytest.raises(ValueError, match="compression must be.*got 'LZ4'"):
        ds.save(tmp_path / "a", "LZ4")
    with pytest.raises(TypeError, match="must return one integer"):
        ds.save(tmp_path / "a", shard_func=lambda i: i * 0.5)
    with pytest.raises(ValueError, match="shard_func returned -1"):
        ds.save(tmp_path / "a", shard_func=lambda i: i - 1)
    assert os.listdir(tmp_path) == []
    ds.save(tmp_path / "a")
    with pytest.raises(ValueError, match="was saved with compression None, not 'GZIP'"):
        Dataset.load(tmp_path / "a", compression="GZIP")
    with pytest.raises(ValueError, match="holds elements of"):
        Dataset.load(tmp_path / "a", dl.TensorSpec((), np.int32))
    with pytest.raises(TypeError, match="reader_func must return a Dataset, it returned list"):
        Dataset.load(tmp_path / "a", reader_func=list)
    with pytest.raises(ValueError, match="must return a dataset of"):
        ds.snapshot(tmp_path / "s", reader_func=lambda d: d.map(lambda s: s.cardinality()))
    with pytest.raises(TypeError, match="datasets and ragged arrays cannot be stored"):
        ds.window(2).snapshot(tmp_path / "s")
