"""Event files opened in the same second stand beside each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import drumline as dl
from drumline.data.runtime.statistics import Statistics
from drumline.keras.callbacks import EventFile


def a_training(directory: Path) -> None:
    file = EventFile(directory)
    file.scalar("loss", 1.0, 0)
    file.close()


def statistics_of_a_dataset(directory: Path) -> None:
    statistics = Statistics("train")
    options = dl.data.Options()
    options.experimental_statistics = statistics
    list(dl.data.Dataset.range(3).map(lambda x: x + 1).with_options(options))
    statistics.write_tensorboard(directory, step=0)


@pytest.mark.parametrize("write", [a_training, statistics_of_a_dataset])
def test_what_was_written_within_the_second_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(
        "tensorboardX.event_file_writer.time", SimpleNamespace(time=lambda: 1_700_000_000.0)
    )
    write(tmp_path)
    (first,) = tmp_path.iterdir()
    content = first.read_bytes()
    write(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert first.read_bytes() == content
