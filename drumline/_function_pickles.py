"""Pickles of functions that keep the names of the files they were defined in.

cloudpickle 3.1.3 and later leave these names out, so that equal functions have equal pickles. An
error in another process would then show ``<dynamic-code>`` where the user's line belongs, and a
function whose source is read there (to convert its control flow) would have none.
"""

from __future__ import annotations

import collections
import io
import types
from collections.abc import Callable
from typing import Any, ClassVar

import cloudpickle


def _code_of_file(
    make: Callable[..., types.CodeType], arguments: tuple[Any, ...], filename: str
) -> types.CodeType:
    return make(*arguments).replace(co_filename=filename)


def _reduced_code(code: types.CodeType) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    make, arguments = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return _code_of_file, (make, arguments, code.co_filename)


class FunctionPickler(cloudpickle.Pickler):
    """``cloudpickle.Pickler``, whose code objects have their ``co_filename``."""

    # Of the class, as the pickler takes it in its constructor.
    dispatch_table: ClassVar[Any] = collections.ChainMap(
        {types.CodeType: _reduced_code}, cloudpickle.Pickler.dispatch_table
    )


def dumps(value: Any) -> bytes:
    """Return a pickle of a value that may hold functions; ``pickle.loads`` reads it.

    Raises:
        Exception: what pickling raises; any class's own method may.
    """
    file = io.BytesIO()
    FunctionPickler(file).dump(value)
    return file.getvalue()
