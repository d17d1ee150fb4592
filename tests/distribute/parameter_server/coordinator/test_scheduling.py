"""Closures are each given out, finished, given back or cancelled, and none is lost."""

import contextlib
import threading
import types

import pytest

from drumline.distribute.parameter_server.coordinator import worker_dispatcher
from drumline.distribute.parameter_server.coordinator.scheduling import (
    ClosureQueue,
    RoundAdmission,
    ScheduledClosure,
    StalenessAdmission,
)
from drumline.distribute.parameter_server.coordinator.worker_dispatcher import (
    FEWEST,
    MOST,
    PIPELINED,
    AdaptiveWindow,
)
from drumline.distribute.parameter_server.errors import ClosureCancelledError


def closures(count):
    return [ScheduledClosure(str(number), None, []) for number in range(count)]


def filled(count):
    queue, made = ClosureQueue(), closures(count)
    for closure in made:
        queue.put(closure)
    return queue, made


def test_closures_are_given_out_in_order():
    queue, made = filled(5)
    assert queue.take(2) == made[:2]
    assert queue.take(9) == made[2:]
    assert queue.take(1, timeout_seconds=0) == []


def test_it_is_done_when_all_have_run():
    queue, made = filled(2)
    assert not queue.done()
    queue.take(2)
    assert not queue.done()
    for closure in made:
        queue.finished(closure)
    assert queue.done()
    assert queue.completed == 2
    queue.wait()


def test_closures_of_a_lost_worker_come_before_all_others():
    queue, made = filled(4)
    queue.give_back(queue.take(2))
    assert queue.take(4) == made
    assert queue.repeated == 2


def test_an_error_cancels_what_waits_and_is_raised_once():
    queue, made = filled(4)
    first, second = queue.take(2)
    queue.failed(first, RuntimeError("first"))
    queue.failed(second, RuntimeError("second"))
    for closure in made[2:]:
        with pytest.raises(ClosureCancelledError):
            closure.result.fetch()
    with pytest.raises(RuntimeError, match="first"):
        queue.put(made[3])
    assert queue.done()
    (again,) = closures(1)
    queue.put(again)
    assert queue.take(1) == [again]


def test_wait_raises_when_those_that_run_have_ended():
    queue, _ = filled(3)
    first, second = queue.take(2)
    queue.failed(first, RuntimeError("first"))
    ended = []

    def end():
        ended.append(True)
        queue.finished(second)

    timer = threading.Timer(0.05, end)
    timer.start()
    with pytest.raises(RuntimeError, match="first"):
        queue.wait()
    assert ended
    timer.join()


def test_given_back_after_an_error_is_cancelled():
    queue, _ = filled(2)
    first, second = queue.take(2)
    queue.failed(first, RuntimeError("first"))
    queue.give_back([second])
    with pytest.raises(ClosureCancelledError):
        second.result.fetch()


def test_a_full_queue_makes_the_chief_wait():
    queue = ClosureQueue(most=2)
    for closure in closures(2):
        queue.put(closure)
    (third,) = closures(1)
    thread = threading.Thread(target=queue.put, args=(third,))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    queue.take(1)
    thread.join(10)
    assert not thread.is_alive()
    assert queue.take(2)[1] is third


def test_a_stopped_queue_gives_nothing():
    queue, _ = filled(1)
    queue.stop()
    assert queue.take(1) == []


def test_fast_workers_are_given_many_closures_and_slow_ones_few(monkeypatch):
    now = 0.0
    clock = types.SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr(worker_dispatcher, "time", clock)
    fast, slow = AdaptiveWindow(), AdaptiveWindow()
    fast.started()
    slow.started()
    for _ in range(100):
        fast._last = now
        fast.finished(1)
        now += 1.0
        slow.finished(1)
    assert fast.on_hand == MOST
    assert slow.on_hand == FEWEST
    for _ in range(100):
        now += 0.015
        slow.finished(1)
    assert slow.on_hand == PIPELINED


def test_staleness_bounds_what_a_closure_misses():
    """Also of those that start after it: a slow one does not miss what a fast worker does."""
    queue = ClosureQueue(gate=StalenessAdmission(2))
    made = closures(8)
    for closure in made:
        queue.put(closure)
    assert queue.take(9, 0) == made[:3]
    assert queue.take(9, 0) == []
    queue.finished(made[1])
    queue.finished(made[2])
    assert queue.take(9, 0) == []
    queue.finished(made[0])
    assert queue.take(2, 0) == made[3:5]
    queue.finished(made[3])
    assert queue.take(9, 0) == made[5:6]
    queue.give_back([made[4]])
    assert queue.take(1, 0) == [made[4]]


def rounds(count, workers=2):
    queue = ClosureQueue(gate=RoundAdmission(workers))
    for worker in range(workers):
        queue.present(worker, True)
    made = closures(count)
    for closure in made:
        queue.put(closure)
    return queue, made


def test_a_round_has_one_closure_of_every_worker():
    queue, made = rounds(4)
    assert queue.take(9, 0, worker=0) == made[:1]
    assert queue.take(9, 0, worker=0) == []
    assert queue.take(9, 0, worker=1) == made[1:2]
    queue.finished(made[0])
    assert queue.take(9, 0, worker=0) == []
    queue.finished(made[1])
    assert queue.take(9, 0, worker=1) == made[2:3]
    assert [closure.round for closure in made[:3]] == [(1, 2), (1, 2), (2, 2)]


def test_what_is_left_at_the_end_is_a_smaller_round():
    queue, made = rounds(3)
    for worker in (0, 1):
        (closure,) = queue.take(9, 0, worker=worker)
        queue.finished(closure)
    assert queue.take(9, 0, worker=0) == []
    assert not queue.done()
    assert queue.take(9, 0, worker=0) == made[2:]
    assert made[2].round == (2, 1)


def test_another_worker_ends_the_round_of_a_lost_one():
    queue, made = rounds(2)
    queue.take(9, 0, worker=0)
    lost = queue.take(9, 0, worker=1)
    queue.present(1, False)
    queue.give_back(lost)
    assert queue.take(9, 0, worker=0) == made[1:]
    assert made[1].round == (1, 2)


def test_a_round_that_will_not_be_complete_is_abandoned_and_others_follow():
    abandoned = []
    queue = ClosureQueue(gate=RoundAdmission(2), abandon=abandoned.append)
    made = closures(6)
    for closure in made[:3]:
        queue.put(closure)
    queue.take(9, 0, worker=0)
    queue.failed(made[0], ValueError("wrong"))
    assert abandoned == []  # nobody waits for it
    with pytest.raises(ValueError, match="wrong"):
        queue.wait()
    for closure in made[3:]:
        queue.put(closure)
    first, second = (queue.take(9, 0, worker=worker) for worker in (0, 1))
    assert first[0].round == second[0].round
    queue.failed(second[0], ValueError("worse"))
    assert abandoned == [first[0].round[0]]
    queue.give_back(first)
    assert abandoned == [first[0].round[0]]
    with pytest.raises(ValueError, match="worse"):
        queue.wait()


def test_a_closed_queue_says_so_to_all_who_wait():
    queue, made = filled(3)
    queue.take(1)
    queue.stop()
    for closure in made:
        with pytest.raises(ClosureCancelledError, match="closed"):
            closure.result.fetch()
    with pytest.raises(RuntimeError, match="3 scheduled function"):
        queue.wait()
    queue.wait()
    with pytest.raises(RuntimeError, match="Nothing more can be scheduled"):
        queue.put(made[0])


def woken_by(action):
    """Whether a thread that waits for the end, or for the error before it, is woken by `action`."""
    queue, made = filled(2)
    queue.take(2)
    ended = threading.Event()

    def wait():
        with contextlib.suppress(RuntimeError):
            queue.wait()
        ended.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    queue.finished(made[0])
    assert not ended.wait(0.05)
    action(queue, made[1])
    return ended.wait(60)


def test_whoever_waits_is_woken_by_the_last_closure_however_it_ends():
    assert woken_by(lambda queue, last: queue.finished(last))
    assert woken_by(lambda queue, last: queue.failed(last, RuntimeError("failed")))
    assert woken_by(lambda queue, last: queue.stop())

    def lost_after_an_error(queue, last):
        queue.fail(RuntimeError("failed"))
        queue.give_back([last])

    assert woken_by(lost_after_an_error)


def test_whoever_waits_for_room_is_woken_when_some_is_taken():
    queue = ClosureQueue(most=2)
    first, second, third = closures(3)
    queue.put(first)
    queue.put(second)
    thread = threading.Thread(target=queue.put, args=(third,), daemon=True)
    thread.start()
    assert queue.take(1) == [first]
    thread.join(60)
    assert queue.take(2, 60.0) == [second, third]


def test_the_end_of_a_closure_lets_the_next_start_where_it_has_to_wait():
    queue = ClosureQueue(gate=StalenessAdmission(0))
    first, second = closures(2)
    queue.put(first)
    queue.put(second)
    queue.take(2)
    taken = []
    thread = threading.Thread(target=lambda: taken.extend(queue.take(1)), daemon=True)
    thread.start()
    thread.join(0.05)
    assert not taken
    queue.finished(first)
    thread.join(60)
    assert taken == [second]
