"""Results that another thread makes."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import CancelledError

import pytest

from drumline.data.runtime.threads import Promise


def test_it_waits_for_the_result() -> None:
    promise: Promise[int] = Promise()
    timer = threading.Timer(0.05, promise.fulfil, (7,))
    assert not promise.done
    timer.start()
    assert promise.result() == 7
    assert promise.result() == 7
    assert promise.done


def test_what_the_task_raised_is_raised_and_not_kept() -> None:
    class Held(Exception):
        pass

    promise: Promise[int] = Promise()
    error = Held("task")
    held = weakref.ref(error)
    promise.fail(error)
    del error
    with pytest.raises(Held, match="task"):
        promise.result()
    gc.disable()
    try:
        del promise
        assert held() is None
    finally:
        gc.enable()


def test_one_that_is_never_begun() -> None:
    promise: Promise[int] = Promise()
    promise.fail(CancelledError())
    with pytest.raises(CancelledError):
        promise.result()
