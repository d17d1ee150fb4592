"""The file of lines for the workload that looks up their words, and Python's way of doing that."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

WORDS = 20_000
KNOWN = 10_000
LONGEST = 40


def vocabulary() -> list[str]:
    """The words that have numbers, the most frequent first."""
    return [f"word{number:x}" for number in range(KNOWN)]


@functools.cache
def lines(count: int) -> list[str]:
    """Lines of 1 to 40 words, some capital, whose frequencies fall as in natural text."""
    generator = np.random.default_rng(4)
    lengths = generator.integers(1, LONGEST + 1, count)
    numbers = np.minimum(generator.zipf(1.3, lengths.sum()), WORDS) - 1
    words = np.array([f"word{number:x}" for number in range(WORDS)], object)[numbers]
    words[::7] = [word.capitalize() for word in words[::7]]
    edges = np.concatenate([[0], np.cumsum(lengths)])
    return [" ".join(words[a:b]) for a, b in itertools.pairwise(edges)]


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="drumline-text-")


def text_file(count: int) -> str:
    """The path of a file of these lines, removed when the process ends."""
    path = Path(_folder().name) / f"lines{count}.txt"
    path.write_text("\n".join(lines(count)) + "\n")
    return str(path)


def read_lines(path: str) -> list[str]:
    """The lines of a file, read whole."""
    with open(path) as file:
        return file.read().splitlines()


def numbers_of_words() -> dict[str, int]:
    """The vocabulary as a dict; of other words the number is ``KNOWN``."""
    return {word: number for number, word in enumerate(vocabulary())}


def looked_up(text: str, known: Mapping[str, int]) -> list[int]:
    """The numbers of a line's words."""
    return [known.get(word, KNOWN) for word in text.lower().split()]


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Rows of numbers as one batch, int64 (rows, the longest), zeros behind."""
    out = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for place, row in zip(out, rows, strict=True):
        place[: len(row)] = row
    return out
