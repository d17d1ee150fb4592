"""Real training in the pods of a cluster of processes, and the commands from `engine add` on."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drumline.jobs.engines.kubernetes.objects import code_parts
from drumline.jobs.sources.secrets import write_secret
from tests.jobs.kubernetes.cluster import IMAGE, ROOT
from tests.jobs.kubernetes.conftest import Bench
from tests.jobs.launch.launching import LAUNCH
from tests.jobs.sources.test_job_sources import PASSWORD
from tests.jobs.test_jobs_tutorial import PLACE, TOKEN, blocks, check_model, reader

pytest.importorskip("kubernetes_validate", reason="the server checks objects by its schemas")

SECONDS = 280

# Two processes, with dropout and a shuffle: all that would show a step done twice.
TRAINING = """
import hashlib, os, pathlib, sys
import drumline as dl
strategy = dl.distribute.MultiWorkerMirroredStrategy()
import keras, numpy as np
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
train = dl.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(64, seed=1).batch(8)
with strategy.scope():
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8), layers.Dropout(0.3, seed=2), layers.Dense(1)]
    )
    model.compile("adam", "mse")

class Fails(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 3 and os.environ.get("DRUMLINE_ATTEMPT") == "1" and strategy.process_index:
            raise RuntimeError("the disk is on fire")

backup = dl.keras.callbacks.Checkpointing("backup", every_epochs=1)
history = model.fit(train, epochs=5, verbose=0, callbacks=[backup, Fails()])
print("epochs:", len(history.history["loss"]))
values = b"".join(np.asarray(v.numpy()).tobytes() for v in model.variables)
print("left:", hashlib.sha256(values).hexdigest())
"""


def left(log: str) -> str:
    return next(line for line in log.splitlines() if line.startswith("left:"))


def test_a_training_that_fails_is_continued_and_ends_with_the_same_bits(
    bench: Bench, tmp_path: Path
) -> None:
    assert bench.cluster is not None
    (tmp_path / "work").mkdir()
    bench.cluster.add_claim("work", tmp_path / "work")
    bench.renew(work_claim="work")
    number = bench.submit(TRAINING, workers=2, restarts=1)
    row = bench.end(number, SECONDS)
    assert (row.state, row.restarts) == ("succeeded", 1), bench.all_logs(number)
    (restart,) = [each.text for each in bench.store.events(number) if each.kind == "restart"]
    assert restart.startswith("1 of 1: Failed first: worker:1")
    assert "the disk is on fire" in restart
    ended = [bench.logs(number, 2)[f"worker:{index}"] for index in range(2)]
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    done = subprocess.run(
        [*LAUNCH, "--workers", "2", "--log-dir", "logs", "--", sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for index in range(2):
        assert left(ended[index]) == left((tmp_path / f"logs/worker-{index}.log").read_text())


def test_parameter_servers(any_bench: Bench) -> None:
    bench = any_bench
    script = (ROOT / "examples" / "parameter_server_wide_and_deep.py").read_text()
    number = bench.submit(
        script, command=[bench.python, "train.py", "--epochs", "2"], chief=True, workers=2, ps=1
    )
    row = bench.end(number, SECONDS)
    assert row.state == "succeeded", row.reason + bench.all_logs(number)
    assert "accuracy" in bench.logs(number)["chief:0"]


def test_the_suite_runs_on_the_cluster_that_is_given(bench: Bench) -> None:
    """By ``KUBECONFIG`` and the name of an image, as it would on a real one."""
    assert bench.cluster is not None
    bench.cluster.environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {"KUBECONFIG": bench.settings.kubeconfig, "DRUMLINE_KUBERNETES_IMAGE": IMAGE}
    names = ["find_each_other", "started_again", "test_cancel", "timeout"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0",
         "tests/jobs/kubernetes/test_engine.py", "-k", f"KUBECONFIG and ({' or '.join(names)})"],
        cwd=ROOT, env={**os.environ, **given}, capture_output=True, text=True, timeout=SECONDS * 2,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout and "skipped" not in done.stdout, done.stdout
    assert any("POST /apis/batch/v1" in each for each in bench.cluster.server.requests)
    assert not bench.left()


def test_the_tutorial(bench: Bench, tmp_path: Path) -> None:
    """Its page is followed to its end, with the same file as on other engines."""
    assert bench.cluster is not None
    cluster = bench.cluster
    cluster.environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with reader(tmp_path) as ada:
        ada.env["KUBECONFIG"] = bench.settings.kubeconfig
        page = blocks()
        # All but the run on this machine, and what is looked at after it.
        ran = next(i for i, (_, _, body) in enumerate(page) if "drumline run" in body)
        ada.follow(page[:ran])
        local = (ada.folder / "job.yaml").read_text()
        claim = tmp_path / "claim"
        shutil.copytree(ada.home / "data", claim)
        (claim / "models").mkdir()
        cluster.add_claim("team", claim)
        image = f"{IMAGE} --set python={sys.executable}"
        said = ada.follow(blocks("On Kubernetes"), {"registry.example.com/train:1": image})
        said += ada.follow([b for b in blocks("On a cluster") if "engine add" not in b[2]])
        assert (ada.folder / "job.yaml").read_text() == f"{local}engine: lab\n"
        assert PLACE not in local
        assert "chief:0 | accuracy" in said and "Job 1 has succeeded" in said, said
        assert TOKEN not in said
        check_model(claim / "models" / "bars.keras", ada.home / "data" / "bars" / "bars.npz")
        assert not os.path.exists("/mnt/bars") and not os.path.exists("/root/code")
        assert not bench.left(), "nothing is left in the cluster"


def test_the_commands(bench: Bench, tmp_path: Path) -> None:
    """With a supervisor of their own, and the file of a job."""
    home = tmp_path / "commands"
    env = {**os.environ, "DRUMLINE_HOME": str(home), "PYTHONPATH": str(ROOT)}
    env["KUBECONFIG"] = bench.settings.kubeconfig

    def drumline(*words: str, code: int = 0, said: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "drumline_command", *words],
            cwd=tmp_path, env=env, input=said, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    add = ["engine", "add", "lab", "--kind", "kubernetes"]
    assert "the image is missing" in drumline(*add, code=2)
    settings = [f"image={IMAGE}", f"python={sys.executable}", "node-selector=disk=ssd"]
    words = [*add, *(word for each in settings for word in ("--set", each))]
    drumline(*words)
    assert "there is an engine 'lab' already" in drumline(*words, code=2)
    assert f"lab  kubernetes  image={IMAGE}" in drumline("engine", "list")
    assert bench.cluster is not None
    bench.cluster.labels["disk"] = "ssd"
    drumline("secret", "set", "TOKEN", said="sesame-open\n")
    (tmp_path / "train.py").write_text("import os\nprint('it is', os.environ['TOKEN'])\n")
    (tmp_path / "job.yaml").write_text(
        f"command: {sys.executable} train.py\nworkers: 2\nsecrets: [TOKEN]\nengine: lab\n"
    )
    shown = drumline("run", "--follow", "job.yaml")
    assert "worker:1 | it is ***" in shown and "has succeeded" in shown
    drumline("engine", "remove", "lab")
    bench.cluster.server.faults.down = True
    assert "does not answer" in drumline(*words, code=2)
    # What one can see of the cluster and of the workspace holds no value but where it belongs.
    for path in home.rglob("*"):
        if path.is_file() and "secrets" not in path.parts and path.suffix != ".log":
            assert b"sesame-open" not in path.read_bytes(), path


def test_code_that_pods_fetch(
    bench: Bench, git_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that is too large to be sent along comes from git, with the password of a Secret."""
    small = functools.partial(code_parts, largest=10)
    monkeypatch.setattr("drumline.jobs.engines.kubernetes.engine.code_parts", small)
    write_secret(bench.home, "GIT", PASSWORD)
    show = [sys.executable, "-c", "print(open('t.py').read(), *__import__('os').environ)"]
    code = {"git": git_server, "user": "ada", "token": "GIT", "commit": "main"}
    number = bench.submit("", command=show, code=code)
    row = bench.end(number)
    assert row.state == "succeeded", row.reason + bench.all_logs(number)
    shown = bench.logs(number)["worker:0"]
    assert shown.startswith("second ") and "GIT_PASSWORD" not in shown
    number = bench.submit("print(1)")
    row = bench.end(number)
    assert row.state == "failed"
    assert row.reason.startswith("its code has 0.0 MB when compressed, and at most 1e-05 MB are")
    assert "train.py" in row.reason and "as a git repository" in row.reason
    assert not bench.left()


def test_code_that_pods_cannot_fetch(
    bench: Bench, git_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = functools.partial(code_parts, largest=10)
    monkeypatch.setattr("drumline.jobs.engines.kubernetes.engine.code_parts", small)
    write_secret(bench.home, "GIT", PASSWORD)
    number = bench.submit(
        "", command=["true"], code={"git": git_server, "user": "ada", "token": "GIT"}
    )
    write_secret(bench.home, "GIT", "wrong-password")
    row = bench.end(number)
    assert row.state == "failed"
    assert row.reason.startswith("its code cannot be fetched: fatal: Authentication failed")
    assert "wrong-password" not in row.reason + bench.all_logs(number)
