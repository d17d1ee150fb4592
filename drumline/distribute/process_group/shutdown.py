"""How a process of a group ends: at once when it failed, with the others when it is done."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import NoReturn

import jax

from drumline import failure_record
from drumline._changes import note
from drumline.distribute.process_group import jax_internals
from drumline.distribute.process_group.coordination import Failure
from drumline.distribute.process_group.peers import (
    FailureCause,
    Membership,
    PeerLostError,
    is_about_a_peer,
)
from drumline.failure_record import Kind

EXCEPTION_EXIT_CODE = 1
PEER_LOST_EXIT_CODE = 69
STUCK_EXIT_CODE = 70
_INTERRUPTED_EXIT_CODE = 130

_TELL_SECONDS = 0.3
_COORDINATOR_LINGERS_SECONDS = 0.8
_TOGETHER_SECONDS = 5.0
_NOTICE_SECONDS = 10.0


class Ending:
    """Ends the process `membership` belongs to."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._pid = os.getpid()
        self._once = threading.Lock()
        self._previous_hook = sys.excepthook
        self._previous_thread_hook = threading.excepthook

    def install(self) -> None:
        """End the process this way when a Python exception is not caught."""
        sys.excepthook = self._on_exception
        threading.excepthook = self._on_thread_exception
        for hook in ("sys.excepthook", "threading.excepthook"):
            note(
                "process",
                hook,
                "an exception that is not caught ends the whole job, not this process alone",
                "no strategy over several processes",
            )

    def fail(
        self,
        kind: Kind,
        message: str,
        *,
        trace: str = "",
        step: int | None = None,
        peer: str | None = None,
        what: str | None = None,
        say: str = "",
        exit_code: int,
    ) -> NoReturn:
        """Write the failure record, tell the others, and leave without waiting for anybody.

        Args:
            kind, message, step, peer: see `failure_record.FailureRecord`.
            trace: its traceback.
            what: what the others receive, if not `message`.
            say: a line for standard error.
            exit_code: the process's.
        """
        if not self._once.acquire(blocking=False):
            threading.Event().wait()  # another thread is ending this process
        if say:
            print(say, file=sys.stderr)
        group = self._membership.group
        try:
            failure_record.write(
                group.task_type,
                group.task_id,
                kind,
                message,
                traceback=trace,
                step=step,
                peer=peer,
            )
        except OSError as error:
            print(f"drumline: the failure record was not written: {error}", file=sys.stderr)
        if peer != group.tasks[0]:  # no process answers there
            self._tell(Failure(group.task, kind, " ".join((what or message).split()), peer))
        if group.process_index == 0:
            time.sleep(_COORDINATOR_LINGERS_SECONDS)  # the others read what it keeps
        _flush()
        os._exit(exit_code)

    def lost(self, error: PeerLostError, trace: str = "", *, say: bool = False) -> NoReturn:
        """Leave because a peer is lost; `say` so on standard error."""
        self.fail(
            "peer lost",
            str(error),
            trace=trace,
            step=error.step,
            peer=error.peer,
            what=error.what,
            say=f"drumline: {error}" if say else "",
            exit_code=PEER_LOST_EXIT_CODE,
        )

    def who_stands_still(self, message: str) -> FailureCause | None:
        """Tell the others that a step here does not end, and hear who is not in it."""
        self._tell(Failure(self._membership.group.task, "stuck", message, None))
        return self._membership.who_stands_still()

    def leave(self) -> None:
        """Leave with the work done.

        Waits a moment for the others, so that none loses a connection it still reads from. Process
        0 waits until all are gone, however long they work, as it keeps the blackboard.
        """
        if os.getpid() != self._pid or not jax_internals.is_connected():
            return
        coordination = self._membership.coordination
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # process 0 is gone: nothing to keep
            coordination.tell_leaving()
            if self._membership.group.process_index == 0:
                self._wait_for_all()
            else:
                self._wait_together()
        jax.distributed.shutdown()

    def finish_computations(self) -> None:
        """Wait for what has been started; if it fails for a peer, leave as for any such error."""
        if os.getpid() != self._pid or not jax_internals.is_connected():
            return
        try:
            for array in jax.live_arrays():
                if not array.is_deleted():
                    array.block_until_ready()
        except jax.errors.JaxRuntimeError as error:
            self._on_exception(type(error), error, error.__traceback__)

    def _wait_together(self) -> None:
        everybody = set(range(self._membership.group.num_processes))
        until = time.monotonic() + _TOGETHER_SECONDS
        while self._membership.coordination.left() < everybody and time.monotonic() < until:
            time.sleep(0.02 * max(1, len(everybody) / 16))

    def _wait_for_all(self) -> None:
        notice = time.monotonic() + _NOTICE_SECONDS
        while others := self._membership.coordination.live() - {0}:
            if time.monotonic() > notice:
                notice = float("inf")
                names = ", ".join(self._membership.group.tasks[index] for index in sorted(others))
                print(
                    f"drumline: {self._membership.group.task} is done and waits for {names}, "
                    f"which still run: it keeps what they coordinate by.",
                    file=sys.stderr,
                )
            time.sleep(0.05)

    def _tell(self, failure: Failure) -> None:
        def tell() -> None:
            with contextlib.suppress(
                jax.errors.JaxRuntimeError
            ):  # then no process is left to notify
                self._membership.coordination.tell_failure(failure)

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        thread.join(_TELL_SECONDS)

    def _on_exception(
        self,
        kind: type[BaseException],
        error: BaseException,
        where: TracebackType | None,
    ) -> None:
        self._previous_hook(kind, error, where)
        if os.getpid() != self._pid or not jax_internals.is_connected():
            return
        trace = "".join(traceback.format_exception(kind, error, where))
        if isinstance(error, PeerLostError):
            self.lost(error, trace)
        if is_about_a_peer(error):
            lost = self.peer_lost(error, None)
            print(f"{type(lost).__name__}: {lost}", file=sys.stderr)
            self.lost(lost, trace)
        self.fail(
            "exception",
            "".join(traceback.format_exception_only(kind, error)),
            trace=trace,
            exit_code=(
                _INTERRUPTED_EXIT_CODE
                if isinstance(error, KeyboardInterrupt)
                else EXCEPTION_EXIT_CODE
            ),
        )

    def _on_thread_exception(self, args: threading.ExceptHookArgs) -> None:
        error = args.exc_value
        about_a_peer = isinstance(error, PeerLostError) or (
            error is not None and is_about_a_peer(error)
        )
        if error is not None and about_a_peer:
            self._on_exception(args.exc_type, error, args.exc_traceback)
        self._previous_thread_hook(args)

    def peer_lost(self, error: BaseException, step: int | None) -> PeerLostError:
        """The error to raise for one of JAX's that a peer's end has caused."""
        blame = self._membership.blame(str(error))
        place = "" if step is None else f" in step {step}"
        first_line = str(error).strip().partition("\n")[0]
        return self.because(blame, f"A collective failed{place} ({first_line})", step)

    def because(self, blame: FailureCause, what: str, step: int | None = None) -> PeerLostError:
        """The error that says `blame`, `what` follows from it here, and what to do."""
        return PeerLostError(
            self._membership.lost(blame).report(
                f"{what}; this process cannot continue alone",
                "Restart all from the last checkpoint",
            ),
            peer=blame.peer,
            what=blame.what,
            step=step,
        )


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a closed pipe takes no more
            stream.flush()
