"""The function a user gave to ``map`` or ``filter``: how it is called and named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from drumline.data.functions.draws import Draws


@dataclasses.dataclass(frozen=True)
class UserFunction:
    """A user's function and the operation it was given to (``"map"`` or ``"filter"``).

    Attributes:
        seed: of what it draws by ``dl.random``. Then elements come with the key of their position
            beside them; ``None`` if it draws nothing.
    """

    function: Callable[..., Any]
    operation: str
    seed: int | None = None

    def __call__(self, element: Any) -> Any:
        """Calls it with an element: a plain tuple is spread over the arguments, as in tf.data."""
        if self.seed is None:
            return self._call(element)
        value, key = element
        with Draws(key, self.seed):
            return self._call(value)

    def _call(self, element: Any) -> Any:
        if type(element) is tuple:
            return self.function(*element)
        return self.function(element)

    @property
    def name(self) -> str:
        """Its name and where it is defined, for messages and ``explain()``."""
        name = getattr(self.function, "__qualname__", None) or type(self.function).__name__
        code = getattr(self.function, "__code__", None)
        short = name.split("<locals>.")[-1]
        return f"{short} ({_file(code.co_filename)}:{code.co_firstlineno})" if code else short

    @property
    def where(self) -> str:
        """The operation with the function, for error notes."""
        return f"{self.operation}({self.name})"


def _file(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]
