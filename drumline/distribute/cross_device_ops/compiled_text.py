"""Reading the text of a compiled program."""

from __future__ import annotations

import dataclasses
import re
from typing import TypeAlias

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) (?:\(.*)?\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<rest>.*)$")
_ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One operation of a program in XLA's HLO text.

    Attributes:
        opcode: as ``"all-reduce"``.
        type: the text of its result's type, as ``"(f32[2]{0}, s32[])"``.
        operands: the text between its parentheses.
        attributes: the text after them.
    """

    opcode: str
    type: str
    operands: str
    attributes: str

    def called(self, *roles: str) -> list[str]:
        """The names of the computations it calls in these roles, as ``"body"`` of a while."""
        found = re.findall(
            rf"\b(?:{'|'.join(roles)})=(?:\{{([^}}]*)\}}|%?([\w.\-]+))", self.attributes
        )
        return [name for many, one in found for name in re.findall(r"[\w.\-]+", many or one)]


Program: TypeAlias = "dict[str, dict[str, Instruction]]"


def parse(text: str) -> tuple[Program, str]:
    """Return the instructions of every computation, by name, and the name of the first to run.

    Raises:
        ValueError: if the text is no compiled program.
    """
    program: Program = {}
    entry = current = None
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            current = header["name"]
            program[current] = {}
            entry = current if header["entry"] else entry
        elif current and (found := _INSTRUCTION.match(line)):
            program[current][found["name"]] = _instruction(found["rest"])
    if entry is None:
        raise ValueError("This is not the text of a compiled program: it has no ENTRY computation.")
    return program, entry


def array_sizes(type_text: str) -> list[tuple[int, float]]:
    """The element count and the bytes per element of every array of a type."""
    sizes = []
    for name, bits, dimensions in _ARRAY.findall(type_text):
        count = 1
        for dimension in filter(None, dimensions.split(",")):
            count *= int(dimension)
        sizes.append((count, 1 if name == "pred" else int(bits) / 8))
    return sizes


def _instruction(text: str) -> Instruction:
    end = _closing(text, 0) if text.startswith("(") else text.index(" ")
    kind, rest = text[:end], text[end:].lstrip()
    start = rest.index("(")
    end = _closing(rest, start)
    return Instruction(rest[:start], kind, rest[start + 1 : end - 1], rest[end:])


def _closing(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position + 1
    raise ValueError(f"Unbalanced parentheses in the program's line {text!r}.")
