"""``tf.io.read_file``: whole files as strings."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from drumline._changes import in_forked_child
from drumline._core import read_files
from drumline._local_path import has_scheme
from drumline.data.elements.spec import LEAF_STRUCTURE, STRING, ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.storage.files.remote import file_system

_AT_ONCE = 16
"""Remote files: they wait for the network."""


def read_file(filename: Any, name: str | None = None) -> Any:
    """The contents of a file as ``bytes``, as ``tf.io.read_file``.

    Args:
        filename: a string; with a scheme (``gs://``, ``memory://``) fsspec opens it. In functions
            given to ``Dataset.map`` files of a block are read at once.

    Raises:
        OSError: the file cannot be read.
        ImportError: fsspec lacks a package for the scheme.
    """
    return apply(ReadFile(), filename)


@dataclasses.dataclass(frozen=True)
class ReadFile(NativeOperation):
    """Paths to contents."""

    @property
    def name(self) -> str:
        return "io.read_file"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (path,) = arguments
        if not path.is_string or path.shape != ():
            raise TypeError(f"read_file takes the name of one file, not {path}")
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((), STRING),))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        paths = np.ascontiguousarray(columns[0])
        if any(b"://" in path for path in paths):
            return _any_files(paths.tolist())
        return _local_files(paths)


def _local_files(paths: np.ndarray) -> OperationResult:
    contents, failure = read_files(paths)
    if failure is None:
        return OperationResult([contents])
    number, message = failure
    path = paths[len(contents)].decode(errors="surrogateescape")
    error = OSError(message) if number is None else OSError(number, message, path)
    return OperationResult([contents], error)


def _any_files(paths: Sequence[bytes]) -> OperationResult:
    found: list[bytes] = []
    error: Exception | None = None
    for content in _threads().map(_content, paths):
        if isinstance(content, Exception):
            error = content
            break
        found.append(content)
    contents = np.empty(len(found), STRING)
    contents[:] = found
    return OperationResult([contents], error)


def _content(path: bytes) -> bytes | Exception:
    try:
        text = path.decode(errors="surrogateescape")
        if not has_scheme(text):
            with open(path, "rb") as file:
                return file.read()
        system, inner = file_system(text)
        content: bytes = system.cat_file(inner)
        return content
    except Exception as error:
        return error


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_ONCE, "drumline-read-file")


in_forked_child(_threads.cache_clear, "a child has none of these threads")
