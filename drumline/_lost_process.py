"""How the loss of a process is said, by all that notice one.

Process groups, the chief of parameter servers, `distribute` and worker processes of datasets, and
launchers each notice a loss by means of their own (docs/inside/decisions.md says why). What they
say of it has one form, so that it is recognized, and found in logs, wherever it comes from:

    worker:1 at 10.0.0.2:2222 (pid 4711) is lost: it was killed by SIGKILL (...). A collective
    failed in step 7. Restart all from the last checkpoint.

Which process; what was seen of it; what follows; what to do. What was seen is put in the words that
are here, wherever they fit, as predicates: "has closed its connection".
"""

from __future__ import annotations

import dataclasses
import signal

CLOSED = "has closed its connection"
DIED = "has died (killed, or aborted)"
NO_ANSWER = "does not answer"
SHUT_DOWN = "has shut down"
STOPPED = "is stopped (SIGSTOP, a debugger)"


def silent(seconds: float) -> str:
    """Nothing has come from it for so long, although it should say that it lives."""
    return f"has sent no heartbeat for {seconds:.0f} s"


def exited(returncode: int) -> str:
    """``"exited with code 1"``, ``"was killed by SIGKILL (...)"``.

    Args:
        returncode: as of ``subprocess.Popen``: negative for a signal.
    """
    if returncode < 0:
        return f"was killed by {_signal(-returncode)}"
    if 128 < returncode < 128 + signal.NSIG:
        return f"exited with code {returncode} (in a shell: {_signal(returncode - 128)})"
    return f"exited with code {returncode}"


_HINTS = {
    signal.SIGKILL: "by someone, or by the kernel for lack of memory",
    signal.SIGSEGV: "a crash in native code",
    signal.SIGABRT: "native code gave up",
}


def _signal(number: int) -> str:
    try:
        known = signal.Signals(number)
    except ValueError:  # real-time signals have no names
        return f"signal {number}"
    hint = _HINTS.get(known)
    return f"{known.name} ({hint})" if hint else known.name


@dataclasses.dataclass(frozen=True)
class LostProcess:
    """A process that is lost to the one that says so.

    Attributes:
        name: its job and index, as ``"worker:1"``, or what it is.
        seen: what was seen of it, as a clause: ``"it has closed its connection"``.
        address: where it is or listened, as ``"host:port"``; empty if that is not known.
        pid: its number on its machine, if known.
    """

    name: str
    seen: str
    address: str = ""
    pid: int | None = None

    @property
    def clause(self) -> str:
        """Which process, and what was seen of it, without a full stop."""
        where = f" at {self.address}" if self.address else ""
        number = "" if self.pid is None else f" (pid {self.pid})"
        return f"{self.name}{where}{number} is lost: {self.seen}"

    def report(self, follows: str, remedy: str) -> str:
        """The whole of it, in sentences.

        Args:
            follows: what follows from the loss, as a sentence; full stops are added.
            remedy: what to do about it, or what is done, the same.
        """
        said = (self.clause, follows, remedy)
        return " ".join(f"{sentence.rstrip().removesuffix('.')}." for sentence in said)
