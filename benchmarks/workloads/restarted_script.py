"""A training that is killed and started again: notes each step that is taken.

Its one argument is the folder for checkpoints, and for what it leaves: ``pids``, a line for each
process that has joined, and ``steps``, a line for each step of the first process.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import drumline as dl

strategy = dl.distribute.MultiWorkerMirroredStrategy()

import keras  # noqa: E402

from benchmarks.workloads.convnet import compiled_convnet, make_examples  # noqa: E402

EXAMPLES, BATCH, EPOCHS, SAVE_EVERY = 2_560, 128, 10_000, 10


def main() -> None:
    """Train until the launcher ends it."""
    folder = Path(sys.argv[1])
    add(folder / "pids", f"{strategy.process_index} {os.getpid()}")
    examples = dl.data.Dataset.from_tensor_slices(make_examples(EXAMPLES))
    dataset = examples.shuffle(EXAMPLES, seed=1).batch(BATCH)
    with strategy.scope():
        model = compiled_convnet(keras)

    class Note(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.before = epoch * EXAMPLES // BATCH

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if strategy.is_chief:
                add(folder / "steps", f"{self.before + batch + 1} {time.monotonic()}")

    backup = dl.keras.callbacks.Checkpointing(folder / "backup", every_steps=SAVE_EVERY)
    model.fit(dataset, epochs=EPOCHS, callbacks=[backup, Note()], verbose=0)


def add(file: Path, line: str) -> None:
    """Add a line, which a process that is killed writes whole or not at all."""
    with file.open("ab", buffering=0) as opened:
        opened.write(line.encode() + b"\n")


if __name__ == "__main__":
    main()
