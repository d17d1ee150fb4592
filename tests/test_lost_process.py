"""All who notice that a process is lost say so in one form."""

from __future__ import annotations

from typing import cast

import pytest

from drumline._lost_process import CLOSED, LostProcess, exited, silent
from drumline.data.elements.errors import WorkerDiedError
from drumline.distribute import ParameterServerLostError
from drumline.distribute.parameter_server.coordinator import worker_dispatcher
from drumline.distribute.parameter_server.errors import ChiefLostError
from drumline.distribute.process_group.coordination import KeyValueStore
from drumline.distribute.process_group.group import ProcessGroup
from drumline.distribute.process_group.peers import FailureCause, LocalProcess, Membership
from drumline.distribute.process_group.shutdown import Ending
from drumline.jobs.launch.coordination import Verdict
from drumline.jobs.launch.failure_cause import Role, Suspect
from drumline.jobs.launch.job import explain, explain_alone
from tests.lost_processes import lost_in


def test_a_report_has_four_parts() -> None:
    lost = LostProcess("worker:1", f"it {CLOSED}", "10.0.0.2:2222", 4711)
    assert lost.report("A step failed", "Start again.") == (
        "worker:1 at 10.0.0.2:2222 (pid 4711) is lost: it has closed its connection. "
        "A step failed. Start again."
    )
    assert lost_in(lost.report("A step failed", "Start again"), "worker:1") == {
        "name": "worker:1",
        "address": "10.0.0.2:2222",
        "pid": "4711",
        "seen": "it has closed its connection",
        "follows": "A step failed",
        "remedy": "Start again",
    }
    unknown = LostProcess("One of the peers", f"it {silent(5.4)}")
    assert unknown.clause == "One of the peers is lost: it has sent no heartbeat for 5 s"


@pytest.mark.parametrize(
    ("returncode", "text"),
    [
        (1, "exited with code 1"),
        (-11, "was killed by SIGSEGV (a crash in native code)"),
        (-40, "was killed by signal 40"),
        (137, "exited with code 137 (in a shell: SIGKILL (by someone"),
        (255, "exited with code 255"),
    ],
)
def test_how_a_process_ended_in_words(returncode: int, text: str) -> None:
    assert exited(returncode).startswith(text)


def peer_lost() -> str:
    group = ProcessGroup("worker", 0, 0, ("worker:0", "worker:1"), ("a:1", "b:2"))
    processes = [LocalProcess("", 5, 0), LocalProcess("", 6, 0)]
    membership = Membership(group, cast(KeyValueStore, None), processes, 25)
    ending = Ending(membership)
    error = ending.because(FailureCause("worker:1", exited(-9)), "A collective failed", 7)
    assert (error.peer, error.what, error.step) == ("worker:1", exited(-9), 7)
    return str(error)


def worker_lost(caplog: pytest.LogCaptureFixture) -> str:
    warning = worker_dispatcher.UnreachableWarning("worker:1", "b:2", 0.0)
    with caplog.at_level("WARNING", "drumline"):
        warning.note(f"it {exited(-9)}")
    return caplog.messages[-1]


def launched() -> str:
    suspect = Suspect("worker:1", Role.CAUSE, 0, exited(-9), "", "the.log", (), "b:2", 6)
    assert lost_in("\n".join(explain_alone(suspect)), "worker:1")["seen"] == f"it {exited(-9)}"
    return "\n".join(explain(Verdict(False, (suspect,))))


def test_all_who_notice_one_say_it_in_the_same_form(caplog: pytest.LogCaptureFixture) -> None:
    seen = f"it {exited(-9)}"
    address = "b:2"
    for text, name, where in [
        (peer_lost(), "worker:1", address),
        (str(ParameterServerLostError(1, "b:2", seen)), "ps:1", address),
        (str(ChiefLostError("ps:1", seen, 3.0)), "chief:0", None),
        (worker_lost(caplog), "worker:1", address),
        (str(WorkerDiedError("map(f)", 7, seen)), "A worker of distribute", None),
        (launched(), "worker:1", address),
    ]:
        said = lost_in(text, name)
        assert said["seen"] == seen
        assert said["address"] == where
        assert said["follows"] and said["remedy"]
