"""What other programs wrote is read to the bit, and they read what is written here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import keras
import ml_dtypes
import numpy as np
import pytest

import drumline as dl
from drumline.checkpoints import conversion, orbax_files
from tests.checkpoints.examples import TENSORS, plain, same, tree_of, write_set


@pytest.fixture
def safetensors() -> Any:
    pytest.importorskip("safetensors", reason="compares with Hugging Face's own package")
    import safetensors.numpy

    return safetensors.numpy


@pytest.fixture
def ocp() -> Any:
    return pytest.importorskip("orbax.checkpoint", reason="needs Orbax, of the extra orbax")


def trained() -> keras.Model:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    rows = np.random.default_rng(1).random((8, 3), np.float32)
    model.fit(rows, rows[:, :2], batch_size=4, epochs=2, verbose=0)
    return model


def saved(folder: Path, model: keras.Model) -> str:
    batches = iter(dl.data.Dataset.range(10).batch(2))
    next(batches)
    checkpoint = dl.train.Checkpoint(model=model, batches=batches)
    checkpoint.save(folder / "ckpt")
    return checkpoint.save(folder / "ckpt")


def test_a_trained_models_checkpoint_in_hugging_faces_package(
    tmp_path: Path, safetensors: Any
) -> None:
    model = trained()
    path = saved(tmp_path / "saved", model)
    file = dl.train.convert_checkpoint(path, tmp_path / "model.safetensors")
    found = safetensors.load_file(file)
    own = dl.train.open_checkpoint(path)
    assert found.keys() == own.tensors.keys() and len(found) > 10
    for name in own.names():
        assert same(found[name], own.read(name)), name
    kernel = found["model/layers/0/variables/0"]
    assert same(kernel, np.asarray(model.layers[0].kernel))


def test_names_of_a_trained_model_may_be_those_of_its_weights(tmp_path: Path) -> None:
    model = trained()
    path = saved(tmp_path / "saved", model)
    rules = {"model/layers/*/variables/0": "layers.*.weight"}
    file = dl.train.convert_checkpoint(path, tmp_path / "model.safetensors", rename=rules)
    found = dl.train.open_checkpoint(file)
    assert same(found.read("layers.1.weight"), np.asarray(model.layers[1].kernel))


@pytest.mark.parametrize("shard_size", [None, 60])
def test_hugging_faces_package_reads_what_is_written(
    tmp_path: Path, safetensors: Any, shard_size: int | None
) -> None:
    (tmp_path / "source.safetensors").write_bytes(plain(TENSORS, {"format": "np", "who": "a"}))
    place = dl.train.convert_checkpoint(
        tmp_path / "source.safetensors", tmp_path / "out", shard_size=shard_size
    )
    files = sorted(place.glob("*.safetensors"))
    assert len(files) == (1 if shard_size is None else 3)
    from safetensors import deserialize, safe_open

    found: dict[str, Any] = {}
    for file in files:
        found |= dict(deserialize(file.read_bytes()))
        with safe_open(file, "np") as opened:
            assert opened.metadata() == {"format": "np", "who": "a"}
    assert found.keys() == TENSORS.keys()
    for name, array in TENSORS.items():  # its module for numpy has no bfloat16
        assert bytes(found[name]["data"]) == array.tobytes()
        assert tuple(found[name]["shape"]) == array.shape
    assert {found[name]["dtype"] for name in ("half", "eighth")} == {"BF16", "F8_E4M3"}


def test_what_hugging_faces_package_wrote_in_two_shards_is_restored_by_names(
    tmp_path: Path, safetensors: Any
) -> None:
    model = trained()
    values = [np.asarray(weight) for weight in model.weights]
    names = ["0.weight", "0.bias", "1.weight", "1.bias"]
    expected = dict(zip(names, values, strict=True))
    write_set(tmp_path, {n: expected[n] for n in names[:2]}, {n: expected[n] for n in names[2:]})
    for number, part in enumerate((names[:2], names[2:]), 1):
        safetensors.save_file(
            {name: expected[name] for name in part},
            tmp_path / f"model-{number:05}-of-00002.safetensors",
            {"format": "np"},
        )
    assert list(dl.train.verify_checkpoint(tmp_path)) == []
    keras.utils.set_random_seed(4)
    other = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2)])
    other.build((None, 3))
    paths = [weight.path for weight in other.weights]
    unused = dl.train.load_weights(other, tmp_path, dict(zip(names, paths, strict=True)))
    assert unused == []
    for weight, value in zip(other.weights, values, strict=True):
        assert same(weight, value)


def test_orbax_reads_what_is_written(tmp_path: Path, ocp: Any, monkeypatch: Any) -> None:
    # Groups and pieces so small that each tensor is written in several.
    monkeypatch.setattr(orbax_files, "_GROUP_BYTES", 40)
    monkeypatch.setattr(orbax_files, "PIECE_BYTES", 24)
    (tmp_path / "source.safetensors").write_bytes(plain(TENSORS))
    place = dl.train.convert_checkpoint(tmp_path / "source.safetensors", tmp_path / "out", "orbax")
    assert dl.train.open_checkpoint(place).tensors["block/0/kernel"].parts == 2
    for checkpointer in (ocp.PyTreeCheckpointer(), ocp.StandardCheckpointer()):
        found = checkpointer.restore(place)
        expected = tree_of(TENSORS)
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        assert all(jax.tree.leaves(jax.tree.map(same, found, expected)))
    target = jax.tree.map(
        lambda array: jax.ShapeDtypeStruct(
            array.shape, array.dtype, sharding=jax.sharding.SingleDeviceSharding(jax.devices()[1])
        ),
        tree_of({"half": TENSORS["half"], "block/0/kernel": TENSORS["block/0/kernel"]}),
    )
    some = dl.train.convert_checkpoint(_two(tmp_path), tmp_path / "two", "orbax")
    placed = ocp.StandardCheckpointer().restore(some, target)
    assert same(placed["half"], TENSORS["half"])
    assert placed["half"].devices() == {jax.devices()[1]}


def _two(folder: Path) -> Path:
    file = folder / "two.safetensors"
    file.write_bytes(plain({name: TENSORS[name] for name in ("half", "block/0/kernel")}))
    return file


@pytest.mark.parametrize("kind", ["tree", "standard", "folders", "zarr3", "manager"])
def test_what_orbax_wrote_is_read(tmp_path: Path, ocp: Any, kind: str) -> None:
    tree = tree_of(TENSORS)
    place = tmp_path / "out"
    if kind == "tree":
        tree |= {"text": "words", "none": None, "empty": {}, "list": [np.ones(2), 3]}
        ocp.PyTreeCheckpointer().save(place, tree)
    elif kind == "standard":
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(place, tree)
    elif kind == "manager":
        with ocp.CheckpointManager(place) as manager:
            for step in (3, 20):
                tree["steps"] = np.array(step)
                manager.save(step, args=ocp.args.StandardSave(tree))
    else:
        handler = ocp.PyTreeCheckpointHandler(use_ocdbt=kind == "zarr3", use_zarr3=kind == "zarr3")
        ocp.Checkpointer(handler).save(place, args=ocp.args.PyTreeSave(tree))
    found = dl.train.open_checkpoint(place)
    assert found.format == "orbax"
    expected = dict(TENSORS)
    if kind == "manager":
        assert found.step == 20
        expected["steps"] = np.array(20)
    if kind == "tree":
        expected |= {"list/0": np.ones(2), "list/1": np.array(3)}
        (left_out,) = found.left_out
        assert all(name in left_out for name in ("text (string)", "none (None)", "empty (Dict)"))
    assert set(found.names()) == set(expected)
    assert all(same(found.read(name), array) for name, array in expected.items())
    assert list(dl.train.verify_checkpoint(place, finite=True)) == []
    if kind == "manager":
        newest = dl.train.open_checkpoint(place / "3")
        assert newest.step == 3 and same(newest.read("steps"), np.array(3))


def test_items_of_a_step_are_told_apart(tmp_path: Path, ocp: Any) -> None:
    with ocp.CheckpointManager(tmp_path / "out") as manager:
        args = ocp.args.Composite(
            weights=ocp.args.StandardSave({"a": np.ones(2)}),
            slots=ocp.args.StandardSave({"a": np.zeros(3)}),
            about=ocp.args.JsonSave({"x": 1}),
        )
        manager.save(1, args=args)
    found = dl.train.open_checkpoint(tmp_path / "out")
    assert sorted(found.names()) == ["slots/a", "weights/a"]
    assert found.read("slots/a").shape == (3,)


@pytest.mark.parametrize("suffix", [".weights.h5", ".keras"])
def test_what_keras_wrote_is_read(tmp_path: Path, suffix: str) -> None:
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2, dtype="bfloat16")])
    model.build((None, 3))
    file = tmp_path / f"model{suffix}"
    model.save(file) if suffix == ".keras" else model.save_weights(file)
    found = dl.train.open_checkpoint(file)
    names = [f"layers/{layer}/vars/{n}" for layer in ("dense", "dense_1") for n in (0, 1)]
    assert [name for name in found.names() if name.startswith("layers/")] == names
    for name, weight in zip(names, model.weights, strict=True):
        value = np.asarray(weight)
        entry = found.tensors[name]
        assert same(found.read(name), value)
        at = np.fromfile(file, entry.dtype, entry.size, offset=entry.offset)
        assert same(at.reshape(entry.shape), value), "the offset leads to it"
    assert found.read(names[2]).dtype == ml_dtypes.bfloat16
    assert list(dl.train.verify_checkpoint(file, finite=True)) == []


def test_from_one_format_to_the_next_and_back(tmp_path: Path, ocp: Any) -> None:
    (tmp_path / "0.safetensors").write_bytes(plain(TENSORS))
    place = tmp_path / "0.safetensors"
    for number, form in enumerate(("orbax", "drumline", "safetensors", "drumline", "orbax"), 1):
        place = dl.train.convert_checkpoint(place, tmp_path / f"{number}", form)
        found = dl.train.open_checkpoint(place)
        assert found.format == form
        assert found.tensors.keys() == TENSORS.keys()
        assert all(same(found.read(name), array) for name, array in TENSORS.items())
        assert list(dl.train.verify_checkpoint(place)) == []


def test_tensors_are_read_in_pieces(tmp_path: Path, monkeypatch: Any) -> None:
    from drumline.checkpoints import keras_files, safetensors_files

    monkeypatch.setattr(safetensors_files, "PIECE_BYTES", 16)
    monkeypatch.setattr(keras_files, "PIECE_BYTES", 16)
    model = trained()
    model.save_weights(tmp_path / "model.weights.h5")
    for source in (saved(tmp_path / "saved", model), tmp_path / "model.weights.h5"):
        reader = dl.train.open_checkpoint(source)
        for name, entry in reader.tensors.items():
            pieces = list(reader.pieces(name))
            assert all(0 < piece.nbytes <= 16 and piece.ndim == 1 for piece in pieces)
            assert sum(piece.size for piece in pieces) == entry.size
        place = dl.train.convert_checkpoint(source, tmp_path / "out", force=True)
        written = dl.train.open_checkpoint(place)
        assert all(same(written.read(name), reader.read(name)) for name in reader.names())
    assert conversion.SHARD_BYTES == 5e9
