"""A `fit` of two processes, one of which is killed or asked to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.launch.launching import LAUNCH, Launcher

SCRIPT = """
import hashlib, os, pathlib, signal, sys
import drumline as dl
strategy = dl.distribute.MultiWorkerMirroredStrategy()
import keras, numpy as np
place, fault, rank = pathlib.Path(sys.argv[1]), sys.argv[2], strategy.process_index
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
train = dl.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(64, seed=1)
train = train.map(lambda a, b: (a + dl.random.normal((6,), stddev=0.1), b)).batch(8)
with strategy.scope():
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8), layers.Dropout(0.3, seed=2), layers.Dense(1)]
    )
    model.compile("adam", "mse", metrics=["mae"])

class Fault(keras.callbacks.Callback):
    steps = 0
    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if os.environ["DRUMLINE_RESTART"] == "0" and rank == 1 and self.steps == 13:
            if fault != "none":
                os.kill(os.getpid(), getattr(signal, fault))

backup = dl.keras.callbacks.Checkpointing(place / "backup", every_steps=3)
history = model.fit(train, epochs=4, verbose=0, callbacks=[backup, Fault()])
variables = [*model.variables, *model.optimizer.variables]
values = b"".join(np.asarray(v.numpy()).tobytes() for v in variables)
losses = [float(value).hex() for value in history.history["loss"]]
(place / f"left-{rank}").write_text(hashlib.sha256(values).hexdigest() + str(losses))
"""


@pytest.mark.thorough
def test_a_fault_of_one_process_changes_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    left = {}
    for fault, restarts in (("none", 0), ("SIGKILL", 1), ("SIGTERM", 0)):
        place = tmp_path / fault
        place.mkdir()
        options = ["--workers", "2", "--max-restarts", str(restarts), "--log-dir", place / "logs"]
        done = subprocess.run(
            [*LAUNCH, *options, "--", sys.executable, script, place, fault],
            env=Launcher(place).environment({"JAX_PLATFORMS": "cpu"}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout
        assert ("All is saved" in done.stdout) == (fault == "SIGTERM"), done.stdout
        left[fault] = [(place / f"left-{rank}").read_text() for rank in (0, 1)]
    assert left["SIGKILL"] == left["none"] == left["SIGTERM"]
