"""Processes in images: the command line of a container, and podman itself where it is there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumline.jobs.engines.images import (
    ImageError,
    apptainer_command,
    container_command,
    container_runtime,
    in_images,
)
from drumline.jobs.file.reading import make_job
from drumline.jobs.file.values import JobFileError
from drumline.jobs.sources.mounts import Bind
from drumline.jobs.sources.preparation import binds_file
from drumline.jobs.sources.secrets import write_secret
from drumline.jobs.store.database import ENDED
from drumline.jobs.supervisor.loop import Supervisor
from tests.jobs.engines.apptainer import Apptainer
from tests.jobs.engines.test_job_engine import Workspace, jobs
from tests.jobs.launch.launching import ROOT, wait_until

__all__ = ["jobs"]

# Stands for podman and docker: knows one image, and runs its commands on this machine.
FAKE = """#!/bin/sh
case "$1 $2" in
  "info "*) exit 0;;
  "image inspect") test "$3" = known:1 && exit 0; exit 1;;
  "manifest inspect") echo "Error: no such manifest" >&2; exit 1;;
esac
printf '%s\\n' "$@" > "$FAKE_LOG.$$"; mv "$FAKE_LOG.$$" "$FAKE_LOG"
for word in "$@"; do
  shift
  case "$word" in --entrypoint=*) program=${word#--entrypoint=};; known:1) break;; esac
done
exec "$program" "$@"
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of a runtime that is not one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("podman", "docker"):
        (folder / name).write_text(FAKE)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path / "command"


def test_each_role_has_its_image(jobs: Workspace, fake: Path) -> None:
    write_secret(jobs.home, "TOKEN", "very secret")
    (jobs.code / "set").mkdir()
    (jobs.code / "set" / "a").write_text("hello")
    script = """
import json
place = os.environ["DRUMLINE_DATA_MNT_DRUM_SET"]
seen = os.path.exists("/mnt/drum/set/a")
kind = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
while kind == "worker" and not os.path.exists("ps-was-there"):
    time.sleep(0.05)
print(kind, os.environ["TOKEN"], place, seen, flush=True)
open(kind + "-was-there", "w")
"""
    number = jobs.submit(
        script,
        workers={"count": 1, "cpus": 0.5, "image": "known:1"},
        ps={"count": 1, "cpus": 0.5},
        secrets=["TOKEN"],
        env={"RUNS": str(jobs.runs), "FAKE_LOG": str(fake), "PYTHONPATH": os.environ["PYTHONPATH"]},
        data=[{"from": "set", "at": "/mnt/drum/set"}],
        code={"folder": ".", "at": "/root/code"},
    )
    jobs.supervise(number)
    logs = {name: (jobs.folder(number) / "logs" / f"{name}-0.log").read_text()
            for name in ("worker", "ps")}  # fmt: skip
    assert jobs.row(number).state == "succeeded", (jobs.row(number), logs)
    # This runtime mounts nothing; what has no image sees its data as ever.
    assert logs == {
        "worker": "worker very secret /mnt/drum/set False\n",
        "ps": "ps very secret /mnt/drum/set True\n",
    }
    words = fake.read_text().splitlines()
    work = jobs.home / "jobs" / str(number) / "work"
    assert words[:3] == ["run", "--rm", f"--name=drumline-{number}-1-worker-0-0"]
    options, command = words[: words.index("known:1")], words[words.index("known:1") + 1 :]
    assert command == ["-S", "t.py"] and options[-1] == f"--entrypoint={sys.executable}"
    mounts = [word.removeprefix("--mount=type=bind,") for word in words if "=bind," in word]
    assert mounts[:3] == [
        f"source={work},target={work}",
        f"source={jobs.code}/set,target=/mnt/drum/set,readonly",
        f"source={work},target=/root/code",
    ]
    assert len(mounts) == 4 and "target=" in mounts[3] and "readonly" not in mounts[3]
    names = [word.removeprefix("--env=") for word in words if word.startswith("--env=")]
    assert {"TOKEN", "TF_CONFIG", "RUNS", "DRUMLINE_JOB", "DRUMLINE_LAUNCH_ID"} <= set(names)
    assert "PYTHONPATH" in names  # since the job itself has set it
    assert not {"PATH", "HOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH"} & set(names)
    assert not any("=" in name for name in names if not name.startswith("HOME"))
    assert "very secret" not in fake.read_text()
    assert {"--network=host", "--ipc=host", "--pid=host", f"--workdir={work}"} <= set(words)
    assert f"--user={os.geteuid()}:{os.getegid()}" in words


def test_an_image_that_is_nowhere(jobs: Workspace, fake: Path) -> None:
    with pytest.raises(JobFileError) as raised:
        jobs.submit("", workers={"count": 1, "image": "unknown:1"})
    (problem,) = raised.value.problems
    assert problem.endswith(
        "workers: image: unknown:1 is not on this machine (podman images), and cannot be pulled: "
        "Error: no such manifest"
    )
    with pytest.raises(JobFileError, match="must be the name of an image"):
        jobs.submit("", workers={"count": 1, "image": "--privileged"})
    data = [{"from": str(jobs.code), "at": "/mnt/a,readonly"}]
    with pytest.raises(JobFileError, match="no path with a comma"):
        jobs.submit("", workers={"count": 1, "image": "known:1"}, data=data)


def test_without_podman_and_docker(
    jobs: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2; exit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(
        ImageError, match="podman is not installed; docker is installed, but Cannot"
    ):
        container_runtime()
    with pytest.raises(JobFileError, match="workers: image: .*needs podman or docker.*Leave image"):
        jobs.submit("", workers={"count": 1, "image": "known:1"})


DESCRIBED = {"name": "n", "work": "/w", "gpus": ["worker"], "variables": ["A"]}


def test_apptainer_on_a_clusters_nodes() -> None:
    binds = [Bind("/set", "/mnt/set", False), Bind("/out", "/mnt/out", True)]
    task = {"type": "worker", "index": 1}
    for image, shown in [("drumline/train:0.1", "docker://drumline/train:0.1"),
                         ("oras://a/b:1", "oras://a/b:1")]:  # fmt: skip
        words = list(apptainer_command(
            DESCRIBED | {"runtime": "apptainer"}, task, image, binds, ["python", "t.py"]
        ))  # fmt: skip
        assert words == [
            *("apptainer", "exec", "--no-home", "--writable-tmpfs", "--bind=/w:/w:rw"),
            *("--bind=/set:/mnt/set:ro", "--bind=/out:/mnt/out:rw", "--pwd=/w", "--nv", shown),
            *("python", "t.py"),
        ]
    ps = {"type": "ps", "index": 0}
    assert "--nv" not in apptainer_command(DESCRIBED | {"runtime": "apptainer"}, ps, "a", [], ["b"])


@pytest.fixture(scope="module")
def apptainer(tmp_path_factory: pytest.TempPathFactory) -> Apptainer:
    """Apptainer, where it is there."""
    return Apptainer(tmp_path_factory.mktemp("apptainer"))


IN_APPTAINER = """
trap 'echo saved; exit 75' TERM
printf '%s ' "$(</mnt/drum/set/a)" "$TOKEN" "$PWD" "${XDG_DATA_HOME:-no home}"
{ echo no > /mnt/drum/set/b; } 2>/dev/null || printf 'read-only '
{ : > /fleeting; } 2>/dev/null && printf 'a layer to write to '
echo written > made
test -e /usr/bin && printf 'not in the image '
echo "of $DRUMLINE_JOB"
if [ -n "$WAITS" ]; then while :; do read -t 0.1 < /dev/zero -N 0; done; fi
exit 7
"""


@pytest.mark.parametrize("waits", ["", "1"])
def test_apptainer_runs_our_command_line(waits: str, apptainer: Apptainer, tmp_path: Path) -> None:
    """What a node does for a process: the folders, the variables, the exit code and SIGTERM."""
    work, data = tmp_path / "work", tmp_path / "set"
    work.mkdir()
    data.mkdir()
    (data / "a").write_text("hello")
    size = {"count": 1, "image": str(apptainer.image)}
    job = make_job({"command": ["bash", "-c", IN_APPTAINER], "workers": size}, tmp_path)
    in_node = in_images(job, "drumline-1-1", tmp_path, work, on_nodes=True)
    binds_file(tmp_path).write_text(json.dumps([[str(data), "/mnt/drum/set", False]]))
    environ = {"PATH": apptainer.path, "TF_CONFIG": '{"task": {"type": "worker", "index": 0}}',
               "TOKEN": "very secret", "XDG_DATA_HOME": "/here", "DRUMLINE_JOB": "3",
               "WAITS": waits, "PYTHONPATH": str(ROOT), "HOME": "/root"}  # fmt: skip
    with subprocess.Popen(
        in_node.command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.terminate() if waits else None
        rest, errors = process.communicate(timeout=120)
    shown = f"hello very secret {work} no home read-only a layer to write to of 3\n"
    assert first == shown, (first, errors)
    assert (process.returncode, rest) == ((75, "saved\n") if waits else (7, ""))
    assert (work / "made").read_text() == "written\n"


def test_an_image_in_a_file_is_apptainers(
    jobs: Workspace, fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = "/shared/train.sif"
    with pytest.raises(JobFileError, match="ps: image: /shared/train.sif is a file, which appta"):
        jobs.submit("", ps={"count": 1, "image": file})
    task = {"type": "worker", "index": 1}
    words = list(apptainer_command(DESCRIBED | {"runtime": "apptainer"}, task, file, [], ["a"]))
    assert words[-2:] == [file, "a"]
    # Podman is there, and is not asked for it.
    job = make_job({"command": "a", "workers": {"count": 1, "image": file}}, tmp_path)
    command = in_images(job, "drumline-1-1", tmp_path, tmp_path, on_nodes=True).command
    binds_file(tmp_path).write_text("[]")
    environ = {**os.environ, "TF_CONFIG": json.dumps({"task": task}), "PATH": str(tmp_path / "bin")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 1 and "needs apptainer or singularity on this mac" in done.stderr


def test_each_node_has_binds_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert binds_file(tmp_path) == tmp_path / "binds.json"
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    assert binds_file(tmp_path) == tmp_path / "n1.binds.json"


def test_containers_of_one_task_have_names_of_their_own() -> None:
    task = {"type": "worker", "index": 1}
    names = []
    for environ in ({}, {"DRUMLINE_RESTART": "1"}, {"SLURM_RESTART_COUNT": "2"}):
        words = container_command(DESCRIBED | {"runtime": "podman"}, task, "a", [], ["b"], environ)
        names += [word for word in words if word.startswith("--name=")]
    assert names == ["--name=n-worker-1-0", "--name=n-worker-1-1", "--name=n-worker-1-0-2"]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image of bash alone, and podman set up to need no more than this machine gives."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    folder = tmp_path_factory.mktemp("image")
    settings = folder / "containers.conf"
    runtime = "runc" if shutil.which("runc") else "crun"
    limits = '"nofile=1024:1024", "nproc=1000:1000"'
    settings.write_text(
        f'[containers]\ndefault_ulimits=[{limits}]\n[engine]\nruntime="{runtime}"\n'
    )
    patch = pytest.MonkeyPatch()
    patch.setenv("CONTAINERS_CONF", str(settings))
    name = f"localhost/drumline-test-{uuid.uuid4().hex[:8]}:1"
    archive = folder / "image.tar"
    bash = shutil.which("bash")
    assert bash is not None
    listed = subprocess.run(["ldd", bash], capture_output=True, text=True, check=True).stdout
    with tarfile.open(archive, "w") as tar:
        for path in [bash, *(word for word in listed.split() if word.startswith("/"))]:
            tar.add(os.path.realpath(path), arcname="bin/bash" if path == bash else path[1:])
        for made in ("tmp", "mnt", "proc", "sys", "dev", "etc"):
            entry = tarfile.TarInfo(made)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(entry)
    try:
        for command in (
            ["import", str(archive), name],
            ["run", "--rm", name, "/bin/bash", "-c", ""],
        ):
            done = subprocess.run(["podman", *command], capture_output=True, text=True, timeout=120)
            if done.returncode:
                pytest.skip(f"podman cannot run here: {done.stderr.strip()[-200:]}")
        yield name
    finally:
        subprocess.run(["podman", "rmi", "-f", name], capture_output=True)
        patch.undo()


INSIDE = """
printf '%s ' "$(</mnt/drum/set/a)" "$TOKEN" "$PWD" "$DRUMLINE_DATA_MNT_DRUM_SET"
echo no 2>/dev/null > /mnt/drum/set/b || printf 'read-only '
echo written > /root/code/made
test -e /usr/bin && printf 'not in the image '
[[ $TF_CONFIG == *worker* ]] && echo "as a worker"
exit ${CODE:-0}
"""


def containers() -> str:
    listed = ["podman", "ps", "-a", "--format", "{{.Names}} {{.Status}}"]
    return subprocess.run(listed, capture_output=True, text=True).stdout


def test_podman_runs_a_job(jobs: Workspace, image: str) -> None:
    write_secret(jobs.home, "TOKEN", "very secret")
    (jobs.code / "set").mkdir()
    (jobs.code / "set" / "a").write_text("hello")
    (jobs.code / "t.sh").write_text(INSIDE)
    number = jobs.submit(
        "",
        command="bash t.sh",
        workers={"count": 1, "image": image},
        secrets=["TOKEN"],
        env={"CONTAINERS_CONF": os.environ["CONTAINERS_CONF"]},
        data=[{"from": "set", "at": "/mnt/drum/set"}],
        code={"folder": ".", "at": "/root/code"},
    )
    jobs.supervise(number)
    log = (jobs.folder(number) / "logs" / "worker-0.log").read_text()
    assert jobs.row(number).state == "succeeded", (jobs.row(number), log)
    work = jobs.home / "jobs" / str(number) / "work"
    assert log == f"hello very secret {work} /mnt/drum/set read-only as a worker\n"
    assert (work / "made").read_text() == "written\n"
    assert f"drumline-{number}-1" not in containers()


def test_podmans_exit_code_is_the_jobs(jobs: Workspace, image: str) -> None:
    number = jobs.submit(
        "",
        command=["bash", "-c", "exit 7"],
        workers={"count": 1, "image": image},
        env={"CONTAINERS_CONF": os.environ["CONTAINERS_CONF"]},
    )
    jobs.supervise(number)
    assert jobs.row(number).state == "failed" and "7" in jobs.row(number).reason


LONG = """trap 'echo saved > $PWD/saved; exit 0' TERM; echo > ready
while :; do read -t 0.1 <> <(:); done"""


@pytest.mark.parametrize("how", ["cancelled", "launcher killed"])
def test_a_container_ends_with_its_job(how: str, jobs: Workspace, image: str) -> None:
    number = jobs.submit(
        "",
        command=["bash", "-c", LONG],
        workers={"count": 1, "image": image},
        env={"CONTAINERS_CONF": os.environ["CONTAINERS_CONF"]},
    )
    supervisor = Supervisor(jobs.store, {"local": jobs.engine()})
    work = jobs.home / "jobs" / str(number) / "work"
    jobs.steps(supervisor, (work / "ready").exists)
    assert f"drumline-{number}-1-worker-0-0" in containers()
    if how == "cancelled":
        with jobs.store.change():
            jobs.store.set_stop(number, "cancel")
    else:
        os.kill(
            json.loads((jobs.folder(number) / "running.json").read_text())["pid"], signal.SIGKILL
        )
    jobs.steps(supervisor, lambda: jobs.row(number).state in ENDED)
    wait_until(lambda: f"drumline-{number}-1-worker-0-0 Up" not in containers(), 30)
    assert (work / "saved").exists() == (how == "cancelled")
