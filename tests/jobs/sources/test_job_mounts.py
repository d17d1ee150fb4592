"""Mount paths in a private namespace, as root and as another user, and what replaces them."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from drumline.jobs.file.mount_paths import variable
from drumline.jobs.sources import mounts
from drumline.jobs.sources.mounts import Bind, refusal
from drumline.jobs.sources.preparation import read_notes
from tests.jobs.launch.launching import ROOT, wait_until

PROGRAM = [sys.executable, "-P", "-m", "drumline_command.job_process", "with-data"]
NOBODY = 65534

# The program has no JAX, as other tests in this process may have, and forks when it has one thread.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning")


@pytest.fixture(autouse=True)
def namespaces() -> None:
    if os.geteuid() != 0 and _refused():
        pytest.skip("this machine gives its users no namespaces")


@functools.cache
def _refused() -> bool:
    return bool(refusal([Bind("/tmp", "/mnt")], Path("/tmp")))


# Run in a process of its own: it leaves the host's view, and becomes another user.
VIEW = """
import ctypes, json, os, sys
import drumline_command
from drumline.jobs.sources.mounts import Bind, enter, refusal
from pathlib import Path
uid, scratch, script, binds = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
if uid != os.geteuid():
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE, as after any execve
binds = [Bind(*each) for each in json.loads(binds)]
assert refusal(binds, scratch) == "", refusal(binds, scratch)
enter(binds, scratch)
os.execv("/bin/sh", ["sh", "-c", script])
"""


def see(uid: int, folder: Path, binds: list[Bind], script: str, program: str = VIEW) -> list[str]:
    """What a shell says in the view with these mounts."""
    (folder / "scratch").mkdir(exist_ok=True)
    (folder / "cwd").mkdir(exist_ok=True)
    given = json.dumps([[bind.folder, bind.at, bind.write] for bind in binds])
    done = subprocess.run(
        [sys.executable, "-c", program, str(uid), str(folder / "scratch"), script, given],
        capture_output=True,
        text=True,
        cwd=folder / "cwd",
        env={**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that other users can reach, with data in it."""
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.geteuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o755)
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.txt").write_text("hello")
    data.chmod(0o777)
    return tmp_path


def users() -> list[int]:
    return [0, NOBODY] if os.geteuid() == 0 else [os.geteuid()]


def entries(of: str) -> set[str]:
    try:
        return set(os.listdir(of))
    except PermissionError:
        return set()


@pytest.mark.parametrize("uid", users())
def test_folders_are_seen_at_paths_that_do_not_exist(uid: int, folder: Path) -> None:
    own = folder.name.replace("_", "-")
    top, below, deep = f"/{own}", f"/mnt/{own}/one", f"{folder}/x/y/z"
    data = str(folder / "data")
    before = {of: entries(of) for of in ("/", "/mnt", "/root", str(folder))}
    binds = [
        Bind(data, "/root/code", True),
        Bind(data, below),
        Bind(data, top),
        Bind(data, f"/mnt/{own}/two"),
        Bind(data, deep),
    ]
    said = see(
        uid,
        folder,
        binds,
        f"""pwd; id -u; grep CapEff /proc/self/status
        cat {top}/a.txt {below}/a.txt {deep}/a.txt; echo
        echo no 2>/dev/null > {below}/b || echo read-only
        echo new > /root/code/made-{uid} && echo written
        mkdir {top}-other /mnt/{own}-other 2>/dev/null || echo no new ones beside them
        ls -A {folder}/scratch
        for of in / /mnt /root {folder}; do echo "= $of"; ls -A $of 2>/dev/null; done""",
    )
    assert said[:2] == [f"{folder}/cwd", str(uid)]
    if uid:
        assert said[2].split()[1] == "0" * 16
    assert said[3:7] == ["hello" * 3, "read-only", "written", "no new ones beside them"]
    assert (folder / "data" / f"made-{uid}").read_text() == "new\n"
    # Everything else is still there, and the host has nothing new.
    listed: dict[str, set[str]] = {}
    for line in said[7:]:
        if line.startswith("= "):
            listed[line[2:]] = current = set()
        else:
            current.add(line)
    visible = before if uid == 0 else before | {"/root": set()}
    assert listed["/"] == visible["/"] | {own}
    assert listed["/mnt"] == visible["/mnt"] | {own}
    assert listed["/root"] == visible["/root"] | {"code"}
    assert listed[str(folder)] == before[str(folder)] | {"scratch", "cwd", "x"}
    for of, names in before.items():
        assert entries(of) - {"scratch", "cwd"} == names, of


@pytest.mark.parametrize("uid", users())
def test_every_kind_of_entry_of_a_covered_folder_stays(uid: int, folder: Path) -> None:
    covered = folder / "covered"
    (covered / ".hidden").mkdir(parents=True)
    (covered / "name with\nline").write_text("odd")
    (covered / "link").symlink_to("name with\nline")
    (covered / "dangling").symlink_to("nowhere")
    os.mkfifo(covered / "fifo")
    (covered / ".hidden" / "deep").write_text("deep")
    for path in (covered, covered / "name with\nline"):
        path.chmod(0o777)
    said = see(
        uid,
        folder,
        [Bind(str(folder / "data"), str(covered / "new" / "er"))],
        f"""cd {covered}; ls -A | wc -l; cat link; echo; readlink dangling
        test -p fifo && echo fifo; cat .hidden/deep; echo; cat new/er/a.txt; echo
        echo changed > link; echo x > more || echo no""",
    )
    # The one with a line in its name has two lines.
    assert said == ["7", "odd", "nowhere", "fifo", "deep", "hello", "no"]
    assert (covered / "name with\nline").read_text() == "changed\n"
    assert sorted(os.listdir(covered)) == sorted(
        [".hidden", "name with\nline", "link", "dangling", "fifo"]
    )


def test_links_in_a_mount_path_are_followed(folder: Path) -> None:
    real = folder / "real"
    (real / "there").mkdir(parents=True)
    (folder / "link").symlink_to("real")
    (folder / "direct").symlink_to(real / "there")
    data = str(folder / "data")
    (folder / "dangling").symlink_to("later")
    binds = [
        Bind(data, f"{folder}/dangling/below"),
        Bind(data, f"/{folder.name}-top"),  # so that there is a new root
        Bind(data, f"{folder}/link/inside"),
        Bind(data, f"{folder}/direct"),
    ]
    script = f"""cat {folder}/real/inside/a.txt {folder}/link/inside/a.txt {real}/there/a.txt
    cat {folder}/dangling/below/a.txt {folder}/later/below/a.txt"""
    assert see(os.geteuid(), folder, binds, script) == ["hello" * 5]
    assert os.listdir(real) == ["there"] and not os.listdir(real / "there")


def test_a_machine_whose_root_cannot_be_changed(folder: Path) -> None:
    """One that runs from memory; then the process's own root is."""
    script = f"cat /{folder.name}-top/a.txt; echo; pwd; ls {folder}"
    program = VIEW.replace("binds = [", "from drumline.jobs.sources import mounts\n"
                           "mounts._PIVOT_ROOT.clear()\nbinds = [")  # fmt: skip
    said = see(
        os.geteuid(), folder, [Bind(str(folder / "data"), f"/{folder.name}-top")], script, program
    )
    assert said == ["hello", f"{folder}/cwd", "cwd", "data", "scratch"]


def test_a_home_folder_may_be_written_still(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder / "ada"
    (home / ".cache").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    script = f"echo 1 > {home}/new && echo 2 > {home}/.cache/kept && cat {home}/new"
    said = see(os.geteuid(), folder, [Bind(str(folder / "data"), f"{home}/data")], script)
    assert said == ["1"]
    assert (home / ".cache" / "kept").exists() and not (home / "new").exists()


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("{folder}/data/a.txt", "is no folder"),
        ("{folder}/data/a.txt/x", "is no folder"),
        ("{folder}/cwd", "hides the working directory"),
    ],
)
def test_paths_that_cannot_be(
    at: str, reason: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "cwd").mkdir()
    monkeypatch.chdir(folder / "cwd")
    assert reason in refusal([Bind(str(folder / "data"), at.format(folder=folder))], folder)
    assert refusal([Bind(f"{folder}/none", "/mnt")], folder).endswith("No such file or directory")


class Program:
    """The program in front of a command, as an engine starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.attempt = folder / "job" / "attempt-1"
        self.attempt.mkdir(parents=True)

    def start(
        self,
        *data: Mapping[str, object],
        script: str,
        limited: Callable[[], None] | None = None,
        pass_fds: tuple[int, ...] = (),
        words: tuple[str, ...] = (),
        path: str = "",
    ) -> subprocess.Popen[str]:
        todo = {
            "data": [{"write": False, **each} for each in data],
            "code": None,
            "job": str(self.attempt.parent),
            "attempt": str(self.attempt),
            "upload_seconds": 0.2,
        }
        spec = self.attempt / "spec.json"
        spec.write_text(json.dumps(todo))
        return subprocess.Popen(
            [*PROGRAM, str(spec), "--", "/bin/sh", "-c", script, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{path}", "LC_ALL": "C"},
            preexec_fn=limited,
            pass_fds=pass_fds,
        )

    def run(
        self,
        *data: Mapping[str, object],
        script: str,
        limited: Callable[[], None] | None = None,
        code: int = 0,
    ) -> str:
        process = self.start(*data, script=script, limited=limited)
        said, wrong = process.communicate(timeout=120)
        assert process.returncode == code, said + wrong
        return said if code == 0 else wrong


@pytest.fixture
def program(folder: Path) -> Program:
    return Program(folder)


def no_namespaces() -> None:
    """Have the kernel answer unshare(2) with EPERM, as it does in most containers (seccomp)."""
    numbers = {"x86_64": 272, "aarch64": 97}
    code = [
        (0x20, 0, 0, 0),  # load the number of the system call
        (0x15, 0, 1, numbers[os.uname().machine]),
        (0x06, 0, 0, 0x00050000 | 1),  # SECCOMP_RET_ERRNO | EPERM
        (0x06, 0, 0, 0x7FFF0000),  # SECCOMP_RET_ALLOW
    ]
    program = b"".join(struct.pack("HBBI", *each) for each in code)
    text = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.c_char_p(described)) == 0  # PR_SET_SECCOMP, with a filter


def test_the_program_becomes_its_command(program: Program, folder: Path) -> None:
    data = {"source": str(folder / "data"), "at": "/mnt/drumline/data"}
    reading, writing = os.pipe()
    script = f"""echo $$; pwd; cat /mnt/drumline/data/a.txt; echo
    echo $DRUMLINE_DATA_MNT_DRUMLINE_DATA
    grep SigIgn /proc/self/status; test -e /proc/self/fd/{writing} && echo inherited; exit 75"""
    process = program.start(data, script=script, pass_fds=(writing,))
    os.close(writing)
    said, wrong = process.communicate(timeout=60)
    os.close(reading)
    assert process.returncode == 75, wrong
    *lines, ignored, last = said.splitlines()
    assert lines == [str(process.pid), str(folder), "hello", "/mnt/drumline/data"]
    assert last == "inherited"
    # Python ignores signals that a command expects; who started this may ignore others.
    mask = int(ignored.removeprefix("SigIgn:"), 16)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        assert not mask >> (number - 1) & 1, ignored
    assert read_notes(program.attempt) == ()


def test_a_signal_reaches_the_command(program: Program, folder: Path) -> None:
    data = {"source": str(folder / "data"), "at": "/mnt/drumline/data"}
    script = f"trap 'echo saved; exit 75' TERM; touch {folder}/ready; while :; do sleep 0.05; done"
    process = program.start(data, script=script)
    wait_until((folder / "ready").exists, 60)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0] == "saved\n" and process.returncode == 75


def test_where_namespaces_are_forbidden_there_is_a_link(program: Program, folder: Path) -> None:
    data = {"source": str(folder / "data"), "at": str(folder / "seen")}
    hidden = {"source": str(folder / "data"), "at": "/nowhere-at-all/data"}
    script = f"""cat {folder}/seen/a.txt; readlink {folder}/seen
    echo ${variable(data["at"])}; echo $DRUMLINE_DATA_NOWHERE_AT_ALL_DATA; exit 0"""
    limits = no_namespaces
    said = program.run(data, hidden, script=script, limited=limits).splitlines()
    link, place = f"{folder}/seen", f"{folder}/data"
    assert said[0] == f"hello{place}" and said[1] == link
    if os.geteuid():  # root can make that link, too
        assert said[2] == place
    assert not os.path.lexists(link) and not os.path.lexists("/nowhere-at-all")
    (note,) = read_notes(program.attempt)
    assert "Operation not permitted" in note and "nothing is read-only" in note
    assert f"links are at {link}" in note


def test_a_link_that_is_no_longer_free(program: Program, folder: Path) -> None:
    (folder / "seen").mkdir()
    data = {"source": str(folder / "data"), "at": str(folder / "seen")}
    script = "env | grep ^DRUMLINE_DATA_ | cut -d= -f2; kill -TERM $$"
    process = program.start(data, script=script, limited=no_namespaces)
    said, _ = process.communicate(timeout=60)
    assert said == f"{folder}/data\n" and process.returncode == -signal.SIGTERM
    assert "the program has to use DRUMLINE_DATA_" in read_notes(program.attempt)[0]
    assert (folder / "seen").is_dir() and not (folder / "seen").is_symlink()


def test_a_limit_of_no_namespaces_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(flags: int) -> int:
        ctypes.set_errno(28)  # ENOSPC, as from user.max_user_namespaces = 0
        return -1

    monkeypatch.setattr(mounts._libc, "unshare", refused)
    assert "no mount namespace: No space left" in refusal([Bind("/tmp", "/mnt")], Path("/tmp"))


@pytest.mark.parametrize("shared", ["--shared-signals", ""])
def test_signals_that_come_by_themselves_are_not_passed_on(
    shared: str, program: Program, folder: Path
) -> None:
    data = {"source": str(folder / "data"), "at": str(folder / "seen")}
    script = f"""# {shared}
    trap 'echo asked' TERM; touch {folder}/ready
    until test -e {folder}/go; do sleep 0.05; done; exit 4"""
    process = program.start(data, script=script, limited=no_namespaces, words=(shared or "-",))
    wait_until((folder / "ready").exists, 60)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    (folder / "go").touch()
    assert process.communicate(timeout=60)[0] == ("" if shared else "asked\n")
    assert process.returncode == 4


@pytest.mark.parametrize("how", ["exit 3", "kill -USR1 $$"])
def test_the_parent_of_a_command_ends_as_it_does(how: str, program: Program, folder: Path) -> None:
    data = {"source": str(folder / "data"), "at": str(folder / "seen")}
    process = program.start(data, script=f"sleep 0.5; {how}", limited=no_namespaces)
    process.communicate(timeout=60)
    assert process.returncode == (3 if how == "exit 3" else -signal.SIGUSR1)


def test_a_killed_parent_takes_the_command_with_it(program: Program, folder: Path) -> None:
    data = {"source": str(folder / "data"), "at": str(folder / "seen")}
    script = f"echo $$ > {folder}/pid.new; mv {folder}/pid.new {folder}/pid; exec sleep 60"
    process = program.start(data, script=script, limited=no_namespaces)
    wait_until((folder / "pid").exists, 60)
    command = int((folder / "pid").read_text())
    assert command != process.pid
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not Path(f"/proc/{command}/cwd").exists(), 20)


def test_missing_data_end_the_start_with_a_sentence(program: Program, folder: Path) -> None:
    data = {"source": f"{folder}/none", "at": "/mnt/drumline/data"}
    said = program.run(data, script="echo never", code=66)
    assert said == f"drumline: data: there is no folder {folder}/none\n"
