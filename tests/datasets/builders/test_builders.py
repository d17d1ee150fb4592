"""Every dataset is read from its archive's layout, through the public functions."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drumline import datasets
from drumline.datasets.builders.bases import labels_file
from drumline.datasets.registry import builder_class
from tests.datasets.builders.archives import prepared
from tests.datasets.builders.declared import DECLARED, digest_of
from tests.datasets.builders.fabricated import FABRICATED
from tests.datasets.builders.fabricated_sounds import speech_commands

UNKNOWN_FILES = ("california_housing", "esc50", "gtzan", "wikitext")
"""Whose sizes or checksums are not known."""


def comparable(example: Any) -> str:
    """Return an example as text that is equal for equal ones."""
    if isinstance(example, dict):
        return repr({name: comparable(example[name]) for name in sorted(example)})
    if isinstance(example, bytes):
        return repr(example)
    array = np.asarray(example)
    number = array.dtype.kind in "iu" and array.ndim == 0
    if array.dtype == object:
        return repr((array.shape, array.tolist()))
    return repr((None if number else array.dtype.name, array.shape, array.tolist()))


@pytest.mark.parametrize("name", FABRICATED)
def test_every_example_is_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = FABRICATED[name]()
    prepared(name, made, tmp_path, monkeypatch)
    found, info = datasets.load(name, data_dir=tmp_path / "data", with_info=True)
    assert sorted(found) == sorted(made.examples)
    for split, expected in made.examples.items():
        read = list(found[split])
        assert sorted(map(comparable, read)) == sorted(map(comparable, expected)), split
        assert info.splits[split].num_examples == len(expected)
    assert info.homepage and info.citation and info.description
    first = next(iter(made.examples))
    part = datasets.load(name, split=f"{first}[50%:]", data_dir=tmp_path / "data")
    count = len(made.examples[first])
    assert len(part) == count - round(count / 2)
    if info.supervised_keys is not None:
        pair = next(
            iter(datasets.load(name, split=first, data_dir=tmp_path / "data", as_supervised=True))
        )
        assert len(pair) == len(info.supervised_keys)


def test_every_builder_has_an_archive_and_says_what_it_is() -> None:
    fabricated = {name.partition("/")[0] for name in FABRICATED}
    assert {*datasets.list_builders()} - fabricated == {"digits", "keras", "sklearn"}
    for name in fabricated:
        cls: Any = builder_class(name)
        made = cls(data_dir="/nowhere")
        info = made.info
        assert info.citation and info.homepage and len(info.features), name
        # TFDS says what the files are; where it has no such dataset, the notes say so.
        unknown = name in UNKNOWN_FILES or any("not verified" in note for note in info.notes)
        for resource in made.resources.values():
            assert (resource.size and resource.sha256) or unknown, resource.url


@pytest.mark.parametrize("name", DECLARED)
def test_what_is_declared_changes_by_intention_only(name: str) -> None:
    """Sizes of splits, the order of classes, input and target: no archive would tell of a slip."""
    assert digest_of(name) == DECLARED[name], "if that is meant, compare with TFDS and note it here"


def test_a_builder_is_a_declaration_of_at_most_60_lines() -> None:
    """Those of the packages and of files in place are mechanisms of their own."""
    folder = Path(labels_file("x")).parents[1]
    lines = {
        found.name: found.end_lineno - found.lineno + 1
        for path in folder.glob("*.py")
        for found in ast.parse(path.read_text()).body
        if isinstance(found, ast.ClassDef) and found.end_lineno is not None
    }
    assert len(lines) > 80
    longer = {name for name, count in lines.items() if count > 60}
    assert longer <= {"_LibrarySets", "MnistFiles"}


def test_labels_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared("cifar10", FABRICATED["cifar10"](), tmp_path, monkeypatch)
    assert made.info.features["label"].int2str(3) == "cat"
    pets = prepared("oxford_iiit_pet", FABRICATED["oxford_iiit_pet"](), tmp_path, monkeypatch)
    assert pets.info.features["species"].names == ["Cat", "Dog"]
    assert pets.info.features["label"].int2str(1) == "american_bulldog"
    dishes = datasets.builder("food101", data_dir=tmp_path).info.features["label"]
    assert [dishes.int2str(i) for i in (16, 17)] == ["cheesecake", "cheese_plate"]  # as in TFDS
    flowers = datasets.builder("oxford_flowers102", data_dir=tmp_path)
    assert flowers.info.features["label"].names[101] == "blackberry lily"


def test_mnist_in_place_goes_before_a_download(tmp_path: Path) -> None:
    from tests.datasets.idx_files import write_mnist

    write_mnist(tmp_path / "mnist", "train", 30)
    write_mnist(tmp_path / "mnist", "t10k", 20)
    assert len(datasets.load("mnist", split="train", data_dir=tmp_path)) == 30


def test_houses_are_what_scikit_learn_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("sklearn.datasets._california_housing")
    made = FABRICATED["california_housing"]()
    (content,) = made.files.values()
    archive = tmp_path / "cal_housing.tgz"
    archive.write_bytes(content)
    monkeypatch.setattr(module, "_fetch_remote", lambda *args, **options: str(archive))
    theirs = module.fetch_california_housing(data_home=str(tmp_path / "sklearn"))
    prepared("california_housing", made, tmp_path, monkeypatch)
    read = list(datasets.load("california_housing", split="train", data_dir=tmp_path / "data"))
    names = theirs.feature_names
    rows = sorted([float(each["features"][name]) for name in names] for each in read)
    assert np.allclose(rows, sorted(theirs.data.tolist()), rtol=1e-6)
    assert np.allclose(sorted(float(each["MedHouseVal"]) for each in read), sorted(theirs.target))


def test_sounds_that_are_damaged_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = speech_commands(damaged=True)
    read = prepared("speech_commands", made, tmp_path, monkeypatch)
    assert read.info.splits.sizes == {split: len(of) for split, of in made.examples.items()}
