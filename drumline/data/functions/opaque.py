"""What a traced function sees of a string."""

from __future__ import annotations

from typing import Any, NoReturn


class StringNeedsPython(TypeError):
    """A traced function looked at the contents of a string."""


class OpaqueString:
    """Stands for a string column while tracing: it may be handed on, nothing else."""

    __slots__ = ("leaf",)
    leaf: int

    def __init__(self, leaf: int):
        object.__setattr__(self, "leaf", leaf)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StringNeedsPython("the function computes with a string")

    __getattr__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse
    __str__ = __repr__ = __format__ = __bytes__ = __hash__ = __setattr__ = _refuse
    __array__ = __int__ = __float__ = __index__ = __fspath__ = _refuse
