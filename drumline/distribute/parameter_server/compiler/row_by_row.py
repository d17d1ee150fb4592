"""Whether a function computes every row of its results from the same row of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax

from drumline.distribute.parameter_server.compiler.errors import OptimizerError
from drumline.distribute.parameter_server.compiler.interpreter import RowsInterpreter
from drumline.distribute.parameter_server.compiler.rows import Rows
from drumline.training import jax_internals


class _Check(RowsInterpreter):
    def __init__(self, shape: tuple[int, ...], name: str) -> None:
        super().__init__([shape])
        self._name = name

    def refuse(self, eqn: Any, values: Sequence[Any]) -> NoReturn:
        raise OptimizerError(
            f"{self._name} cannot update single rows of a table: its `{eqn.primitive.name}` at "
            f"{jax_internals.source_line(eqn)} needs all of them. Use SGD, Adagrad, Adam, RMSprop "
            "or Ftrl, or let the variable be no table."
        )


def require_row_by_row(update: Callable[..., Any], specs: Sequence[Any], name: str) -> None:
    """Refuse an update that mixes the rows of a variable.

    Args:
        update: takes and gives a value and slots first.
        specs: of its arguments.
        name: the optimizer's.

    Raises:
        OptimizerError: with the operation that does it.
    """
    shape = tuple(specs[0].shape)
    traced = jax.make_jaxpr(update)(*specs)

    def evaluate(*arrays: Any) -> list[Any]:
        rows = [
            Rows(array, shape, "", False) if tuple(array.shape) == shape else array
            for array in arrays
        ]
        outputs = _Check(shape, name).evaluate(traced.jaxpr, traced.consts, rows)
        return [output.value if isinstance(output, Rows) else output for output in outputs]

    jax.eval_shape(evaluate, *specs)
