"""Saved code and data, and what ``drumline data list`` finds."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from drumline.jobs.commands.sources import data_app
from drumline.jobs.engines.kubernetes.api import KubernetesApi, KubernetesError
from drumline.jobs.engines.kubernetes.engine import KubernetesEngine
from drumline.jobs.engines.kubernetes.settings import KubernetesSettings
from drumline.jobs.engines.ssh.settings import SshSettings
from drumline.jobs.file.model import Code, Job, JobData
from drumline.jobs.file.reading import read_job_file
from drumline.jobs.file.values import JobFileError
from drumline.jobs.sources.available import available
from drumline.jobs.sources.saved import SavedError, remove_saved, save, saved
from tests.jobs.sources.test_job_stores import Bucket, bucket
from tests.jobs.test_job_commands import Commands, command

__all__ = ["bucket", "command"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work" / "set").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    git = {"git": "https://c/d.git", "commit": "main", "user": "ada", "token": "TOKEN"}
    save(tmp_path / "home", "code", "digits", git, tmp_path / "work")
    save(tmp_path / "home", "code", "here", {"folder": ".", "at": "/srv/c"}, tmp_path / "work")
    save(tmp_path / "home", "data", "set", {"from": "set", "at": "/mnt/set"}, tmp_path / "work")
    save(tmp_path / "home", "data", "out", {"from": "s3://t/out", "write": True}, tmp_path)
    return tmp_path / "home"


def read(home: Path, text: str) -> Job:
    path = home.parent / "elsewhere" / "job.yaml"
    path.write_text(f"command: a\n{text}")
    return read_job_file(path, saved=saved(home))


def test_a_file_names_what_is_saved(home: Path) -> None:
    job = read(home, "code: digits\ndata: [set, {from: out, at: /mnt/out}]\n")
    assert job.code == Code(
        git="https://c/d.git", commit="main", user="ada", token="TOKEN", at="/root/code"
    )
    assert job.data == (
        JobData(str(home.parent / "work" / "set"), "/mnt/set"),
        JobData("s3://t/out", "/mnt/out", True),
    )
    job = read(home, "code: here\ndata: [{from: out, at: /mnt/out, write: false}]\n")
    assert job.code == Code(folder=str(home.parent / "work"), at="/srv/c")
    assert job.data == (JobData("s3://t/out", "/mnt/out"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("code: digit\n", "code: there is no folder {folder}/digit, and no code is saved by that "
         "name (`drumline code list`)"),
        ("data: [out]\n", "data[0]: needs at, the absolute path at which the job sees it"),
        ("data: [{from: here, at: /mnt/x}]\n", "data[0].from: there is no folder {folder}/here, "
         "and no data are saved as 'here' (`drumline data list`)"),
        ("data:\n- set\n- {from: set, at: /mnt/set}\n", "data[1].at: /mnt/set and /mnt/set "
         "({folder}/job.yaml:3) overlap"),
    ],
)  # fmt: skip
def test_mistakes(home: Path, text: str, expected: str) -> None:
    with pytest.raises(JobFileError) as raised:
        read(home, text)
    (problem,) = raised.value.problems
    folder = home.parent / "elsewhere"
    line = 4 if "\n- " in text else 2
    assert problem == f"{folder}/job.yaml:{line}: {expected.format(folder=folder)}"


def test_a_name_of_two_things_is_refused(home: Path) -> None:
    for kind in ("digits", "set"):
        (home.parent / "elsewhere" / kind).mkdir()
    with pytest.raises(JobFileError) as raised:
        read(home, "code: digits\ndata: [{from: set, at: /mnt/x}]\n")
    assert [each.partition(": ")[2] for each in raised.value.problems] == [
        "code: 'digits' is a folder and saved code; write ./digits for the folder, or save the "
        "other by another name",
        "data[0].from: 'set' is a folder and saved data; write ./set for the folder, or save the "
        "other by another name",
    ]
    job = read(home, "code: ./digits\ndata: [{from: ./set, at: /mnt/x}]\n")
    assert job.code.folder == str(home.parent / "elsewhere" / "digits")


def test_what_no_file_could_have_is_not_saved(home: Path) -> None:
    refused: list[tuple[str, dict[str, object], str]] = [
        ("data", {"from": "none"}, "from: there is no folder"),
        ("data", {"from": "s3://a:b@c"}, "from: must hold no password"),
        ("data", {"from": "set", "at": "x"}, "at: must be an absolute path"),
        ("code", {"git": "https://a:b@c/d"}, "git: must hold no password"),
        ("code", {"folder": "none"}, "folder: there is no folder"),
    ]
    for kind, fields, expected in refused:
        with pytest.raises(JobFileError, match=f"drumline {kind} add: {expected}"):
            save(home, kind, "x", fields, home.parent / "work")  # type: ignore[arg-type]
    with pytest.raises(SavedError, match="1 to 40 lower case"):
        save(home, "data", "../x", {"from": "set"}, home.parent / "work")
    remove_saved(home, "data", "set")
    with pytest.raises(SavedError, match="no data is saved as 'set'"):
        remove_saved(home, "data", "set")
    assert set(saved(home)["data"]) == {"out"}
    (home / "saved/data/out.json").write_text("{")
    with pytest.raises(SavedError, match=r"out\.json is damaged"):
        saved(home)


def test_what_there_is_to_choose_from(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "data" / "set").mkdir(parents=True)
    folders = [str(tmp_path / "data"), str(tmp_path / "none")]
    stores = {"disk": "disk_store", "zz": "no_such_package"}
    import sys

    sys.path.insert(0, str(Path(__file__).parent / "disk_store"))
    try:
        found = [each for each in available(stores, 60, folders) if "nfs" not in each[0]]
        assert found == [
            (f"{tmp_path}/data/set", "a folder"),
            ("disk://b", "a bucket"),
            ("", "zz://: not looked at: the package no_such_package is not installed"),
        ]
        bucket.fail("list:")
        found = list(available({"disk": "disk_store"}, 60, ()))
        assert found == [("", "disk://: list of is forbidden")]
        bucket.fail(*["slow-list:"] * 30)
        assert list(available({"disk": "disk_store"}, 2, ())) == [
            ("", "disk://: no answer within 2 s")
        ]
    finally:
        sys.path.pop(0)


def test_the_commands(command: Commands) -> None:
    (command.code / "set").mkdir()
    assert "job file has it by data: [digits]" in command("data", "add", "digits", "set",
                                                          "--at", "/mnt/digits")  # fmt: skip
    said = command("data", "list").splitlines()
    assert said[0] == f"digits  from: {command.code}/set, at: /mnt/digits"
    assert any("://: not looked at: the package" in line for line in said)
    command("code", "add", "here", ".", "--at", "/srv/here")
    assert command("code", "list") == f"here  folder: {command.code}, at: /srv/here\n"
    (command.code / "job.yaml").write_text("command: python -S t.py\ncode: here\ndata: [digits]\n")
    said = command("run", "--follow", "job.yaml")
    assert "has succeeded" in said, said
    command("data", "remove", "digits")
    assert "no data are saved as 'digits'" in command(
        "run", "job.yaml", rc=2
    ).replace("nor", "no")  # fmt: skip
    assert "drumline: no code is saved as 'x'" in command("code", "remove", "x", rc=2)


CLAIMS = {
    "items": [
        {"metadata": {"name": "sets"}, "status": {"phase": "Bound"},
         "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "9Gi"}}}},
        {"metadata": {"name": "bare"}},
    ]
}  # fmt: skip


class ClaimsApi(KubernetesApi):
    """A cluster that says what is said above, or refuses."""

    def __init__(self, refuses: bool) -> None:
        self.namespace = "team"
        self._refuses = refuses

    def request(self, method: str, path: str, *_: object, **__: object) -> dict[str, Any]:
        assert (method, path) == ("GET", "/api/v1/namespaces/team/persistentvolumeclaims")
        if self._refuses:
            raise KubernetesError("you may not list claims")
        return CLAIMS


def test_claims_of_a_cluster_are_there_to_choose_from(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = dataclasses.asdict(KubernetesSettings("a:1", "nowhere"))
    (command.home / "engines").mkdir(parents=True)
    (command.home / "engines" / "lab.json").write_text(
        json.dumps({"kind": "kubernetes", "settings": fields})
    )
    others = {"slurm": {"folder": "/shared", "options": []}, "ray": {"address": "http://head:8265"},
              "ssh": dataclasses.asdict(SshSettings.inline("ssh:a,b"))}  # fmt: skip
    for kind, settings in others.items():  # They have none, and are not asked for any.
        record = json.dumps({"kind": kind, "settings": settings})
        (command.home / "engines" / f"{kind}.json").write_text(record)
    monkeypatch.setattr("drumline.jobs.sources.available.available", lambda: iter(()))
    for refuses, expected in [
        (True, ["pvc://: you may not list claims; for engine: lab"]),
        (False, ["pvc://bare  (a claim of namespace team; for engine: lab)", "pvc://sets  (a claim "
                 "of namespace team: Bound, 9Gi, ReadWriteMany; for engine: lab)"]),
    ]:  # fmt: skip
        api = ClaimsApi(refuses)
        monkeypatch.setattr(KubernetesEngine, "_cluster", lambda self, api=api: api)
        said = CliRunner().invoke(data_app, ["list"])
        assert [line.strip() for line in said.output.splitlines()] == expected
