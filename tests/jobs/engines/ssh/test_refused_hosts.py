"""Hosts that cannot be used: each is named, with what is wrong and what to do about it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from drumline.jobs.file.values import JobFileError
from tests.jobs.engines.ssh.conftest import SshWorkspace
from tests.jobs.sources.ssh_server import new_key


def _problem(jobs: SshWorkspace, **changes: object) -> str:
    return jobs.engine(**changes).problem()


def test_a_host_whose_key_is_not_known(jobs: SshWorkspace) -> None:
    said = _problem(jobs, hosts=("a", "stranger"))
    assert said == (
        "stranger: its host key is not known; look at it and accept it by `ssh stranger`, once"
    )
    # The other one is used, until a job needs both.
    engine = jobs.engine(hosts=("a", "stranger"))
    number = jobs.submit("", engine)
    assert jobs.ends(number, engine=engine) == ["succeeded"]
    with pytest.raises(JobFileError, match="stranger: its host key is not known"):
        jobs.submit("", engine, workers={"count": 2, "cpus": 2})


def test_a_host_whose_key_has_changed(jobs: SshWorkspace, tmp_path: Path) -> None:
    keys = Path(jobs.hosts.options[1]).with_name("known_hosts").read_text().splitlines()
    wrong = tmp_path / "known_hosts"
    wrong.write_text(f"{keys[0].split()[0]} {' '.join(keys[1].split()[1:])}\n")
    options = ("-o", f"UserKnownHostsFile={wrong}", *jobs.hosts.options)
    said = _problem(jobs, hosts=("a",), options=options)
    assert "a: its host key is not the one in your known_hosts" in said
    assert "`ssh-keygen -R a`" in said


def test_a_host_that_refuses_the_key(jobs: SshWorkspace, tmp_path: Path) -> None:
    other = new_key(tmp_path / "other")
    config = tmp_path / "config"
    text = Path(jobs.hosts.options[1]).read_text()
    config.write_text(text.replace("user_key", "no_key").replace(
        "IdentitiesOnly yes", f"IdentitiesOnly yes\n  IdentityFile {other}"))  # fmt: skip
    said = _problem(jobs, hosts=("a",), options=("-F", str(config)))
    assert "a: it does not accept your key" in said and "Permission denied" in said, said


def test_a_host_that_does_not_answer_and_a_name_that_is_not_known(jobs: SshWorkspace) -> None:
    jobs.hosts.cut("b")
    try:
        said = _problem(jobs, hosts=("a", "b"))
    finally:
        jobs.hosts.join("b")
    assert said.startswith("b: does not answer: "), said
    said = _problem(jobs, hosts=("no-such-host.invalid",), options=("-F", "none"))
    assert said.startswith("no-such-host.invalid: its name is not known: "), said


def test_a_host_without_drumline_or_with_another_one(jobs: SshWorkspace, tmp_path: Path) -> None:
    said = _problem(jobs, hosts=("a",), python="/no/python")
    assert "a: no Python there has drumline (/no/python: not there)" in said
    assert "-m pip install drumline==" in said and "--set python=" in said
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    said = _problem(jobs, hosts=("a",), python=str(bare))
    version = ".".join(map(str, sys.version_info[:2]))
    assert f"{bare}: Python {version}, ModuleNotFoundError" in said, said
    old = tmp_path / "old"
    old.write_text(
        f'#!/bin/sh\ncase "$*" in *ssh-host) exec {sys.executable} -P -c "import drumline; '
        "drumline.__version__ = '0.0.1'; import drumline.jobs.engines.ssh.on_host as m; "
        f'm.main([])";; *) exec {sys.executable} "$@";; esac\n'
    )
    old.chmod(0o755)
    said = _problem(jobs, hosts=("a",), python=str(old))
    assert said.startswith("a: drumline is 0.0.1 there"), said
    assert "both must be the same: ssh a" in said


def test_a_host_whose_disk_is_full(jobs: SshWorkspace) -> None:
    (jobs.code / "large").write_bytes(os.urandom(3_000_000))
    # Each host has some memory there, and no more.
    engine = jobs.engine(folder=str(jobs.hosts.small))
    number = jobs.submit("", engine)
    assert jobs.ends(number, engine=engine) == ["failed"]
    assert "a: No space left on device" in jobs.row(number).reason, jobs.row(number).reason
    assert jobs.ran(number) == 0
