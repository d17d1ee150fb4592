"""drumline: training scripts written for one device, run on many.

``import drumline as dl`` selects Keras's JAX backend, registers the faster CPU lowerings, and
teaches Keras's ``fit`` about strategies and datasets. The rooms of the package are described in
``docs/architecture.md``.

The command ``drumline`` alone loads all this only when it is asked for: what starts and watches
training processes needs neither JAX nor Keras, which take seconds to import.
"""

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or "drumline_command" not in sys.modules:
    from drumline._public import *  # noqa: F403
    from drumline._public import __all__  # noqa: F401
else:

    def __getattr__(name: str) -> object:
        if name.startswith("__"):  # asked of every package by the import system
            raise AttributeError(name)
        return getattr(importlib.import_module("drumline._public"), name)
