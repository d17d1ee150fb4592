"""``tf.Module``: an object that finds the variables in its attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import keras

from drumline.compat.values.boundary import map_structure


class ModuleType(type):
    """The class of `TensorModule`: layers of Keras's are instances of it, as in TensorFlow."""

    def __instancecheck__(cls, value: Any) -> bool:
        if type.__instancecheck__(cls, value):
            return True
        return cls is TensorModule and isinstance(value, keras.Layer)


class TensorModule(metaclass=ModuleType):
    """Collects variables, layers and modules among its attributes, as ``tf.Module``.

    Args:
        name: a Python identifier; by default the class's name in snake case.

    Raises:
        ValueError: the name is no identifier.
    """

    def __init__(self, name: str | None = None):
        if name is not None and not name.isidentifier():
            raise ValueError(f"{name!r} is not a valid module name: it must be an identifier")
        self._name = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def name_scope(self) -> Any:
        """A context for names, which do nothing here."""
        return keras.name_scope(self._name)

    def _leaves(self, seen: set[int]) -> Iterator[Any]:
        for key in sorted(vars(self)):
            found: list[Any] = []
            map_structure(found.append, vars(self)[key])
            for leaf in found:
                if id(leaf) in seen:
                    continue
                seen.add(id(leaf))
                yield leaf
                if isinstance(leaf, TensorModule) and not isinstance(leaf, keras.Layer):
                    yield from leaf._leaves(seen)

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
        """The method: names of variables do not depend on scopes here."""
        return method


TensorModule.__name__ = TensorModule.__qualname__ = "Module"
