"""Iterators that are closed, restored or shared while threads work for them."""

import sys
import threading
import time

import numpy as np

from drumline.data import Dataset, TensorSpec
from drumline.data.engine.lowering import Lowering


def slow():
    for i in range(50):
        time.sleep(0.01)
        yield i


def prefetched():
    return Dataset.from_generator(slow, output_signature=TensorSpec((), np.int32)).prefetch(4)


def test_closing_while_the_thread_is_inside_the_generator():
    assert [int(v) for v in prefetched().take(2)] == [0, 1]
    iterator = iter(prefetched())
    next(iterator)
    iterator.close()


def test_restoring_while_the_thread_is_inside_the_generator():
    iterator = iter(prefetched())
    next(iterator)
    iterator.restore(iterator.state())
    assert next(iterator) == 1


def test_a_generator_is_closed_once_its_thread_has_left_it():
    closed = threading.Event()

    def generator():
        try:
            yield from slow()
        finally:
            closed.set()

    ds = Dataset.from_generator(generator, output_signature=TensorSpec((), np.int32))
    iterator = iter(ds.prefetch(2))
    next(iterator)
    iterator.close()
    assert closed.wait(5)


def test_threads_that_share_an_iterator_get_each_element_once():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    iterator = iter(Dataset.range(20_000).filter(lambda v: v >= 0).batch(3))
    found = []
    try:
        threads = [threading.Thread(target=lambda: found.extend(iterator)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sorted(np.concatenate(found).tolist()) == list(range(20_000))


def test_errors_met_while_fewer_elements_are_asked_for():
    ds = Dataset.range(40).map(lambda v: 12 // ((v - 3) * (v - 4)))
    stage = Lowering(ds._plan, set()).stage(0)
    found = [stage.next(limit) for limit in (10, 3, 3, 100)]
    assert [(block.n, block.error is not None) for block in found] == [
        (3, True),
        (0, True),
        (3, False),
        (2, False),
    ]


def test_elements_at_hand_cost_no_call_of_python():
    calls = found = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    iterator = iter(Dataset.range(20_000))
    sys.setprofile(count)
    try:
        for _ in iterator:
            found += 1
    finally:
        sys.setprofile(None)
    assert found == 20_000
    assert calls < 4_000
