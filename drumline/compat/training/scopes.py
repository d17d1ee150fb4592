"""``tf.name_scope``: names before those of variables, and of what compiled functions compute."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import jax


class _NamesOfThread(threading.local):
    """The scopes that a thread is in.

    Attributes:
        names: of each, with those around it and a slash.
        stages: JAX's scope of each.
    """

    def __init__(self) -> None:
        self.names = [""]
        self.stages: list[contextlib.AbstractContextManager[Any]] = []


_scopes = _NamesOfThread()


def get_current_name_scope() -> str:
    """The names of the scopes around this code, ``"outer/inner"``; "" outside of all."""
    return _scopes.names[-1].rstrip("/")


def in_scope(name: str) -> str:
    """A name with those of the scopes around it before it."""
    return _scopes.names[-1] + name


class NameScope:
    """A context that puts a name before those of variables made in it, as ``tf.name_scope``.

    In compiled functions it is a `jax.named_scope`, too: profiles show the name.

    Args:
        name: one, or several with slashes between. With a slash at its end it is the whole name,
            whatever the scopes around; so a scope can be entered again.

    Raises:
        ValueError: the name is no string.

    Example:
        >>> import drumline.compat.tf as tf
        >>> with tf.name_scope("encoder"):
        ...     weight = tf.Variable(1.0, name="weight")
        >>> weight.name
        'encoder/weight:0'
    """

    def __init__(self, name: str):
        if not isinstance(name, str):
            raise ValueError("name for name_scope must be a string.")
        self._name = name

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def __reduce__(self) -> tuple[Any, ...]:
        return _scope_of, (self._name,)

    def __enter__(self) -> str:
        if not self._name:
            full = ""
        elif self._name.endswith("/"):
            full = self._name
        elif self._name.startswith("/"):
            full = self._name + "/"
        else:
            full = f"{in_scope(self._name)}/"
        stage = jax.named_scope(self._name.strip("/"))
        stage.__enter__()
        _scopes.stages.append(stage)
        _scopes.names.append(full)
        return full

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _scopes.names.pop()
        _scopes.stages.pop().__exit__(kind, error, trace)


NameScope.__name__ = NameScope.__qualname__ = "name_scope"


def _scope_of(name: str) -> NameScope:
    return NameScope(name)  # the class cannot be pickled under the name that it shows


@contextlib.contextmanager
def former_name_scope(
    name: str | None, default_name: str | None = None, values: Any = None
) -> Iterator[str]:
    """A context that puts a name before those of variables, as ``tf.compat.v1.name_scope``.

    Args:
        name: as of `NameScope`.
        default_name: the name if `name` is None.
        values: no effect.
    """
    chosen = default_name if name is None else name
    with NameScope("" if chosen is None else chosen) as full:
        yield full
