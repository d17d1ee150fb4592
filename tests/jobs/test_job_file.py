"""Job files: what is accepted, and that each mistake is named with its line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from drumline.jobs.commands.jobs import register
from drumline.jobs.file.model import ROLES, Code, Job, JobData, JobRole
from drumline.jobs.file.reading import make_job, parse_data, parse_size, read_job_file
from drumline.jobs.file.values import JobFileError
from drumline.jobs.service import submission, workspace_service
from drumline.jobs.service.workspace_service import WorkspaceService

WHOLE = """\
name: digits
code: {git: https://git.example.com/ada/digits.git, commit: main, user: ada, token: GIT_TOKEN}
command: python train.py --epochs 12
workers: {count: 2, cpus: 4, memory: 16GiB, gpus: 1}
ps: {count: 1, cpus: 2, memory: 8GiB}
evaluator: true
env: {BATCH: "64"}
secrets: [HF_TOKEN]
priority: 7
restarts: 3
timeout: 12h
engine: local
"""


def read(folder: Path, text: str) -> Job:
    path = folder / "job.yaml"
    path.write_text(text)
    return read_job_file(path)


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(JobFileError) as raised:
        read(folder, text)
    return [each.removeprefix(str(folder / "job.yaml")) for each in raised.value.problems]


def test_a_whole_file(tmp_path: Path) -> None:
    job = read(tmp_path, WHOLE)
    url = "https://git.example.com/ada/digits.git"
    assert job.code == Code(git=url, commit="main", user="ada", token="GIT_TOKEN", at="/root/code")
    assert job.roles == {
        "workers": JobRole(2, 4.0, 16 * 2**30, 1),
        "ps": JobRole(1, 2.0, 8 * 2**30),
        "evaluator": JobRole(),
    }
    assert (job.name, job.command) == ("digits", ("python", "train.py", "--epochs", "12"))
    assert (job.env, job.secrets) == ({"BATCH": "64"}, ("HF_TOKEN",))
    assert (job.priority, job.restarts, job.timeout, job.engine) == (7, 3, 12 * 3600, "local")
    assert job.needs == {"cpus": 11, "memory": 40 * 2**30, "gpus": 2}
    assert list(job.sizes()) == [
        "2 workers (4 cpus, 16 GiB of memory, 1 gpu each)",
        "1 ps (2 cpus, 8 GiB of memory)",
        "1 evaluator (1 cpu)",
    ]
    assert Job.from_json(job.to_json()) == job


def test_only_the_command_is_needed(tmp_path: Path) -> None:
    job = read(tmp_path, "command: python some/My_Train.py\n")
    assert job.name == "my-train" and job.roles == {"workers": JobRole()} and job.priority == 5
    assert job.code == Code(folder=str(tmp_path)) and job.timeout is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ": the file is empty; a job needs at least its command"),
        ("name: a\n", ":1: the command is missing; write command: python train.py"),
        ("command: a\n\nworker: 2\n", ":3: there is no key 'worker'; did you mean 'workers'?"),
        (
            "command: a\nworkers:\n  count: 2\n  cpu: 4\n",
            ":4: there is no key 'cpu' in 'workers'; did you mean 'cpus'?",
        ),
        (
            "command: a\nworkers: {memory: 16}\n",
            ":2: workers.memory: must be a number above 0 with one of the units KiB, MiB, GiB, "
            "TiB, KB, MB, GB, TB, as 16GiB, not 16",
        ),
        ("command: a\nenv:\n  BATCH: 64\n", ':3: env.BATCH: must be text; in quotes it is: "64"'),
        ("command: a\nenv: {A: yes}\n", ""),
        ("command: a\nenv: {A: true}\n", ':2: env.A: must be text; in quotes it is: "true"'),
        ("command: a\npriority: 10\n", ":2: priority: must be a whole number from 1 to 9, not 10"),
        ("command: a\nrestarts: true\n", ":2: restarts: must be a whole number from 0 to 1000, "
         "not True"),
        ("command: a\ntimeout: 1:30\n", ":2: timeout: must be a number above 0 with one of the "
         "units s, m, h, d, as 12h, not '1:30'"),
        ("command: a\ncommand: b\n", ":2: the key 'command' is duplicate; first {file}:1"),
        ("command: [a\n", ":2: this is not YAML: expected ',' or ']', but got '<stream end>'"),
        ("command: \"a\n", ":2: this is not YAML: found unexpected end of stream"),
        ("command: 'a \"b'\n", ":1: command: cannot be split into words: no closing quotation"),
        ("command: a\nworkers: 0\n", ":2: workers: must be at least 1"),
        ("command: a\nevaluator: 2\n", ":2: evaluator: there is at most one of it"),
        ("command: a\ncode: nowhere\n", ":2: code: there is no folder {folder}/nowhere, "
         "and no code is saved by that name (`drumline code list`)"),
        ("command: a\ncode: {git: 'https://a:b@c/d'}\n", ":2: code.git: must hold no password: "
         "store it by `drumline secret set NAME`, and write user: ..., token: NAME"),
        ("command: a\ncode: {git: 'ext::sh -c x'}\n", ":2: code.git: is no address of a "
         "repository: 'ext::sh -c x'"),
        ("command: a\ncode: {git: 'https://c/d', user: ada}\n", ":2: code.user: needs token, the "
         "name of the secret with the password"),
        ("command: a\nengine: slurm\n", ":2: engine: there is no engine 'slurm'; there is: local; "
         "`drumline engine add` adds one"),
        ("command: a\nenv: {TF_CONFIG: x}\n", ":2: env: TF_CONFIG is set by drumline for each "
         "process"),
        ("- a\n", ":1: must be keys with values, not a list"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    if not expected:  # YAML 1.1's `yes` is text here
        assert read(tmp_path, text).env == {"A": "yes"}
        return
    filled = expected.format(file=tmp_path / "job.yaml", folder=tmp_path)
    assert mistakes(tmp_path, text) == [filled]


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "command: a\npriority: 0\nsecrets: [a-b]\nname: A\n")
    assert sorted(each.split(":")[1] for each in found) == ["2", "3", "4"]
    found = mistakes(tmp_path, "comand: a\nworkerss: 2\npriority: 0\nqueue: b\n")
    assert [each.split(": ", 1)[1][:42] for each in found] == [
        "there is no key 'comand'; did you mean 'co",
        "there is no key 'workerss'; did you mean '",
        "there is no key 'queue'; known are name, c",
        "priority: must be a whole number from 1 to",
    ]
    assert "command is missing" in mistakes(tmp_path, "workerss: 2\n")[1]


def test_files_that_are_no_text_or_large_or_deep(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"command: \xff")
    with pytest.raises(JobFileError, match=r"is not UTF-8 \(byte 9\)"):
        read_job_file(path)
    path.write_text("command: " + "a" * 70_000)
    with pytest.raises(JobFileError, match="at most 65536"):
        read_job_file(path)
    assert mistakes(tmp_path, "command: " + "[" * 100 + "]" * 100) == [
        ":1: is nested too deeply for a job"
    ]


def test_python_and_the_command_line(tmp_path: Path) -> None:
    job = make_job({"command": ["a", "b c"], "workers": {"count": 2, "cpus": 0.5}}, tmp_path)
    assert job.command == ("a", "b c") and job.needs["cpus"] == 1
    with pytest.raises(JobFileError, match="^job: priority: must be a whole number"):
        make_job({"command": "a", "priority": "5"}, tmp_path)
    size = {"cpus": 4, "memory": "16GiB", "gpus": 1}
    assert parse_size("cpus=4,memory=16GiB,gpus=1", "--worker-size") == size
    for wrong in ("cpus", "cpu=4", "cpus=4,cpus=4"):
        with pytest.raises(JobFileError, match="^--worker-size: "):
            parse_size(wrong, "--worker-size")


def test_a_script_is_looked_for_where_the_job_sees_its_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    file = tmp_path / "job.yaml"

    def check(script: str) -> None:
        file.write_text(f"code: {{git: 'https://a/b', at: /root/code}}\ncommand: {script}\n")
        submission._check_script(read_job_file(file), tmp_path, remote=True)

    check("python train.py")
    check("python /root/code/train.py")
    with pytest.raises(JobFileError, match=r"job\.yaml:2: command: /root/code/no\.py is not in"):
        check("python /root/code/no.py")


def test_data_on_a_command_line() -> None:
    for text, expected in [
        ("nfs://nas/digits:/mnt/digits", {"from": "nfs://nas/digits", "at": "/mnt/digits"}),
        ("s3://t/out:/mnt/out:w", {"from": "s3://t/out", "at": "/mnt/out", "write": True}),
        ("set:/mnt/set", {"from": "set", "at": "/mnt/set"}),
        ("a:b:/mnt/set", {"from": "a:b", "at": "/mnt/set"}),
        ("dataset://mnist", "dataset://mnist"),
        ("saved", "saved"),
        ("saved:w", {"from": "saved", "write": True}),
    ]:
        assert parse_data(text) == expected


OPTIONS = """--name a-job --data {folder}:/mnt/in --data s3://t/out:/mnt/out:w
--env A=b --secret HF_TOKEN --priority 7 --restarts 3 --timeout 12h --engine lab
--hang-after 30m --log-limit 1MiB --workers 2 --worker-size cpus=4,memory=16GiB,gpus=1,image=a:1
--ps 3 --ps-size cpus=2 --chief-size cpus=5 --evaluator-size memory=1GiB"""
GIT = "--code https://c/d --commit main --user ada --token T --at /srv/code"
SSH = "--code git@c:d --key K"


def test_options_say_all_that_a_file_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No field of a job is left as it is by default but the other way to name its code."""
    found: list[Job] = []

    def submitted(_: WorkspaceService, job: Job) -> None:
        found.append(job)
        raise JobFileError(["not submitted"])

    monkeypatch.setattr(WorkspaceService, "submit_job", submitted)
    monkeypatch.setattr(workspace_service, "engine_names", lambda home: ["local", "lab"])
    monkeypatch.setenv("DRUMLINE_HOME", str(tmp_path / "home"))
    app = typer.Typer()
    register(app)
    for code in (GIT, SSH, f"--code {tmp_path} --at /srv/code"):
        options = OPTIONS.format(folder=tmp_path).split()
        said = CliRunner().invoke(app, ["run", *options, *code.split(), "--", "python", "t.py"])
        assert said.exit_code == 2 and "not submitted" in said.output, said.output
    job, over_ssh, folder = found
    plain = Job("t", ("python", "t.py"))
    same = {each.name for each in dataclasses.fields(Job)
            if getattr(job, each.name) == getattr(plain, each.name)}  # fmt: skip
    assert same == {"command"}
    for role in dataclasses.fields(JobRole):
        values = {getattr(each, role.name) for each in job.roles.values()}
        assert values != {role.default}, f"{role.name} has no option"
    for each in dataclasses.fields(Code):
        given = {getattr(every.code, each.name) for every in found}
        assert given != {each.default}, f"{each.name} has no option"
    assert list(job.roles) == list(ROLES)
    assert job.data == (
        JobData(str(tmp_path), "/mnt/in"), JobData("s3://t/out", "/mnt/out", True),
    )  # fmt: skip
    assert over_ssh.code == Code(git="git@c:d", token="K", at="/root/code")
    assert folder.code == Code(folder=str(tmp_path), at="/srv/code")
