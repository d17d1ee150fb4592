"""Logs that cannot be written end a training in an error that names the file, not in a wait."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((8, 1), np.float32)
    callback = dl.keras.callbacks.TensorBoard(tmp_path)
    with monkeypatch.context() as while_full:
        while_full.setattr("os.pwrite", full)
        with pytest.raises(OSError, match=r"No space left on device.*tfevents"):
            model.fit(x, x, verbose=0, callbacks=[callback])
