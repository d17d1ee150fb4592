"""What ``drumline._core`` offers for protocol buffers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from drumline._core_files import PackedBytes

def message_fields(message: bytes) -> list[tuple[int, bytes]]:
    """The numbers and contents of those fields of a protocol buffer that are bytes or messages.

    Raises:
        ValueError: if the bytes are no protocol buffer; it names the byte.
    """

def message_field(number: int, content: bytes) -> bytes:
    """A field of bytes, or of a message."""

def list_values(kind: str, message: bytes) -> list[Any]:
    """The values of a list of kind ``"string"``, ``"float32"`` or ``"int64"``.

    Raises:
        ValueError: if the bytes are no such message; it names the byte.
    """

def list_message(kind: str, values: Sequence[Any]) -> bytes:
    """The message of such a list: bytes, floats or integers.

    Raises:
        OverflowError: if an integer has more than 64 bits.
        TypeError: if a value is of another type.
    """

def example_messages(
    features: Sequence[tuple[bytes, str]], rows: Sequence[Sequence[Any]]
) -> list[bytes]:
    """``Example`` messages of rows of values.

    Args:
        features: keys, in their order in the messages, and kinds as of `list_values`.
        rows: for each message and feature ``None`` for none, bytes or a list of bytes, a number, or
            an array (n,) of int64, float32 or float64.

    Raises:
        TypeError: if a value is of another type.
        ValueError: if a row has not as many values as there are features.
    """

class ExampleParser:
    """Parses columns of serialized ``Example`` or ``SequenceExample`` messages."""

    def __new__(
        cls,
        parts: Sequence[
            tuple[int, Sequence[tuple[bytes, str, str, int, Sequence[float | bytes] | None]]]
        ],
    ) -> ExampleParser:
        """Choose features.

        Args:
            parts: for each field of the message that is a map of features its number, and of each
                wanted feature the key, the kind (``"string"``, ``"float32"``, ``"int64"``), the
                form and its count (``drumline/io/feature_requests.py`` says which there are) and
                the values of a missing one.

        Raises:
            TypeError: if values are of another kind.
            ValueError: if there is no such kind or form.
        """

    def parse(
        self, records: npt.NDArray[np.object_], out: Sequence[np.ndarray | None]
    ) -> tuple[
        list[tuple[np.ndarray, npt.NDArray[np.int64] | None, npt.NDArray[np.int64] | None]],
        tuple[int, int | None, int | None, int | None, str] | None,
    ]:
        """Parse records, on all cores if there is much to parse.

        Args:
            records: ``bytes``, of shape ``(n,)``.
            out: for each feature of numbers of which every record has as many, where to put those
                of all records; ``None`` for the others, or to have new arrays.

        Returns:
            For each wanted feature: the values of all records in one array; where the items or
            frames of each record end, unless their number is fixed; where the values of each frame
            end, if their number is not. They have the records before the first bad one. Of that
            one: its position, the feature's among all, the frame, the byte, and what is wrong.
            There are no columns if there is no memory for them.

        Raises:
            TypeError: if a record is not ``bytes``.
            ValueError: if an array of `out` has not as many numbers, or cannot be written.
        """

    def parse_packed(
        self, records: Sequence[tuple[PackedBytes, int, int]], out: Sequence[np.ndarray | None]
    ) -> tuple[
        list[tuple[np.ndarray, npt.NDArray[np.int64] | None, npt.NDArray[np.int64] | None]],
        tuple[int, int | None, int | None, int | None, str] | None,
    ]:
        """The same of parts of packed records: which, from where to where."""
