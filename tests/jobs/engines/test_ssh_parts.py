"""The parts of the SSH engine that need no host: where processes go, files, settings, names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.jobs.engines.engine import SettingError
from drumline.jobs.engines.registry import EngineError, Engines, engine_names, read_record
from drumline.jobs.engines.ssh.connection import HostConnection, folder_name
from drumline.jobs.engines.ssh.files import CopiedFiles, HostFiles, inside
from drumline.jobs.engines.ssh.placement import place
from drumline.jobs.engines.ssh.settings import SshSettings, read_ssh_settings
from drumline.jobs.file.model import RESOURCES
from drumline.jobs.file.reading import make_job
from drumline.jobs.file.values import JobFileError

_amounts = st.fixed_dictionaries(
    {"cpus": st.integers(0, 8), "memory": st.integers(0, 8), "gpus": st.integers(0, 4)}
)


@given(st.lists(_amounts, min_size=1, max_size=6), st.lists(_amounts, min_size=1, max_size=4))
def test_no_host_gets_more_than_it_has(sizes: list[dict], free: list[dict]) -> None:
    named = {f"h{i}": each for i, each in enumerate(free)}
    hosts = place(sizes, named)
    whole = {r: sum(size[r] for size in sizes) for r in RESOURCES}
    fits_on_one = any(all(whole[r] <= each[r] for r in RESOURCES) for each in free)
    if hosts is None:
        assert not fits_on_one
        return
    assert len(set(hosts)) == 1 or not fits_on_one
    for name, each in named.items():
        for r in RESOURCES:
            held = sum(size[r] for size, host in zip(sizes, hosts, strict=True) if host == name)
            assert held <= each[r]


def test_the_hosts_of_before_are_taken_again_while_they_have_room() -> None:
    size = {"cpus": 1, "memory": 0, "gpus": 0}
    free = {"a": {"cpus": 4, "memory": 0, "gpus": 0}, "b": {"cpus": 2, "memory": 0, "gpus": 0}}
    assert place([size, size], free) == ["a", "a"]
    assert place([size, size], free, ["b", "a"]) == ["b", "a"]
    assert place([size, size], free, ["b", "c"]) == ["a", "a"]
    free["b"]["cpus"] = 0
    assert place([size, size], free, ["b", "b"]) == ["a", "a"]


def test_job_files_name_hosts(tmp_path: Path) -> None:
    def engine(given: object) -> str:
        return make_job({"command": "true", "engine": given}, tmp_path).engine

    assert engine({"ssh": ["a", "ada@b.example.com", "[fd00::1]"]}) == (
        "ssh:a,ada@b.example.com,[fd00::1]"
    )
    assert engine({"ssh": "a"}) == "ssh:a"
    for wrong, said in (
        ({"ssh": ["-oProxyCommand=x"]}, "'-oProxyCommand=x' is no name of a host"),
        ({"ssh": ["a b"]}, "'a b' is no name of a host"),
        ({"ssh": ["a", "a"]}, "the host a is named twice"),
        ({"ssh": []}, "is no name of a host"),
        ({"shh": ["a"]}, "did you mean ssh|ssh"),
        ({}, "must be the name of an engine, or"),
        ("ssh:a", "there is no engine 'ssh:a'"),
    ):
        with pytest.raises(JobFileError, match=said):
            engine(wrong)


def test_such_an_engine_is_in_no_list_and_is_made(tmp_path: Path) -> None:
    record = read_record(tmp_path, "ssh:a,b")
    assert record is not None and record.settings["hosts"] == ("a", "b")
    engines = Engines(tmp_path)
    assert "ssh:a,b" not in engine_names(tmp_path)
    assert engines["ssh:a,b"] is engines["ssh:a,b"]
    with pytest.raises(EngineError, match="there is no engine 'lab'"):
        engines.named("lab")


def test_settings_are_read_and_refused() -> None:
    words = ["python=/opt/python", "cpus=1.5", "memory=4GiB", "gpus=0", "options=-p 22 -i 'k y'"]
    settings = read_ssh_settings("a,ada@b", words)
    assert settings == SshSettings(
        ("a", "ada@b"), python="/opt/python", cpus=1.5, memory=4 << 30, gpus=0,
        options=("-p", "22", "-i", "k y"),
    )  # fmt: skip
    for hosts, words, said in (
        ("", [], "the hosts are missing"),
        ("a,,b", [], "'' is no name of a host"),
        ("a", ["pyhton=x"], "'pyhton=x' is not understood; known are folder, python"),
        ("a", ["cpus=-1"], "must be a number above 0"),
        ("a", ["cpus=many"], "cpus: 'many' is no number"),
        ("a", ["memory=4"], "with one of the units"),
        ("a", ["gpus=x"], "gpus: 'x' is no number"),
        ("a", ["cpus=1", "cpus=2"], "cpus is given twice"),
        ("a", ["options=-t"], "-t is set by drumline"),
        ("a", ["options=rm -rf"], "rm is no option of ssh"),
        ("a", ["options=-p"], "-p lacks its value"),
        ("a", ["options=-i 'x"], "cannot be split"),
    ):
        with pytest.raises(SettingError, match=said):
            read_ssh_settings(hosts, words)


@pytest.mark.parametrize(
    "fields",
    [{}, {"hosts": "a"}, {"hosts": ["-oX=y"]}, {"hosts": ["a"], "more": 1}, {"hosts": [1]},
     {"hosts": ["a"], "options": "-p 22"}],
)  # fmt: skip
def test_settings_that_were_written_by_others_are_checked(fields: dict) -> None:
    with pytest.raises(SettingError, match="list of hosts|no name of a host"):
        SshSettings.from_json(fields)


def test_files_are_copied_as_they_grow_and_after_a_kill(tmp_path: Path) -> None:
    host, here = tmp_path / "host" / "attempt-1", tmp_path / "here" / "attempt-1"
    own = host / "rank-1"
    (own / "logs").mkdir(parents=True)
    (host.parent / "work").mkdir()
    here.mkdir(parents=True)
    log = own / "logs" / "worker-1.log"
    log.write_bytes(b"one\n")
    (own / "launch.log").write_bytes(b"started\n")
    (host.parent / "work" / "log.csv").write_bytes(b"epoch,loss\n")
    served = HostFiles(host, ["1"])
    copies = CopiedFiles(here, "a")
    copies.add(*served.news(copies.have))
    assert (here / "launch-1.log").read_bytes() == b"started\n"
    assert (here.parent / "work" / "log.csv").read_bytes() == b"epoch,loss\n"
    assert served.news(copies.have)[1] == b""
    # What was written and not noted is written once more, to the same place.
    known = (here / "copied-a.json").read_text()
    log.write_bytes(b"one\ntwo\n")
    copies.add(*served.news(copies.have))
    (here / "copied-a.json").write_text(known)
    log.write_bytes(b"one\ntwo\nthree\n")
    copies = CopiedFiles(here, "a")
    copies.add(*served.news(copies.have))
    assert (here / "logs" / "worker-1.log").read_bytes() == b"one\ntwo\nthree\n"
    # Another file of that name, and one that is gone.
    inode = (here / "logs" / "worker-1.log").stat().st_ino
    (own / "logs" / "fresh").write_bytes(b"new")
    os.replace(own / "logs" / "fresh", log)
    (own / "launch.log").unlink()
    copies.add(*served.news(copies.have))
    assert (here / "logs" / "worker-1.log").read_bytes() == b"new"
    assert (here / "logs" / "worker-1.log").stat().st_ino != inode
    assert not (here / "launch-1.log").exists()
    # Another host's file is not written over.
    other = CopiedFiles(here, "b")
    news = {"files": [["work/log.csv", 1, 0, 3]], "gone": []}
    other.add(news, b"xyz", taken=["work/log.csv"])
    assert (here.parent / "work" / "log.csv").read_bytes() == b"epoch,loss\n"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "", "link/x"])
def test_a_host_names_no_file_outside_the_job(name: str, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "link").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="is no file of the job's folder|is behind a link"):
        inside(tmp_path / "job", name)


def test_the_options_of_ssh_ask_nothing_and_name_the_host_last() -> None:
    connection = HostConnection("a", SshSettings(("a",), options=("-p", "22")), "x")
    words = connection._ssh()
    assert "BatchMode=yes" in words and words[-2:] == ["-p", "22"]
    assert words.index("BatchMode=yes") < words.index("-p")
    assert folder_name("ada@[fd00::1]") == "ada__fd00__1_"
