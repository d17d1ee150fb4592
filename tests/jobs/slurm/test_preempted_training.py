"""A training that Slurm takes the nodes of ends with the bits of one that was left alone."""

from __future__ import annotations

import sys
from pathlib import Path

from drumline.jobs.file.reading import make_job
from drumline.jobs.service.submission import submit
from tests.jobs.slurm.conftest import SlurmWorkspace

# Two processes, with dropout, noise and a shuffle: all that would show a step done twice.
TRAINING = """
import hashlib, os, pathlib, time
import drumline as dl
strategy = dl.distribute.MultiWorkerMirroredStrategy()
import keras, numpy as np
rank = strategy.process_index
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

class Lingers(keras.callbacks.Callback):
    steps = 0
    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if "LINGERS" in os.environ and os.environ.get("SLURM_RESTART_COUNT", "0") == "0":
            if self.steps > 13:
                pathlib.Path(os.environ["LINGERS"]).touch()
                time.sleep(0.5)

backup = dl.keras.callbacks.Checkpointing("backup", every_epochs=1)
lingers = Lingers()
history = model.fit(train, epochs=6, verbose=0, callbacks=[backup, lingers])
print("run", os.environ.get("SLURM_RESTART_COUNT", "0"), "has done", lingers.steps, "steps")
variables = [*model.variables, *model.optimizer.variables]
values = b"".join(np.asarray(v.numpy()).tobytes() for v in variables)
losses = [float(value).hex() for value in history.history["loss"]]
pathlib.Path(f"left-{rank}").write_text(hashlib.sha256(values).hexdigest() + str(losses))
"""


def test_a_preempted_training_is_requeued_and_ends_with_the_same_bits(
    jobs: SlurmWorkspace, tmp_path: Path
) -> None:
    (jobs.code / "train.py").write_text(TRAINING)

    def trains(**env: str) -> int:
        job = make_job(
            {
                "command": [sys.executable, "train.py"],
                "workers": {"count": 2, "cpus": 3, "memory": "900MiB"},
                "env": {"JAX_PLATFORMS": "cpu", **env},
                "engine": "lab",
            },
            jobs.code,
            engines=["lab"],
        )
        return submit(jobs.store, jobs.main, job)

    preempted = trains(LINGERS=str(tmp_path / "lingers"))
    jobs.steps((tmp_path / "lingers").exists)
    urgent = ("--partition=high", "--ntasks=2", "--cpus-per-task=4", "--output=/dev/null")
    jobs.cluster.command("sbatch", *urgent, "--wrap=sleep 1")
    jobs.steps(lambda: jobs.row(preempted).state == "queued")
    alone = trains()
    assert jobs.ends(preempted, alone) == ["succeeded"] * 2, jobs.log(preempted, "job.slurm")
    assert jobs.row(preempted).restarts == 0
    assert len(jobs.store.attempts(preempted)) == 1  # Slurm itself has started it again.
    assert jobs.sacct(preempted, starts=2) == ["REQUEUED", "COMPLETED"]
    assert "ended with 75" in jobs.log(preempted, "job.slurm")
    first = jobs.main.logs(f"{preempted}/attempt-1")["worker:0"].read_text()
    second = jobs.main.logs(f"{preempted}/attempt-1")["worker:0.requeue-1"].read_text()
    assert "has done" not in first and "run 1 has done" in second
    assert "run 1 has done 48 steps" not in second

    def left(number: int) -> list[str]:
        work = jobs.main.shared(f"{number}/attempt-1").parent / "work"
        return [(work / f"left-{rank}").read_text() for rank in (0, 1)]

    assert left(preempted) == left(alone)
    assert len(set(left(alone))) == 1
