"""Packages that few programs need, and which come with drumline's extras.

They are imported where they are used, so that ``import drumline`` neither needs them nor waits for
them. One that is missing is named together with the extra that brings it.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


class MissingExtraError(ImportError):
    """A package of one of drumline's extras is not installed.

    Attributes:
        extra: the extra that brings it: ``pip install 'drumline[<extra>]'``.
    """

    def __init__(self, module: str, extra: str, purpose: str, otherwise: str = "") -> None:
        package = module.partition(".")[0]
        message = f"{purpose} needs the package {package}: pip install 'drumline[{extra}]'"
        super().__init__(f"{message}{otherwise}", name=package)
        self.extra = extra

    def __reduce__(self) -> Any:
        return _restored, (str(self), self.name, self.extra)


def _restored(message: str, name: str, extra: str) -> MissingExtraError:
    error = MissingExtraError.__new__(MissingExtraError)
    ImportError.__init__(error, message, name=name)
    error.extra = extra
    return error


def import_extra(module: str, extra: str, purpose: str, otherwise: str = "") -> Any:
    """Import a module of a package that an extra brings.

    Args:
        module: its full name, such as ``"matplotlib.figure"``.
        extra: the name in ``drumline[...]``.
        purpose: what needs it, as the message begins: ``"Dataset.profile().save_png"``.
        otherwise: how the message continues, if there is another way.

    Raises:
        MissingExtraError: the package is not installed. An installed package that fails to import
            something else raises what it raises.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(module, extra, purpose, otherwise) from error


def require_extra(module: str, extra: str, purpose: str) -> None:
    """Check that a package is there, without importing what may take seconds to load.

    Raises:
        MissingExtraError: it is not.
    """
    try:
        found = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # its parent is missing, or a stand-in without a spec
        found = False
    if not found:
        raise MissingExtraError(module, extra, purpose)
