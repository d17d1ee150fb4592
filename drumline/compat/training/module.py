"""``tf.Module``: an object that finds the variables in its attributes."""

from __future__ import annotations

import abc
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import keras

from drumline.compat.training.scopes import NameScope
from drumline.compat.values.boundary import map_structure

_WORDS = re.compile(r"((?<=[a-z0-9])[A-Z]|(?!^)[A-Z](?=[a-z]))")


class TensorModule(abc.ABC):  # noqa: B024 - so that layers of Keras's are instances, too
    """Collects variables, layers and modules among its attributes, as ``tf.Module``.

    Args:
        name: a Python identifier; by default the class's name in snake case.

    Raises:
        ValueError: the name is no identifier.
    """

    def __init__(self, name: str | None = None):
        if name is not None and not name.isidentifier():
            raise ValueError(
                f"{name!r} is not a valid module name. Module names must be valid Python "
                "identifiers (e.g. a valid class name)."
            )
        self._name = name or _WORDS.sub(r"_\1", type(self).__name__).lower()
        with NameScope(self._name) as full:
            self._name_scope = NameScope(full)

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def name_scope(self) -> NameScope:
        """A context that puts its name before those of variables, after the scopes of its time."""
        return self._name_scope

    def _leaves(self, seen: set[int]) -> Iterator[Any]:
        """What its attributes hold, by their names; then that of the modules among them."""
        modules = []
        for key in sorted(vars(self)):
            found: list[Any] = []
            map_structure(found.append, vars(self)[key])
            for leaf in found:
                if id(leaf) in seen:
                    continue
                seen.add(id(leaf))
                yield leaf
                if isinstance(leaf, TensorModule) and not isinstance(leaf, keras.Layer):
                    modules.append(leaf)
        for module in modules:
            yield from module._leaves(seen)

    def trackable_attributes(self) -> list[tuple[str, Any]]:
        """Its attributes by name, which a checkpoint saves if they are something to save."""
        return sorted(vars(self).items())

    @property
    def variables(self) -> tuple[Any, ...]:
        """All variables, those of modules and layers in it among them, by attribute's name."""
        found: dict[int, Any] = {}
        for leaf in self._leaves(set()):
            if isinstance(leaf, keras.Variable):
                found[id(leaf)] = leaf
            elif isinstance(leaf, keras.Layer):
                found |= {id(each): each for each in leaf.variables}
        return tuple(found.values())

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those that are trained."""
        return tuple(each for each in self.variables if each.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Any, ...]:
        """Those that are not."""
        return tuple(each for each in self.variables if not each.trainable)

    @property
    def submodules(self) -> tuple[Any, ...]:
        """The modules and layers in it."""
        modules = (TensorModule, keras.Layer)
        return tuple(leaf for leaf in self._leaves(set()) if isinstance(leaf, modules))

    @staticmethod
    def with_name_scope(method: Callable[..., Any]) -> Callable[..., Any]:
        """The method, run in `name_scope`."""

        @functools.wraps(method)
        def run(self: TensorModule, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return run


TensorModule.register(keras.Layer)

TensorModule.__name__ = TensorModule.__qualname__ = "Module"
