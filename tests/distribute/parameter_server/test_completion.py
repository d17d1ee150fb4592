"""How a worker says that a step has ended, or that a server is lost."""

from concurrent.futures import Future

from drumline.distribute.parameter_server.wire import Message, PeerUnavailableError
from drumline.distribute.parameter_server.wire.messages import ClosureResult
from drumline.distribute.parameter_server.worker.pipeline import Completion, fail
from drumline.distribute.parameter_server.worker.step import ReceivedClosure


def test_a_server_that_is_lost_before_it_has_answered_is_named():
    closure, taken, lost = ReceivedClosure("a", 0, (), []), Future(), Future()
    Completion(closure, [], [taken, lost], fail)
    taken.set_result(Message({}))
    assert not closure.answer.done()
    lost.set_exception(PeerUnavailableError("host:1", "it was reset"))
    result, arrays = closure.answer.result()
    failed = result.failed
    assert (failed.kind, failed.address, failed.reason) == ("server lost", "host:1", "it was reset")
    assert arrays == []


def test_a_step_has_ended_when_all_servers_have_answered():
    closure, answers = ReceivedClosure("a", 0, (), []), [Future(), Future()]
    Completion(closure, ["result"], answers, fail)
    for answer in answers:
        assert not closure.answer.done()
        answer.set_result(Message({}))
    assert closure.answer.result() == (ClosureResult(), ["result"])
