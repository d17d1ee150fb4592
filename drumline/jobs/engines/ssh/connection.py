"""A connection to a host, by OpenSSH's ``ssh``: the user's own keys, known hosts and settings.

All connections of this machine to a host share one (ControlMaster), which stays for a minute after
the last of them has ended. Nothing is ever asked: a key that is not known, or a password, is an
error with its remedy.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.engines.ssh.on_host import HELLO
from drumline.jobs.engines.ssh.settings import SshSettings

ANSWER_SECONDS = 30.0
"""How long an answer may take."""

_CONNECT_SECONDS = 60.0
_SETTINGS = (
    *("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3"),
    *("ControlMaster=auto", "ControlPersist=60", "ForwardAgent=no", "ForwardX11=no"),
    *("RequestTTY=no", "RemoteCommand=none", "PermitLocalCommand=no", "LogLevel=ERROR"),
)
_LONGEST_SOCKET = 90  # Of 108 bytes; ssh adds some while it connects.
_MISSING, _FAILED_TO_CONNECT = 127, 255

# Each Python is tried, and what is wrong with it is said.
_FIND = """
for p in "$@"; do
  if ! command -v "$p" >/dev/null 2>&1; then said="$said; $p: not there"; continue; fi
  if w=$("$p" -P -c "import drumline_command.job_process, drumline.jobs.engines.ssh.on_host" 2>&1)
  then exec "$p" -P -m drumline_command.job_process ssh-host; fi
  v=$("$p" -c "import sys; print('Python %d.%d' % sys.version_info[:2])" 2>/dev/null)
  said="$said; $p: $v, $(printf %s "$w" | tail -n 1)"
done
echo "drumline-none$said"; exit 127
"""

_FINAL = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
     "its host key is not the one in your known_hosts; if that is right, remove the old one by "
     "`ssh-keygen -R {name}` and accept the new one by `ssh {host}`"),
    (r"Host key verification failed|No .* host key is known",
     "its host key is not known; look at it and accept it by `ssh {host}`, once"),
    (r"Permission denied|Too many authentication failures|no mutual signature",
     "it does not accept your key ({said}); `ssh -o BatchMode=yes {host} true` has to work, as "
     "with ssh-agent or `ssh-copy-id {host}`"),
    (r"Bad configuration option|Bad owner or permissions|unknown option|usage: ssh|terminating, "
     r"\d+ bad", "ssh refuses its options: {said}"),
    (r"Could not resolve hostname", "its name is not known: {said}"),
)  # fmt: skip


class HostError(Exception):
    """A host that cannot be used, or has refused something; the message says why.

    Attributes:
        final: it will be so again, until a person does something about it.
    """

    def __init__(self, text: str, final: bool = False) -> None:
        super().__init__(text)
        self.final = final


class HostConnection:
    """Requests to a host, one after another; they may come from several threads.

    Args:
        host: as ``ssh`` takes it.
        settings: of the engine.
        workspace: its identity.
    """

    def __init__(self, host: str, settings: SshSettings, workspace: str) -> None:
        self.host = host
        self._settings = settings
        self._workspace = workspace
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def ask(
        self, verb: str, payload: bytes = b"", seconds: float = ANSWER_SECONDS, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Have a request answered; connect before if that is needed.

        Args:
            verb: of `HostRequests`.
            payload: bytes that go with it.
            seconds: how long the answer may take.
            fields: of the request.

        Raises:
            HostError: the host does not answer, or refuses it.
        """
        with self._lock:
            if self._closed:
                raise HostError(self._named("the connection was closed"))
            if self._process is None:
                self._connect()
            try:
                answer, data = self._exchange({"verb": verb, **fields}, payload, seconds)
            except (OSError, ValueError) as error:
                why = self._end()
                raise HostError(self._named(why or f"the connection is lost: {error}")) from None
        if error_text := answer.get("error"):
            raise HostError(self._named(error_text), final=True)
        return answer, data

    def close(self) -> None:
        """End the connection, also the shared one, for good."""
        with self._lock:
            self._closed = True
            self._end()
            command = [*self._ssh(), "-O", "exit", "--", self.host]
            with contextlib.suppress(OSError):
                subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10)

    def _named(self, text: str) -> str:
        return f"{self.host}: {text}"

    def _ssh(self) -> list[str]:
        options = [word for each in _SETTINGS for word in ("-o", each)]
        place = ["-o", f"ControlPath={_sockets(self._settings.options)}/%C"]
        # The first one that is given counts for ssh: what drumline needs.
        return ["ssh", "-T", *options, *place, *self._settings.options]

    def _connect(self) -> None:
        if shutil.which("ssh") is None:
            raise HostError("ssh was not found on PATH; install openssh-client", final=True)
        script = shlex.join(["sh", "-c", _FIND, "sh", *self._pythons()])
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        # The master that stays in the background holds this file, which a pipe would wait for.
        self._process = subprocess.Popen(
            [*self._ssh(), "--", self.host, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd="/",
        )
        try:
            hello = self._hello()
        except OSError as error:
            code, said = self._ended()
            raise self._explained(code, said or str(error)) from None
        problem = self._version_problem(hello)
        if not problem:
            given = {
                name: value
                for name, value in (
                    ("cpus", self._settings.cpus), ("memory", self._settings.memory)
                )
                if value
            }  # fmt: skip
            if self._settings.gpus >= 0:
                given["gpus"] = self._settings.gpus
            opened = {
                "verb": "open",
                "folder": self._settings.folder,
                "name": folder_name(self.host),
                "workspace": self._workspace,
                "given": given,
            }
            try:
                answer, _ = self._exchange(opened, b"", ANSWER_SECONDS)
            except (OSError, ValueError) as error:
                raise HostError(self._named(self._end() or str(error))) from None
            problem = answer.get("error", "")
        if problem:
            self._end()
            raise HostError(self._named(problem), final=True)

    def _pythons(self) -> list[str]:
        if self._settings.python:
            return [self._settings.python]
        return [sys.executable, "python3", "python"]

    def _hello(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        with self._deadline(_CONNECT_SECONDS):
            while line := self._process.stdout.readline():
                if line.startswith(HELLO.encode()):
                    found: dict[str, Any] = json.loads(line.removeprefix(HELLO.encode()))
                    return found
                if line.startswith(b"drumline-none"):
                    said = line.decode(errors="replace").strip().removeprefix("drumline-none; ")
                    self._end()
                    raise HostError(self._named(self._no_python(said)), final=True)
        raise OSError("it has not answered")

    def _no_python(self, said: str) -> str:
        from drumline import __version__

        chosen = self._settings.python or "python3"
        return (
            f"no Python there has drumline ({said}). Install it there, as by `ssh {self.host} "
            f"{chosen} -m pip install drumline=={__version__}`, or name the Python that has it: "
            "drumline engine add NAME --kind ssh --hosts ... --set python=/path/to/python"
        )

    def _version_problem(self, hello: Mapping[str, Any]) -> str:
        from drumline import __version__

        if hello["drumline"] == __version__:
            return ""
        return (
            f"drumline is {hello['drumline']} there ({hello['executable']}), and {__version__} "
            f"here; both must be the same: ssh {self.host} {hello['executable']} -m pip install "
            f"drumline=={__version__}"
        )

    def _exchange(
        self, request: Mapping[str, Any], payload: bytes, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        assert self._process is not None
        writer, reader = self._process.stdin, self._process.stdout
        assert writer is not None and reader is not None
        with self._deadline(seconds):
            head = json.dumps({**request, "bytes": len(payload)})
            writer.write(head.encode() + b"\n" + payload)
            writer.flush()
            line = reader.readline()
            if not line.endswith(b"\n"):
                raise OSError("it has ended")
            answer: dict[str, Any] = json.loads(line)
            data = reader.read(answer["bytes"]) if "error" not in answer else b""
            if len(data) < answer.get("bytes", 0) and "error" not in answer:
                raise OSError("it has ended")
        return answer, data

    @contextlib.contextmanager
    def _deadline(self, seconds: float) -> Any:
        """End the connection if what is done takes longer."""
        assert self._process is not None
        late = threading.Event()
        process = self._process

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except OSError:
            if late.is_set():
                raise OSError(f"no answer within {seconds:g} s") from None
            raise
        finally:
            timer.cancel()

    def _end(self) -> str:
        """Let go of the connection; why ssh has ended, if it has."""
        code, said = self._ended()
        return str(self._explained(code, said)).partition(": ")[2] if said and code else ""

    def _ended(self) -> tuple[int, str]:
        process, self._process = self._process, None
        if process is None:
            return 0, ""
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            code = process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        self._errors.close()
        return code, said

    def _explained(self, code: int, said: str) -> HostError:
        """What an end of ssh means."""
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        last = lines[-1] if lines else f"ssh has ended with {code}"
        for pattern, remedy in _FINAL if code in (_FAILED_TO_CONNECT, 1) else ():
            if re.search(pattern, said):
                name = self.host.rpartition("@")[2]
                text = remedy.format(host=self.host, name=name, said=last)
                return HostError(self._named(text), final=True)
        if code == _MISSING:
            return HostError(self._named(f"its shell cannot start sh: {last}"), final=True)
        return HostError(self._named(f"does not answer: {last}"))


def folder_name(host: str) -> str:
    """The folder of a host below the engine's, which several hosts may share."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", host)


def _sockets(options: Sequence[str]) -> Path:
    """A folder for the sockets of shared connections, which its user alone can read."""
    # With other options it is another connection.
    digest = hashlib.sha256("\0".join(options).encode()).hexdigest()[:8]
    name = f"drumline-ssh-{os.getuid()}-{digest}"
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        folder = Path(base, name)
        if not base or len(str(folder)) + 41 > _LONGEST_SOCKET:
            continue
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
            if found.st_uid == os.getuid() and not folder.is_symlink() and not found.st_mode & 0o77:
                return folder
    raise HostError("there is no folder for ssh's sockets; let TMPDIR name one", final=True)
