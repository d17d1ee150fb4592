"""What goes wrong between chief, workers and servers is raised, and nobody waits for ever."""

import threading
import time

import numpy as np
import pytest

import drumline as dl
from drumline.distribute.parameter_server.coordinator import cluster_coordinator
from drumline.distribute.parameter_server.coordinator.scheduling import ScheduledClosure
from drumline.distribute.parameter_server.coordinator.worker_dispatcher import WorkerDispatcher
from drumline.distribute.parameter_server.errors import ParameterServerLostError
from drumline.distribute.parameter_server.wire import (
    AuthenticationError,
    PeerUnavailableError,
)
from drumline.distribute.parameter_server.wire.messages import FinishClosures
from drumline.distribute.parameter_server.worker.worker import Worker
from tests.distribute.parameter_server.clusters import in_process

SECONDS = 60


def in_time(call):
    """What a call returns or raises, if it does within a time."""
    outcome = []

    def run():
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert outcome, "it hangs"
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def is_on_a_worker():
    return threading.current_thread().name.startswith("drumline-lane")


@pytest.fixture
def one():
    with in_process(workers=1, ps=1) as strategy:
        yield strategy, dl.distribute.coordinator.ClusterCoordinator(strategy)


def ran(coordinator, function=lambda: np.float32(1) + 1, args=()):
    def run():
        value = coordinator.schedule(function, args)
        coordinator.join()
        return float(value.fetch())

    return in_time(run)


def test_a_function_may_draw_several_batches_whose_size_is_not_known(one):
    _, coordinator = one
    batches = coordinator.create_per_worker_dataset(lambda: dl.data.Dataset.range(10).batch(4))

    def total(first, second):
        return next(first).sum() + next(second).sum() + next(first).sum()

    assert ran(coordinator, total, (iter(batches), iter(batches))) == 28 + 6
    same = iter(batches)
    assert ran(coordinator, total, (same, same)) == 45


def test_a_worker_that_comes_meanwhile_makes_what_was_made_meanwhile(monkeypatch):
    may_come, makes = threading.Event(), threading.Event()
    find = WorkerDispatcher._find

    def find_later(self):
        may_come.wait()
        find(self)

    def numbers():
        if is_on_a_worker():
            makes.set()
            time.sleep(0.2)
        return dl.data.Dataset.range(7, 9)

    monkeypatch.setattr(WorkerDispatcher, "_find", find_later)
    with in_process(workers=1, ps=1) as strategy:
        coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
        dataset = coordinator.create_per_worker_dataset(numbers)
        may_come.set()
        makes.wait()
        assert ran(coordinator, lambda numbers: next(numbers), (iter(dataset),)) == 7


def test_a_dataset_that_a_worker_cannot_make_is_not_made_again(one):
    _, coordinator = one
    ran(coordinator)

    def broken():
        if is_on_a_worker():
            raise ValueError("there is no file here")
        return dl.data.Dataset.range(3)

    with pytest.raises(RuntimeError, match="there is no file here"):
        coordinator.create_per_worker_dataset(broken)
    (worker,) = coordinator._workers
    worker._lose(PeerUnavailableError("host:1", "it was cut off"))
    assert ran(coordinator) == 2
    assert worker.lost == 1


def test_a_worker_of_another_token_is_named(monkeypatch):
    def refuse(address, seconds):
        raise AuthenticationError(f"{address} has another token")

    with in_process(workers=1, ps=1) as strategy, monkeypatch.context() as patched:
        patched.setattr(cluster_coordinator.peers, "connect_within", refuse)
        coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
        with pytest.raises(AuthenticationError, match="has another token"):
            ran(coordinator)


def test_a_server_that_only_the_worker_cannot_reach_is_named(monkeypatch):
    def unreachable(self, lane):
        raise ParameterServerLostError(0, self._addresses[0], "there is no route")

    monkeypatch.setattr(Worker, "_connected", unreachable)
    with in_process(workers=1, ps=1) as strategy:
        coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
        with pytest.raises(ParameterServerLostError, match="there is no route"):
            ran(coordinator)


def test_a_server_that_is_lost_when_it_is_told_what_has_run(one, monkeypatch):
    strategy, coordinator = one
    with strategy.scope():
        count = dl.Variable(0.0, aggregation="sum")
    submit = strategy.servers.submit

    def lost_when_told(server, request):
        if isinstance(request, FinishClosures):
            raise ParameterServerLostError(0, "host:1", "it was killed")
        return submit(server, request)

    def many():
        for _ in range(9):
            coordinator.schedule(lambda: count.assign_add(1.0))
        coordinator.join()

    with monkeypatch.context() as patched:
        patched.setattr(cluster_coordinator, "_AT_A_TIME", 2)
        patched.setattr(strategy.servers, "submit", lost_when_told)
        with pytest.raises(ParameterServerLostError, match="it was killed"):
            in_time(many)


def test_a_chief_that_starts_again_waits_for_a_step_that_runs(one):
    strategy, former = one

    class Slow:
        element_spec = dl.data.Dataset.range(1).element_spec

        def __iter__(self):
            for number in range(99):
                time.sleep(1.5)
                yield np.int64(number)

    slow = iter(former.create_per_worker_dataset(Slow))
    for _ in range(9):
        former.schedule(lambda numbers: next(numbers), (slow,))
    time.sleep(0.1)
    anew = dl.distribute.ParameterServerStrategy(strategy.cluster_resolver)
    assert ran(dl.distribute.coordinator.ClusterCoordinator(anew)) == 2


def test_what_is_scheduled_when_all_is_closed_is_refused(one):
    _, coordinator = one
    coordinator.close()
    with pytest.raises(RuntimeError, match="coordinator was closed"):
        ran(coordinator)


def test_a_round_of_which_a_closure_fails_does_not_hold_the_others_up():
    def few(context):
        return dl.data.Dataset.range(2 if context.input_pipeline_id else 99)

    with in_process(workers=2, ps=1, synchronous=True) as strategy:
        with strategy.scope():
            count = dl.Variable(0.0, aggregation="sum")
        coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
        numbers = iter(coordinator.create_per_worker_dataset(few))

        def step(numbers):
            count.assign_add(1.0)
            return next(numbers)

        def many():
            for _ in range(9):
                coordinator.schedule(step, (numbers,))
            coordinator.join()

        for _ in range(3):
            with pytest.raises(dl.distribute.parameter_server.OutOfRangeError):
                in_time(many)
        before = float(count.numpy())
        ran(coordinator, lambda: count.assign_add(1.0))
        assert float(count.numpy()) == before + 1


def test_what_a_connection_that_is_given_up_still_says_changes_nothing(one):
    _, coordinator = one
    ran(coordinator)
    (worker,) = coordinator._workers
    former, completed = worker._reached, worker.completed
    worker._lose(PeerUnavailableError("host:1", "it was cut off"))
    assert ran(coordinator) == 2
    assert worker._reached is not former
    worker._lose_if(former, PeerUnavailableError("host:1", "it was cut off"))
    closure = ScheduledClosure("late", None, [])
    worker._ended(closure, None, [])
    assert (worker._lost, worker.lost, worker.completed) == (None, 1, completed + 1)
    assert not closure.result.ready
