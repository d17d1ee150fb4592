"""The sleep of a supervisor, and what ends it."""

from __future__ import annotations

import select
import threading
from pathlib import Path

from drumline.jobs.store.waking import Sleep, wake

FOREVER = 1e5


def test_a_sleep_ends_when_it_is_woken(tmp_path: Path) -> None:
    sleep = Sleep(tmp_path)
    sleeper = threading.Thread(target=sleep.wait, args=(FOREVER,), daemon=True)
    sleeper.start()
    wake(tmp_path)
    sleeper.join(60)
    assert not sleeper.is_alive()
    sleep.close()


def test_what_came_before_ends_one_sleep_and_no_second_one(tmp_path: Path) -> None:
    sleep = Sleep(tmp_path)
    for _ in range(100_000):  # More than the kernel keeps: none of them waits.
        wake(tmp_path)
    sleep.wait(FOREVER)
    assert sleep._fifo is not None and not select.select([sleep._fifo], [], [], 0)[0]
    sleep.close()
    sleep.wait(0)


def test_no_one_who_sleeps_is_no_error(tmp_path: Path) -> None:
    wake(tmp_path)
    wake(tmp_path / "none")
    Sleep(tmp_path).close()
    wake(tmp_path)
    second = Sleep(tmp_path)
    wake(tmp_path)
    second.wait(FOREVER)
    second.close()


def test_what_is_no_fifo_is_left_alone(tmp_path: Path) -> None:
    for name, make in (
        ("file", lambda path: path.write_text("mine")),
        ("link", lambda path: path.symlink_to(tmp_path / "file" / "wake")),
    ):
        home = tmp_path / name
        home.mkdir()
        make(home / "wake")
        sleep = Sleep(home)
        assert sleep._fifo is None
        wake(home)
        sleep.wait(0)
        sleep.close()
    assert (tmp_path / "file" / "wake").read_text() == "mine"
