"""``drumline datasets``: list, info, prepare and verify."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from drumline import datasets
from drumline.cli import app
from drumline.datasets import command, registry
from tests.datasets.builders.archives import prepared
from tests.datasets.builders.fabricated import FABRICATED


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["datasets", *arguments], env={"COLUMNS": "160"})
    return result.exit_code, result.output


def test_from_nothing_to_a_verified_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ["--data-dir", str(tmp_path / "data")]
    code, text = run("info", "cifar10", *where)
    assert code == 0
    for expected in ("cifar10/3.0.2", "50,000", "ClassLabel, 10 classes", "Citation", "Krizhevsky"):
        assert expected in text
    made = prepared("cifar10", FABRICATED["cifar10"](), tmp_path, monkeypatch)
    code, text = run("prepare", "cifar10", *where)
    assert code == 0 and "cifar10/3.0.2: 18 examples" in text
    code, text = run("list", *where)
    assert code == 0 and "imdb_reviews" in text and "3.0.2" in text
    code, text = run("verify", "cifar10", *where)
    assert code == 0 and "train: 15 examples, all of them whole" in text
    shard = Path(made.data_dir) / "cifar10-train.tfrecord-00000-of-00001"
    shard.write_bytes(shard.read_bytes()[:-5])
    code, text = run("verify", "cifar10", *where)
    assert code == 1 and str(shard) in text.replace("\n", "")
    shard.unlink()
    code, text = run("verify", "cifar10", *where)
    assert code == 1 and "missing" in text


def test_the_page_says_how_to_load_it_and_what_classes_are_called(tmp_path: Path) -> None:
    where = ["--data-dir", str(tmp_path)]
    _, text = run("info", "cifar10", *where)
    assert "label: airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck" in text
    assert 'dl.datasets.load("cifar10", split="train", as_supervised=True)' in text
    assert "Configurations" not in text
    _, text = run("info", "emnist/letters", *where)
    assert "Configurations: balanced, byclass, bymerge, digits, letters, mnist" in text
    assert 'dl.datasets.load("emnist/letters", split="train", as_supervised=True)' in text
    _, text = run("info", "cifar100", *where)
    assert "label: " not in text.split("Load")[0].replace("coarse_label", "")
    for name, size in (("glue/cola", "368.1 KiB"), ("super_glue/cb", "73.7 KiB")):
        assert size in run("info", name, *where)[1]
    _, text = run("info", "moving_mnist", *where)
    assert 'dl.datasets.load("moving_mnist", split="test")' in text


def test_an_unknown_name(tmp_path: Path) -> None:
    code, text = run("info", "cifar11", "--data-dir", str(tmp_path))
    assert code == 1 and "Did you mean 'cifar10'?" in text


def test_fewer_rows_than_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(datasets.DatasetBuilder):
        name = "short"

        def make_info(self) -> datasets.DatasetInfo:
            sizes = datasets.Splits({"train": 5})
            features = {"n": np.int64}
            return datasets.DatasetInfo("short", sizes, features, None, "Numbers.", "none")

        def read(self, split: str) -> dict[str, np.ndarray]:
            return {"n": np.arange(4)}

    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    datasets.register(Short)
    with pytest.raises(command.CommandError, match="4 examples were read, and 5 are described"):
        command.verify("short", tmp_path, Console(quiet=True))


def test_fewer_examples_than_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared("iris", FABRICATED["iris"](), tmp_path, monkeypatch)
    info = Path(made.data_dir) / "dataset_info.json"
    info.write_text(info.read_text().replace('"9"', '"12"'))
    with pytest.raises(command.CommandError):
        command.verify("iris", tmp_path / "data", Console(quiet=True))
