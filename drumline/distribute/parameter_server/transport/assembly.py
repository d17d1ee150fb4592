"""Messages put together from what arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from drumline.distribute.parameter_server.transport.buffers import Buffers, aligned, padded
from drumline.distribute.parameter_server.transport.codec import Record, Spec, chunk_head, decode
from drumline.distribute.parameter_server.transport.errors import ProtocolError


class Assembly:
    """Collects chunks until the record that commits them comes.

    Args:
        shared: makes arrays of what lies in the peer's shared memory, all of one message's.
    """

    def __init__(self, shared: Callable[[Sequence[Spec]], list[np.ndarray]]) -> None:
        self._shared = shared
        self._buffers = Buffers()
        self._seq = -1
        self._partial: dict[int, _Partial] = {}

    def chunk(self, frame: memoryview, data: np.ndarray) -> None:
        """Take a chunk.

        Args:
            frame: its place.
            data: its bytes.

        Raises:
            ProtocolError: if it does not follow what came before.
            MemoryError: if its array is too large.
        """
        seq, index, start, total = chunk_head(frame)
        if not self._partial:
            self._seq = seq
        elif seq != self._seq:
            raise ProtocolError("chunks of two messages are mixed")
        if start == 0 and index not in self._partial:
            self._partial[index] = _Partial(self._buffers.take(total))
        partial = self._partial.get(index)
        if partial is None or start != partial.received or total != partial.data.nbytes:
            raise ProtocolError("a chunk is missing, or comes twice")
        if start + data.nbytes > total:
            raise ProtocolError("a chunk is longer than its array")
        partial.data[start : start + data.nbytes] = data
        partial.received += data.nbytes

    def records(self, frame: memoryview) -> Iterator[tuple[Record, list[np.ndarray], bool]]:
        """The messages that a frame of records completes, and whether each is the frame's last.

        Raises:
            ProtocolError: if one is not complete, or makes no sense.
        """
        for record, last in decode(frame):
            yield record, self._arrays(record), last

    def _arrays(self, record: Record) -> list[np.ndarray]:
        if self._partial and self._seq != record.seq:
            raise ProtocolError("chunks and their record have different numbers")
        if not (record.specs or self._partial or record.inline):
            return []
        partial, self._partial = self._partial, {}
        inline = _Inline(record)
        placed = [spec for spec in record.specs if spec.where is not None]
        shared = iter(self._shared(placed) if placed else ())
        arrays = []
        for index, spec in enumerate(record.specs):
            if spec.where is not None:
                arrays.append(next(shared))
            elif spec.chunked:
                arrays.append(_whole(partial.pop(index, None), spec))
            else:
                arrays.append(inline.take(spec))
        if partial or inline.left:
            raise ProtocolError("a message has more bytes than its arrays")
        return arrays


class _Partial:
    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.received = 0


def _whole(partial: _Partial | None, spec: Spec) -> np.ndarray:
    if partial is None or not partial.received == partial.data.nbytes == spec.nbytes:
        raise ProtocolError("an array has not come as a whole")
    return partial.data.view(spec.dtype).reshape(spec.shape)


class _Inline:
    """The arrays inside a record, copied to one aligned block."""

    def __init__(self, record: Record) -> None:
        sizes = [s.nbytes for s in record.specs if s.where is None and not s.chunked]
        if sum(sizes) != len(record.inline):
            raise ProtocolError("a record's arrays have not the length that it states")
        self._source = record.inline
        self._block = aligned(sum(map(padded, sizes)))
        self._read = 0
        self._written = 0

    @property
    def left(self) -> bool:
        return self._read < len(self._source)

    def take(self, spec: Spec) -> np.ndarray:
        size = spec.nbytes
        target = self._block[self._written : self._written + size]
        target[:] = np.frombuffer(self._source[self._read : self._read + size], np.uint8)
        self._read += size
        self._written += padded(size)
        return target.view(spec.dtype).reshape(spec.shape)
