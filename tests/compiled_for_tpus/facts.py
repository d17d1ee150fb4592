"""What a program compiled for TPUs or GPUs consists of, read from its text."""

from __future__ import annotations

import collections
import re
from typing import Any

import jax
import numpy as np

_COLLECTIVE = re.compile(
    r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)
_ARRAY = re.compile(r"\b(pred|[subf]\w*\d+)\[([\d,]*)\]")


def facts_of(compiled: jax.stages.Compiled) -> dict[str, Any]:
    """What is said of a program: its collectives, foreign calls, donation, and types."""
    text = compiled.as_text()
    memory = compiled.memory_analysis()
    collectives = []
    for shapes, kind in _COLLECTIVE.findall(text):
        arrays = [
            (dtype, int(np.prod([int(each) for each in dims.split(",") if each], dtype=np.int64)))
            for dtype, dims in _ARRAY.findall(shapes)
        ]
        collectives.append([kind, arrays])
    return {
        "collectives": collectives,
        "custom_calls": sorted(set(re.findall(r'custom_call_target="([^"]+)"', text))),
        "multiplied": _multiplied(text),
        "arguments": memory.argument_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
    }


def _multiplied(text: str) -> dict[str, int]:
    """How many convolutions there are, which matrix products are too on TPUs, by operands' type."""
    types = dict(re.findall(r"%([\w.-]+) = (\w+)\[", text))
    found: collections.Counter[str] = collections.Counter()
    for operand in re.findall(r"\bconvolution\([^%]*%([\w.-]+)", text):
        found[types[operand]] += 1
    return dict(found)
