"""Bars that show how far downloads and examples are, on terminals."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import rich.progress
from rich.console import Console

_enabled = True


def disable_progress_bar() -> None:
    """Show no progress of downloads and preparations from now on."""
    global _enabled
    _enabled = False


def enable_progress_bar() -> None:
    """Show progress on terminals from now on."""
    global _enabled
    _enabled = True


class ProgressTask:
    """One bar.

    Args:
        shown: where; ``None``: nowhere.
        number: of the bar there.
    """

    def __init__(self, shown: rich.progress.Progress | None, number: int) -> None:
        self._shown, self._number = shown, rich.progress.TaskID(number)
        self.done = 0

    def advance(self, count: int) -> None:
        """Add to what is done."""
        self.done += count
        if self._shown is not None:
            self._shown.advance(self._number, count)

    def set(self, done: int, total: int | None = None) -> None:
        """Say how much is done, and of how much."""
        self.done = done
        if self._shown is not None:
            self._shown.update(self._number, completed=done, total=total)


class ProgressBars:
    """Several bars, of which any thread may have one.

    Args:
        shown: where; ``None``: nowhere.
    """

    def __init__(self, shown: rich.progress.Progress | None = None) -> None:
        self._shown = shown
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def task(self, name: str, total: int | None) -> Iterator[ProgressTask]:
        """Give a bar, which disappears at the end."""
        if self._shown is None:
            yield ProgressTask(None, 0)
            return
        with self._lock:
            number = self._shown.add_task(name, total=total)
        try:
            yield ProgressTask(self._shown, number)
        finally:
            with self._lock:
                self._shown.remove_task(number)


@contextlib.contextmanager
def progress() -> Iterator[ProgressBars]:
    """Give bars on the terminal; none are shown where there is no terminal."""
    console = Console(stderr=True)
    if not _enabled or not console.is_terminal:
        yield ProgressBars()
        return
    with rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TimeElapsedColumn(),
        rich.progress.TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as shown:
        yield ProgressBars(shown)
