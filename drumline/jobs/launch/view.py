"""What the user sees while a job runs: a line per process at a terminal, plain lines otherwise."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.failure_cause import short_exit
from drumline.jobs.launch.logs import LogTail, printable
from drumline.jobs.launch.process import Child
from drumline.jobs.logs.writing import LogWriter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

REFRESH_SECONDS = 0.25

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_red")


class LogConsole:
    """A file within a limit, in the place of a console: lines without colours.

    Args:
        log: the file, to which lines are added.
        limit: bytes of it.

    Raises:
        LaunchError: if the file cannot be written.
    """

    is_terminal = False

    def __init__(self, log: Path, limit: int) -> None:
        try:
            self._writer = LogWriter(log, limit, append=True)
        except OSError as error:
            raise LaunchError(
                f"--launcher-log {log} cannot be written: {error.strerror}."
            ) from None

    def line(self, text: str) -> None:
        """Add a line."""
        self._writer.write(f"{text}\n".encode(errors="replace"))


class View:
    """Shows a job on `console`.

    Args:
        console: where; a table that is redrawn if it is a terminal, else lines for what changes.
        prefix_output: whether to show all that the processes print, behind their names.
        quiet: whether to show neither table nor changes, only output asked for and failures.
    """

    def __init__(self, console: Console | LogConsole, *, prefix_output: bool, quiet: bool) -> None:
        self._console = console
        self._prefix_output = prefix_output
        self._quiet = quiet
        self._live: Live | None = None
        self._tails: dict[Child, LogTail] = {}
        self._states: dict[Child, str] = {}
        self._due = 0.0
        self._title = ""

    def begin(self, children: Sequence[Child], title: str) -> None:
        """Show these processes from now on, beneath `title`."""
        self.end()
        self._title = title
        self._tails = {child: LogTail(child.log) for child in children}
        self._states = dict.fromkeys(children, "running")
        if self._quiet:
            return
        if not isinstance(self._console, LogConsole) and self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        else:
            self.note(title)
            for child in children:
                self.note(f"{child.task} started (pid {child.pid})")
        self.refresh()

    def replace(self, old: Child, new: Child) -> None:
        """Show `new` from now on, where `old` was shown."""
        self.refresh(ended=True)
        self._tails = {
            new if child is old else child: LogTail(new.log) if child is old else tail
            for child, tail in self._tails.items()
        }
        self._states[new] = "running"
        self.note(f"{new.task} started (pid {new.pid})")

    def end(self) -> None:
        """Show how things stand for the last time."""
        self.refresh(ended=True)
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._tails = {}

    def note(self, text: str) -> None:
        """A line about the job itself."""
        if not self._quiet:
            self.say(text)

    def say(self, text: str, style: str = "") -> None:
        """A line that is shown even when quiet."""
        self._line((printable(text), style))

    def refresh(self, *, ended: bool = False) -> None:
        """Show what is new, if the last time is long enough ago."""
        now = time.monotonic()
        if now < self._due and not ended:
            return
        self._due = now + REFRESH_SECONDS
        if self._live is None and not self._quiet:
            self._note_changes()
        for position, (child, tail) in enumerate(self._tails.items()):
            lines = tail.new_lines(ended=not child.running) if self._reads_logs() else []
            if self._prefix_output:
                self._print(child, position, lines)
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def _reads_logs(self) -> bool:
        return self._prefix_output or self._live is not None

    def _print(self, child: Child, position: int, lines: Sequence[str]) -> None:
        colour = _COLOURS[position % len(_COLOURS)]
        for line in lines:
            self._line((f"[{child.task}] ", colour), (line, ""))

    def _line(self, *parts: tuple[str, str]) -> None:
        """A line of texts, each with its style."""
        if isinstance(self._console, LogConsole):
            self._console.line("".join(text for text, _ in parts))
            return
        from rich.text import Text  # which takes as long to import as a short job runs

        self._console.print(Text.assemble(*parts), soft_wrap=True)

    def _note_changes(self) -> None:
        for child in self._tails:
            state = _state(child)
            if state != self._states.get(child):
                self._states[child] = state
                self.note(f"{child.task} {state} after {clock(child.seconds)}")

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, expand=True, title_justify="left")
        table.title = Text(self._title, style="bold")
        for name in ("process", "pid", "state", "time"):
            table.add_column(name, no_wrap=True, justify="left")
        table.add_column("last line of its log", no_wrap=True, overflow="ellipsis", ratio=1)
        for position, (child, tail) in enumerate(self._tails.items()):
            table.add_row(
                Text(str(child.task), style=_COLOURS[position % len(_COLOURS)]),
                str(child.pid),
                _styled(child),
                clock(child.seconds),
                Text(tail.last),
            )
        return table


def clock(seconds: float) -> str:
    """``"0:07"``, ``"1:02:03"``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _state(child: Child) -> str:
    if child.running:
        return "suspended" if child.is_stopped() else "running"
    if child.returncode == 0:
        return "done"
    assert child.returncode is not None
    if child.asked_to_stop:
        return f"stopped ({short_exit(child.returncode)})"
    return f"failed ({short_exit(child.returncode)})"


def _styled(child: Child) -> Text:
    from rich.text import Text

    state = _state(child)
    styles = {"done": "green", "failed": "bold red", "suspended": "bold yellow", "stopped": "dim"}
    return Text(state, style=styles.get(state.split()[0], ""))
