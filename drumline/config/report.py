"""What drumline has changed in Keras, in JAX and in the process."""

from __future__ import annotations

from collections.abc import Sequence

from drumline._changes import ProcessChange, changes


class ChangeReport(tuple[ProcessChange, ...]):
    """Changes, each with what, where, why and how not to have it; printed as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        return _table(self, 100)

    def __repr__(self) -> str:
        return f"ChangeReport({len(self)} changes)"

    def of(self, what: str) -> ChangeReport:
        """The changes of ``"Keras"``, ``"JAX"`` or the ``"process"`` alone."""
        return ChangeReport(change for change in self if change.of == what)


def report(show: bool = True) -> ChangeReport:
    """List all that drumline has changed in Keras, in JAX and in this process so far.

    Each row is noted by the code that makes the change, when it makes it: a process that has not
    imported Keras has no changes of Keras's.

    Args:
        show: whether to print it, as a table as wide as the terminal.

    Returns:
        The rows, each with ``of``, ``what``, ``where``, ``why`` and ``off``.

    Example:
        >>> changes = dl.config.report(show=False)
        >>> "KERAS_BACKEND=jax" in {change.what for change in changes.of("process")}
        True
    """
    found = ChangeReport(
        sorted(changes(), key=lambda change: ("Keras", "JAX", "process").index(change.of))
    )
    if show:
        print(_table(found, None), end="")
    return found


def _table(rows: Sequence[ProcessChange], width: int | None) -> str:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"What drumline has changed ({len(rows)})", show_lines=True)
    table.add_column("what, and where it is done", overflow="fold", ratio=1)
    table.add_column("why, and how not to have it", overflow="fold", ratio=1)
    for row in rows:
        table.add_row(f"{row.what}\n  {row.where}", f"{row.why}\n  {row.off}")
    console = Console(width=width, markup=False, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get()
