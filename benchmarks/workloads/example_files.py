"""TFRecord files of ``Example`` messages for the workloads that parse them, made with numpy.

Every record holds 13 floats, 26 integers of 3 bytes and a label, as logs of advertisements do:
packed in 3 features, or each a feature of its own.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.workloads.record_files import framed

FLOATS, INTEGERS = 13, 26
FLOAT_NAMES = tuple(f"f{i:02d}" for i in range(FLOATS))
INTEGER_NAMES = tuple(f"c{i:02d}" for i in range(INTEGERS))
_FLOAT_LIST, _INT64_LIST = 2, 3

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]


def columns(count: int) -> Columns:
    """What the records hold: float32 (count, 13), int64 (count, 26), int64 (count,)."""
    rng = np.random.default_rng(7)
    floats = rng.random((count, FLOATS), np.float32)
    integers = rng.integers(1 << 14, 1 << 21, (count, INTEGERS))
    return floats, integers, rng.integers(0, 2, count)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="drumline-examples-")


def example_file(count: int, in_three: bool) -> str:
    """The path of a file of these records, removed when the process ends.

    Args:
        count: how many.
        in_three: whether they have the features ``floats``, ``integers`` and ``label`` rather than
            one for each number.
    """
    path = Path(_folder().name) / f"examples{in_three}"
    floats, integers, label = columns(count)
    if in_three:
        features = [_feature("floats", _floats(floats)), _feature("integers", _integers(integers))]
    else:
        pairs = zip(FLOAT_NAMES, floats.T, strict=True)
        features = [_feature(name, _floats(column[:, None])) for name, column in pairs]
        pairs = zip(INTEGER_NAMES, integers.T, strict=True)
        features += [_feature(name, _integers(column[:, None])) for name, column in pairs]
    features.append(_feature("label", _field(_INT64_LIST, _field(1, label[:, None]))))
    path.write_bytes(framed(_field(1, np.concatenate(features, axis=1))).tobytes())
    return str(path)


def _feature(name: str, lists: np.ndarray) -> np.ndarray:
    """An entry of the map of features, for each record."""
    key = np.frombuffer(name.encode(), np.uint8)
    keys = np.broadcast_to(key, (len(lists), len(key)))
    return _field(1, np.concatenate([_field(1, keys), _field(2, lists)], axis=1))


def _floats(values: np.ndarray) -> np.ndarray:
    return _field(_FLOAT_LIST, _field(1, np.ascontiguousarray(values, "<f4").view(np.uint8)))


def _integers(values: np.ndarray) -> np.ndarray:
    sevens = np.stack([values & 127 | 128, values >> 7 & 127 | 128, values >> 14], axis=-1)
    return _field(_INT64_LIST, _field(1, sevens.reshape(len(values), -1)))


def _field(number: int, content: np.ndarray) -> np.ndarray:
    """A field that holds bytes, for each record: uint8 (count, length)."""
    length = content.shape[1]
    sizes = [length] if length < 128 else [length & 127 | 128, length >> 7]
    tag = np.array([number << 3 | 2, *sizes], np.uint8)
    header = np.broadcast_to(tag, (len(content), len(tag)))
    return np.concatenate([header, content.astype(np.uint8)], axis=1)
