"""The bytes that a compiled program sends from device to device, read from its text."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TypeAlias

import numpy as np

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


_AROUND_A_RING = {"all-reduce", "all-gather", "reduce-scatter"}
_COUNTED = _AROUND_A_RING | {"collective-permute", "all-to-all"}
_ENDS_OF_STARTED = ("-update", "-done")
_UNKNOWN = {"send", "recv", "collective-broadcast", "ragged-all-to-all"}
_PARTITIONS = re.compile(r"\bnum_partitions=(\d+)")
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
_LISTED = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_COUNTING = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}")
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def bytes_between(program_text: str) -> np.ndarray:
    """Count the bytes that each device sends to each other one when a program runs once.

    Args:
        program_text: a program compiled by JAX for N devices, as
            ``jax.jit(f).lower(...).compile().as_text()``.

    Returns:
        Integers of shape [N, N]; those in row i are sent by the program's i-th device. All-reduces,
        all-gathers and reduce-scatters are counted as rings over their groups, which send the least
        that is possible: the program does not say which way the platform takes.

    Raises:
        ValueError: if the program has a collective operation whose bytes are unknown, or one in
            a loop of unknown length or in a branch.
    """
    program, entry = parse(program_text)
    partitions = _PARTITIONS.search(program_text.split("\n", 1)[0])
    return _Count(program, int(partitions[1]) if partitions else 1).of(entry)


class _Count:
    def __init__(self, program: Program, devices: int) -> None:
        self._program = program
        self._devices = devices

    def of(self, computation: str) -> np.ndarray:
        sent = self._nothing()
        for instruction in self._program[computation].values():
            sent += self._instruction(instruction, self._program[computation])
        return sent

    def _nothing(self) -> np.ndarray:
        return np.zeros((self._devices, self._devices), np.int64)

    def _instruction(self, found: Instruction, around: dict[str, Instruction]) -> np.ndarray:
        opcode = found.opcode
        if opcode.removesuffix("-start").removesuffix("-done") in _UNKNOWN:
            raise ValueError(f"Cannot tell how many bytes the operation {opcode!r} sends.")
        if opcode in _COUNTED:
            return self._collective(opcode, found.type, found.attributes)
        if opcode.endswith("-done") and opcode.removesuffix("-done") in _COUNTED:
            start = around[found.operands.split()[-1].lstrip("%")]
            return self._collective(opcode.removesuffix("-done"), found.type, start.attributes)
        if opcode == "while":
            return self._loop(found)
        if opcode == "conditional":
            roles = ("branch_computations", "true_computation", "false_computation")
            return self._only_if_silent(found.called(*roles), "a branch of a conditional")
        if opcode.endswith(_ENDS_OF_STARTED):  # as of a fusion: what it sends is in its start
            return self._nothing()
        return self._all(found.called("calls", "to_apply"))

    def _all(self, computations: list[str]) -> np.ndarray:
        return sum((self.of(computation) for computation in computations), self._nothing())

    def _loop(self, found: Instruction) -> np.ndarray:
        trips = _TRIPS.search(found.attributes)
        if trips is None:
            return self._only_if_silent(found.called("body", "condition"), "an unbounded loop")
        return int(trips[1]) * self._all(found.called("body"))

    def _only_if_silent(self, computations: list[str], where: str) -> np.ndarray:
        sent = self._all(computations)
        if sent.any():
            raise ValueError(f"Cannot count a program with collective operations in {where}.")
        return sent

    def _collective(self, kind: str, type_text: str, attributes: str) -> np.ndarray:
        sent = self._nothing()
        sizes = array_sizes(type_text)
        if kind == "collective-permute":
            size = sum(math.ceil(count * itemsize) for count, itemsize in sizes)
            for source, target in _pairs(attributes):
                sent[source, target] += size * (source != target)
            return sent
        for group in self._groups(attributes):
            n = len(group)
            if kind == "all-to-all":
                size = sum(math.ceil(count * itemsize) for count, itemsize in sizes) // n
                sent[np.ix_(group, group)] += size * (1 - np.eye(n, dtype=np.int64))
            else:
                size = sum(_sent_in_ring(kind, n, count, itemsize) for count, itemsize in sizes)
                for source, target in zip(group, np.roll(group, -1), strict=True):
                    sent[source, target] += size
        return sent

    def _groups(self, attributes: str) -> np.ndarray:
        if listed := _LISTED.search(attributes):
            groups = re.findall(r"\{([\d,]+)\}", listed[1])
            if groups:
                return np.array([[int(i) for i in group.split(",")] for group in groups])
            return np.arange(self._devices)[None]
        if counting := _COUNTING.search(attributes):
            shape, dims, order = (
                [int(i) for i in (s or "").split(",") if i] for s in counting.groups()
            )
            return np.arange(math.prod(dims)).reshape(dims).transpose(order or None).reshape(shape)
        if mesh := _MESH.search(attributes):
            sizes = {name: int(size) for name, size in _AXIS.findall(mesh[1])}
            across = [name.strip().strip("'") for name in mesh[2].split(",")]
            if all(name in sizes for name in across):
                names = list(sizes)
                order = [n for n in range(len(names)) if names[n] not in across]
                order += [names.index(name) for name in across]
                devices = np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
                return devices.transpose(order).reshape(-1, math.prod(sizes[n] for n in across))
        raise ValueError(f"Cannot tell the devices of a collective operation from {attributes!r}.")


def _sent_in_ring(kind: str, n: int, count: int, itemsize: float) -> int:
    """Bytes that each of `n` devices sends, of a result of `count` elements on each."""
    if kind == "reduce-scatter":
        return (n - 1) * math.ceil(count * itemsize)
    piece = math.ceil(math.ceil(count / n) * itemsize)
    return (n - 1) * piece * (2 if kind == "all-reduce" else 1)


def _pairs(attributes: str) -> list[tuple[int, int]]:
    found = _PAIRS.search(attributes)
    if found is None:
        raise ValueError(f"Cannot tell who sends in a collective permute from {attributes!r}.")
    return [(int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)\}", found[1])]
