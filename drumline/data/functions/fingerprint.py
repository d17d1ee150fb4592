"""What a traced function computes, as a digest that is the same in every process."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np

from drumline.data.functions.purity import inner_consts, plain_array
from drumline.data.functions.routes import Constant
from drumline.data.functions.trace import Trace

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def digest(trace: Trace) -> str:
    """A digest of programs, their constants, native operations and where each output comes from."""
    found = hashlib.sha256()
    for route in trace.routes:
        if isinstance(route, Constant):
            _add(found, route.value)
        else:
            found.update(repr(route).encode())
    for step in trace.natives:
        found.update(_ADDRESS.sub("", repr(step)).encode())
    for program in (trace.narrow, trace.wide):
        if program is None:
            found.update(b"none")
            continue
        found.update(_ADDRESS.sub("", str(program.jaxpr)).encode())
        for constant in [*program.consts, *inner_consts(program.jaxpr)]:
            _add(found, plain_array(constant))
    return found.hexdigest()


def _add(found: Any, value: np.ndarray) -> None:
    content = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
    found.update(f"{value.dtype}{value.shape}".encode() + content)
