"""Threads that are kept for the next task."""

import threading

import pytest

from drumline.data.runtime.threads import PooledThreads, Workers


def names_of(threads, at_once):
    """Who runs so many tasks that wait for each other."""
    together, names = threading.Barrier(at_once + 1), []

    def meet():
        names.append(threading.current_thread().name)
        together.wait(10)

    for _ in range(at_once):
        threads.submit(meet)
    together.wait(10)
    return sorted(names)


def test_as_many_run_at_once_as_there_are_tasks():
    threads = PooledThreads(3, "some")
    assert names_of(threads, 1) == ["some_0"]
    held = threading.Event()
    for _ in range(5):
        threads.submit(held.wait)
    held.set()
    # Also after tasks had to wait for a thread.
    for _ in range(20):
        assert names_of(threads, 3) == ["some_0", "some_1", "some_2"]
    threads.join()


def test_what_waits_is_done_before_the_threads_end():
    threads, done, held = PooledThreads(2, "some"), [], threading.Event()
    threads.submit(held.wait)
    for i in range(10):
        threads.submit(lambda i=i: done.append(i))
    threads.shutdown()
    with pytest.raises(RuntimeError, match="have been ended"):
        threads.submit(held.wait)
    held.set()
    threads.join()
    assert sorted(done) == list(range(10))  # which of two that run at once is first is open


def test_where_there_may_be_no_further_thread_those_there_are_do_the_work(monkeypatch):
    threads, held, done = PooledThreads(2, "some"), threading.Event(), threading.Event()
    threads.submit(held.wait)

    def refuse(self):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        threads.submit(done.set)
        with pytest.raises(RuntimeError, match="can't create new thread"):
            PooledThreads(2, "none").submit(done.set)
    held.set()
    assert done.wait(10)
    assert names_of(threads, 2) == ["some_0", "some_1"]
    threads.join()


def test_workers_that_leave_end_what_runs_and_whoever_waits():
    threads, held, running = PooledThreads(1, "some"), threading.Event(), threading.Event()
    workers: Workers[object] = Workers(threads, 1)
    first = workers.submit(lambda: (running.set(), held.wait(10)))
    second = workers.submit(lambda: None)
    assert running.wait(10)
    workers.request_stop()
    with pytest.raises(SystemExit, match="the program ends"):
        second.result()
    with pytest.raises(SystemExit, match="the program ends"):
        workers.submit(lambda: None)
    held.set()
    assert first.result() == (None, True)
    workers.close()
    threads.join()


@pytest.mark.parametrize("end", [Workers.request_stop, Workers.close])
def test_workers_may_be_closed_by_what_is_freed_as_they_end(end):
    class Stage:
        def __del__(self):
            workers.close()

    workers = Workers(PooledThreads(1, "some"), 0)
    workers.submit(lambda: None)
    # Freed under the lock, as garbage may be.
    workers._refusal = Stage()
    ended = threading.Thread(target=end, args=(workers,), daemon=True)
    ended.start()
    ended.join(10)
    assert not ended.is_alive()
