"""A short training that is launched: notes when each of its parts had ended.

Its one argument is the file in which the first process leaves its notes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

began = time.monotonic()

import drumline as dl  # noqa: E402

imported = time.monotonic()
strategy = dl.distribute.MultiWorkerMirroredStrategy()
joined = time.monotonic()

import keras  # noqa: E402

from benchmarks.workloads.convnet import compiled_convnet, make_examples  # noqa: E402

EXAMPLES, BATCH = 256, 128


def main() -> None:
    """Trains for two steps."""
    dataset = dl.data.Dataset.from_tensor_slices(make_examples(EXAMPLES)).batch(BATCH)
    with strategy.scope():
        model = compiled_convnet(keras)
    built = time.monotonic()
    losses: list[float] = []
    ends: list[float] = []

    def end_of_step(batch: int, logs: dict[str, float]) -> None:
        losses.append(float(logs["loss"]))
        ends.append(time.monotonic())

    note = keras.callbacks.LambdaCallback(on_train_batch_end=end_of_step)
    model.fit(dataset, epochs=1, callbacks=[note], verbose=0)
    if strategy.is_chief:
        notes = {
            "began": began,
            "imported": imported,
            "joined": joined,
            "built": built,
            "first_step": ends[0],
            "loss": losses[0],
        }
        Path(sys.argv[1]).write_text(json.dumps(notes), encoding="utf-8")
        print("trained", flush=True)


if __name__ == "__main__":
    main()
