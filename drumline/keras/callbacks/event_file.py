"""Writing TensorBoard's event files without TensorFlow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tensorboardX import SummaryWriter
from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboardX.proto.tensor_pb2 import TensorProto
from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto

from drumline._event_files import summary_writer

_STRING = 7  # DT_STRING in tensorflow's types.proto


class EventFile:
    """One event file in `directory`, which is made when the first value is written.

    Writing raises OSError once the file could not be written, as on a full disk.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writer: SummaryWriter | None = None

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Write a number."""
        self._open().add_scalar(tag, value, step)

    def histogram(self, tag: str, values: np.ndarray, step: int) -> None:
        """Write the distribution of `values`."""
        self._open().add_histogram(tag, values, step)

    def keras_graph(self, model_json: str, step: int) -> None:
        """Write a model's configuration, which TensorBoard draws as the conceptual graph."""
        plugin = SummaryMetadata.PluginData(plugin_name="graph_keras_model", content=b"1")
        tensor = TensorProto(
            dtype=_STRING, tensor_shape=TensorShapeProto(), string_val=[model_json.encode()]
        )
        value = Summary.Value(
            tag="keras", metadata=SummaryMetadata(plugin_data=plugin), tensor=tensor
        )
        self._open().file_writer.add_summary(Summary(value=[value]), step)

    def flush(self) -> None:
        """Put what was written on disk, for a TensorBoard that watches."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Flush and close; a later write opens another file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _open(self) -> SummaryWriter:
        if self._writer is None:
            self._writer = summary_writer(self._directory)
        # Its thread dies of the first error, and then nobody empties the queue that writes fill.
        if not self._writer.file_writer.event_writer._worker.is_alive():
            raise OSError(
                f"TensorBoard's logs in {self._directory} could not be written: their writer has "
                "failed. Its message stands above; a full disk is the usual cause."
            )
        return self._writer
