"""Reads of Keras variables, which the open tapes watch by themselves."""

from __future__ import annotations

from typing import Any

from drumline.training import jax_internals, keras_internals
from drumline.training.tape.session import open_sessions


def read_unconverted(variable: Any) -> Any:
    """The value of `variable` without autocast, watched by the open tapes; None if it has none."""
    value = _stored(variable)
    if value is None:
        return None
    watching = [each for each in open_sessions() if each.watches(variable) and each.sees(value)]
    if not watching:
        return value
    innermost = watching[-1]
    read = innermost.reads.known(variable, value)
    if read is None:
        read = jax_internals.same_value(value, innermost.trace_outside_tapes())
        innermost.reads.remember(variable, value, read)
        for session in watching:
            session.reads.add(variable, read)
    return read


def _stored(variable: Any) -> Any:
    scope = keras_internals.get_stateless_scope()
    value = None if scope is None else scope.get_current_value(variable)
    return variable._value if value is None else value


def _install() -> None:
    """Let every read of a Keras variable's ``value`` be seen by the open tapes."""
    plain = keras_internals.Variable.value

    def value(variable: Any) -> Any:
        if open_sessions():
            read = read_unconverted(variable)
            if read is not None:
                return variable._maybe_autocast(read)
        return plain.fget(variable)

    keras_internals.Variable.value = property(value, doc=plain.__doc__)


_install()
