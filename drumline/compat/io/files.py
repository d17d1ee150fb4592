"""``tf.io``: records, examples, and files of the local file system."""

from __future__ import annotations

import base64
import glob as globs
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from drumline import io
from drumline._local_path import local_path
from drumline.compat.composite.sparse import ParsedVector
from drumline.compat.values.boundary import of_tensors
from drumline.compat.values.convert import convert, static
from drumline.compat.values.errors import AlreadyExistsError, NotFoundError, OpError
from drumline.compat.values.tensor import Tensor

decode_csv = of_tensors(io.decode_csv)
decode_json_example = of_tensors(io.decode_json_example)
decode_raw = of_tensors(io.decode_raw)
parse_example = of_tensors(io.parse_example)
parse_sequence_example = of_tensors(io.parse_sequence_example)
parse_single_sequence_example = of_tensors(io.parse_single_sequence_example)
parse_tensor = of_tensors(io.parse_tensor)
read_file = of_tensors(io.read_file)
serialize_tensor = of_tensors(io.serialize_tensor)

_parse_single = of_tensors(io.parse_single_example)


def parse_single_example(
    serialized: Any, features: Any, example_names: Any = None, name: Any = None
) -> dict[str, Any]:
    """The features of one record, as ``tf.io.parse_single_example``.

    Args:
        serialized: a string.
        features: ``FixedLenFeature``, ``VarLenFeature``, ... by name.
        example_names: a string by which errors call the record.
        name: ignored.

    Returns:
        Tensors by name; a `SparseTensor` of a ``VarLenFeature``.
    """
    found: dict[str, Any] = _parse_single(serialized, features, example_names)
    for key, feature in features.items():
        if isinstance(feature, io.VarLenFeature):
            found[key] = ParsedVector(found[key])
    return found


def _path(path: Any, operation: str) -> str:
    """Return a local path of text, bytes, a path object or a scalar tensor."""
    found = path if isinstance(path, (str, bytes, os.PathLike)) else static(convert(path))
    return local_path(found, f"tf.io.{operation}", "the path")


def _checked(operation: str, work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns; errors of the file system are those of ``tf.errors``."""
    try:
        return work()
    except FileNotFoundError as error:
        raise NotFoundError(None, None, f"tf.io.{operation}: {error}") from error
    except FileExistsError as error:
        raise AlreadyExistsError(None, None, f"tf.io.{operation}: {error}") from error
    except OSError as error:
        raise OpError(None, None, f"tf.io.{operation}: {error}") from error


def write_file(filename: Any, contents: Any, name: Any = None) -> None:
    """Write bytes to a file, whose directories are made, as ``tf.io.write_file``."""
    path = _path(filename, "write_file")

    def write() -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as file:
            file.write(static(convert(contents)))

    _checked("write_file", write)


def matching_files(pattern: Any, name: Any = None) -> Tensor:
    """List the files that match a pattern or one of several, in order.

    Returns:
        A tensor of strings (n,).
    """
    given = pattern if isinstance(pattern, (list, tuple)) else np.ravel(convert(pattern)).tolist()
    found = {path for each in given for path in globs.glob(_path(each, "matching_files"))}
    return Tensor(convert(sorted(found)) if found else np.empty(0, object))


def encode_base64(input: Any, pad: bool = False, name: Any = None) -> Tensor:
    """Encode strings as web-safe base64, as ``tf.io.encode_base64``."""

    def encode(value: bytes) -> bytes:
        made = base64.urlsafe_b64encode(value)
        return made if pad else made.rstrip(b"=")

    return _of_each(encode, input)


def decode_base64(input: Any, name: Any = None) -> Tensor:
    """Decode strings of web-safe base64, padded or not.

    Raises:
        ValueError: one is not base64.
    """
    return _of_each(lambda value: base64.urlsafe_b64decode(value + b"=" * (-len(value) % 4)), input)


def _of_each(function: Callable[[bytes], bytes], strings: Any) -> Tensor:
    value = np.asarray(static(convert(strings)), object)
    made = np.empty(value.size, object)
    made[:] = [function(each) for each in value.ravel().tolist()]
    return Tensor(made.reshape(value.shape))


def exists(path: Any) -> bool:
    """Whether there is a file or directory."""
    return os.path.exists(_path(path, "gfile.exists"))


def isdir(path: Any) -> bool:
    """Whether there is a directory."""
    return os.path.isdir(_path(path, "gfile.isdir"))


def glob(pattern: Any) -> list[str]:
    """List the paths that match a pattern or one of several, in order."""
    given = pattern if isinstance(pattern, (list, tuple)) else [pattern]
    return sorted({path for each in given for path in globs.glob(_path(each, "gfile.glob"))})


def join(path: Any, *paths: Any) -> str:
    """Join the parts of a path."""
    return os.path.join(*(_path(each, "gfile.join") for each in (path, *paths)))


def listdir(path: Any) -> list[str]:
    """List the names in a directory.

    Raises:
        NotFoundError: there is no such directory.
    """
    return _checked("gfile.listdir", lambda: sorted(os.listdir(_path(path, "gfile.listdir"))))


def makedirs(path: Any) -> None:
    """Make a directory and those above it; it may be there."""
    _checked("gfile.makedirs", lambda: os.makedirs(_path(path, "gfile.makedirs"), exist_ok=True))


def mkdir(path: Any) -> None:
    """Make a directory.

    Raises:
        AlreadyExistsError: it is there.
        NotFoundError: the one above is not.
    """
    _checked("gfile.mkdir", lambda: os.mkdir(_path(path, "gfile.mkdir")))


def remove(path: Any) -> None:
    """Delete a file.

    Raises:
        NotFoundError: there is none.
    """
    _checked("gfile.remove", lambda: os.remove(_path(path, "gfile.remove")))


def rmtree(path: Any) -> None:
    """Delete a directory with all that is in it.

    Raises:
        NotFoundError: there is none.
    """
    _checked("gfile.rmtree", lambda: shutil.rmtree(_path(path, "gfile.rmtree")))


def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Rename a file.

    Raises:
        AlreadyExistsError: there is one of the new name, and ``overwrite`` is not set.
    """
    _refuse_existing(dst, overwrite, "gfile.rename")
    old, new = _path(src, "gfile.rename"), _path(dst, "gfile.rename")
    _checked("gfile.rename", lambda: os.replace(old, new))


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file.

    Raises:
        AlreadyExistsError: there is one of the new name, and ``overwrite`` is not set.
    """
    _refuse_existing(dst, overwrite, "gfile.copy")
    old, new = _path(src, "gfile.copy"), _path(dst, "gfile.copy")
    _checked("gfile.copy", lambda: shutil.copyfile(old, new))


def _refuse_existing(path: Any, overwrite: bool, operation: str) -> None:
    if not overwrite and os.path.exists(_path(path, operation)):
        raise AlreadyExistsError(
            None, None, f"tf.io.{operation}: {path} exists; give overwrite=True to replace it"
        )


def walk(
    top: Any, topdown: bool = True, onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield directories with the names of the directories and of the files in them.

    A directory that cannot be read is given to `onerror`, as an OSError, and left out.
    """
    for where, directories, files in os.walk(_path(top, "gfile.walk"), topdown, onerror):
        yield where, sorted(directories), sorted(files)


class LocalFile:
    """A local file, as ``tf.io.gfile.GFile``.

    Args:
        name: its path.
        mode: as ``open`` takes it; text unless it has a ``b``.

    Raises:
        NotFoundError: it is to be read and is not there.
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        self.name = _path(name, "gfile.GFile")
        self.mode = mode
        self._file = _checked("gfile.GFile", lambda: open(self.name, mode))  # noqa: SIM115

    def size(self) -> int:
        """Return the number of bytes."""
        self._file.flush()
        return os.fstat(self._file.fileno()).st_size

    def read(self, n: int = -1) -> Any:
        """Read all that is left, or ``n`` characters or bytes of it."""
        return self._file.read(n)

    def readline(self) -> Any:
        """Read a line with its end."""
        return self._file.readline()

    def readlines(self) -> list[Any]:
        """Read all lines that are left."""
        return self._file.readlines()

    def write(self, file_content: Any) -> None:
        """Write text, or bytes where the mode is binary."""
        self._file.write(file_content)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Set the position; ``position`` is the former name of ``offset``."""
        if (offset is None) == (position is None):
            raise TypeError("seek takes the offset")
        self._file.seek(position if offset is None else offset, whence)

    def seekable(self) -> bool:
        """Whether the position can be set."""
        return self._file.seekable()

    def flush(self) -> None:
        """Hand what was written to the system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)

    def __enter__(self) -> LocalFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


LocalFile.__name__ = LocalFile.__qualname__ = "GFile"
