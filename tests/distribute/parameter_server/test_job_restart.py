"""A job whose parameter server is killed: the launcher starts it again, and it goes on."""

import json
import subprocess
import sys

import pytest

from tests.jobs.launch.launching import LAUNCH, Launcher

SCRIPT = """
import json, os, pathlib, signal
import numpy as np
import drumline as dl
import keras

here = pathlib.Path(os.environ["TEST_DIR"])
resolver = dl.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    (here / f"{resolver.task_type}-{resolver.task_id}").write_text(str(os.getpid()))
    spec = resolver.cluster_spec()
    dl.distribute.Server(spec, resolver.task_type, resolver.task_id).join()
    raise SystemExit

def tell(**what):
    with open(here / "told", "a") as file:
        file.write(json.dumps(what) + "\\n")

strategy = dl.distribute.ParameterServerStrategy(resolver, max_staleness=0)
coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    table = keras.layers.Embedding(20, 2)
    table.build((None,))
    optimizer = keras.optimizers.Adam(0.1)
    done = dl.Variable(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")

def step(ids):
    with dl.GradientTape() as tape:
        loss = keras.ops.mean(table(ids) ** 2)
    variables = table.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    done.assign_add(1)

def values():
    held = [*table.weights, *optimizer.variables]
    return [np.asarray(variable.numpy()).tolist() for variable in held]

checkpoint = dl.train.Checkpoint(table=table, optimizer=optimizer, done=done)
manager = dl.train.CheckpointManager(checkpoint, here / "checkpoints", max_to_keep=2)
optimizer.build(table.trainable_variables)
if manager.restore_or_initialize():
    tell(restored=int(done.numpy()), values=values())
for number in range(int(done.numpy()), 6):
    coordinator.schedule(step, (np.arange(number, number + 4, dtype="int32"),))
    coordinator.join()
    if number == 2:
        manager.save()
        tell(saved=int(done.numpy()), values=values())
tell(trained=int(done.numpy()), values=values())

class KillServer(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2 and os.environ["DRUMLINE_RESTART"] == "0":
            os.kill(int((here / "ps-0").read_text()), signal.SIGKILL)
            return
        tell(epoch=epoch, iterations=int(model.optimizer.iterations.numpy()))

x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
backup = keras.callbacks.BackupAndRestore(here / "backup")
model.fit(x, x[:, :1], batch_size=4, epochs=4, verbose=0, callbacks=[backup, KillServer()])
tell(end=int(model.optimizer.iterations.numpy()))
coordinator.close()
"""


@pytest.mark.thorough
def test_a_loop_and_a_fit_go_on_when_a_server_was_killed(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    options = ["--chief", "--workers", "1", "--ps", "1", "--max-restarts", "1", "--log-dir"]
    done = subprocess.run(
        [*LAUNCH, *options, tmp_path / "logs", "--", sys.executable, script],
        env=Launcher(tmp_path).environment({"JAX_PLATFORMS": "cpu"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout
    assert "Failed first: ps:0 at " in done.stdout
    assert "is lost: it was killed by SIGKILL" in done.stdout
    assert "Restart 1 of 1." in done.stdout
    lines = (tmp_path / "told").read_text().splitlines()
    saved, trained, first, second, restored, again, *epochs, end = map(json.loads, lines)
    assert (saved["saved"], restored["restored"]) == (3, 3)
    assert restored["values"] == saved["values"]
    assert again["trained"] == 6 and again["values"] == trained["values"]
    assert [first, second] == [{"epoch": 0, "iterations": 0}, {"epoch": 1, "iterations": 2}]
    assert epochs == [{"epoch": 2, "iterations": 4}, {"epoch": 3, "iterations": 6}]
    assert end == {"end": 8}
    # The chief knows it when its worker has tried for 2 s to reach the server again; after 2 s the
    # launcher stops who has not ended.
    log = (tmp_path / "logs" / "chief-0.log").read_text()
    assert "ParameterServerLostError" in log or "chief:0 stopped (SIGTERM)" in done.stdout
