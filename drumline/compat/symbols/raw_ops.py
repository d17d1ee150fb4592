"""``tf.raw_ops``: the table of the operations that are there."""

from __future__ import annotations

import ast
import functools
import inspect
from dataclasses import dataclass
from pathlib import Path

from drumline.compat.symbols.table import area

_TABLE = Path(__file__).parent / "raw_ops.txt"


@dataclass(frozen=True)
class RawOperation:
    """A line of the table.

    Attributes:
        name: as ``"MatMul"``.
        arguments: in Python's syntax.
        expression: what is computed.
        results: the names of several results, or none.
        ignored: arguments that change nothing.
        fixed: arguments that must have their defaults.
    """

    name: str
    arguments: str
    expression: str
    results: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The arguments, and ``name``."""
        parsed = ast.parse(f"lambda {self.arguments}: 0", mode="eval").body
        assert isinstance(parsed, ast.Lambda)
        names = [each.arg for each in parsed.args.args]
        given = [ast.literal_eval(each) for each in parsed.args.defaults]
        defaults = [inspect.Parameter.empty] * (len(names) - len(given)) + given
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature(
            [
                inspect.Parameter(name, kind, default=default)
                for name, default in zip([*names, "name"], [*defaults, None], strict=True)
            ]
        )


@functools.cache
def operations() -> dict[str, RawOperation]:
    """The operations of the table by name."""
    found = {}
    for line in _TABLE.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        head, _, rest = line.partition("): ")
        name, _, arguments = head.partition("(")
        rest, *clauses = rest.split(" ; ")
        expression, _, results = rest.partition(" -> ")
        named = {each.partition(" ")[0]: tuple(each.split()[1:]) for each in clauses}
        found[name] = RawOperation(
            name,
            arguments,
            expression,
            tuple(results.split()),
            named.pop("ignores", ()),
            named.pop("fixes", ()),
        )
        if named:
            raise ValueError(f"raw_ops.txt: {name} has unknown clauses {sorted(named)}")
    return found


AREA = area(
    "drumline.compat.runtime.raw_ops",
    {f"functions.{name}": f"raw_ops.{name}" for name in operations()},
    differences={
        f"functions.{name}": f"only the default of {', '.join(f'{each}=' for each in found.fixed)}"
        for name, found in operations().items()
        if found.fixed
    },
)
