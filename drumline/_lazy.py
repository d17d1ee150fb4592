"""Modules that are imported when something is first asked of them.

The input pipeline works on numpy's arrays, and asks JAX for functions that are to be compiled and
for what lies on devices. A process that does neither (one that only reads, shuffles and batches; a
worker process that runs Python functions) does not wait for JAX, which takes a second to load::

    from drumline._lazy import jax, jnp

Once the module is there, it takes its stand-in's place in drumline's modules. Attributes are always
looked up when they are used, so that what a user or a test replaces in JAX is what drumline calls.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any


class LazyModule(ModuleType):
    """Stands for a module until something is asked of it, and afterwards as well."""

    def __getattr__(self, name: str) -> Any:
        # Python and its tools ask every module for such names, which is no use of it.
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r}, not used yet, has no {name!r}")
        module = sys.modules.get(self.__name__)
        if module is None or not hasattr(module, name):
            module = importlib.import_module(self.__name__)
        if not getattr(module.__spec__, "_initializing", False):
            self._give_way(module)
        return getattr(module, name)

    def _give_way(self, module: ModuleType) -> None:
        """Put the module into the namespaces of drumline's modules that have the stand-in."""
        for user_name, user in list(sys.modules.items()):
            if user_name.partition(".")[0] == "drumline":
                names = vars(user)
                for name in [name for name, value in list(names.items()) if value is self]:
                    names[name] = module

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__name__))


def lazy_module(name: str) -> Any:
    """Return a stand-in for the module `name`, which is imported when it is first used."""
    return LazyModule(name)


if TYPE_CHECKING:
    import jax as jax
    import jax.numpy as jnp
    import pyarrow as pa
    from jax.extend import core as jex
else:
    jax = lazy_module("jax")
    jnp = lazy_module("jax.numpy")
    jex = lazy_module("jax.extend.core")
    pa = lazy_module("pyarrow")


def jax_is_loaded() -> bool:
    """Whether this process has imported JAX: else no value can be an array or a tracer of it."""
    return hasattr(sys.modules.get("jax"), "Array")


def is_jax_array(value: object) -> bool:
    """Whether a value is a ``jax.Array``, without importing JAX to find out."""
    loaded = sys.modules.get("jax")
    # While JAX is being imported, it has no arrays yet.
    return loaded is not None and isinstance(value, getattr(loaded, "Array", ()))
