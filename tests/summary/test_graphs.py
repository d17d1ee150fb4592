"""Graphs of plans, models and functions, as TensorBoard's plugin reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from tests.summary.reading import values

graph_pb2 = pytest.importorskip("tensorboard.compat.proto.graph_pb2")
config_pb2 = pytest.importorskip("tensorboard.compat.proto.config_pb2")


def _graph(directory: Path, source: Any) -> dict[str, tuple[str, list[str]]]:
    with dl.summary.create_file_writer(directory).as_default():
        assert dl.summary.graph(source)
    # TensorBoard's reader makes a summary of the event.
    ((_, _, content),) = values(directory)
    return _nodes(graph_pb2.GraphDef.FromString(content.item()))


def _nodes(graph: Any) -> dict[str, tuple[str, list[str]]]:
    nodes = {node.name: (node.op, list(node.input)) for node in graph.node}
    assert len(nodes) == len(graph.node), "names are unique"
    assert all(name in nodes for _, inputs in nodes.values() for name in inputs)
    return nodes


def test_a_plan(tmp_path: Path) -> None:
    numbers = dl.data.Dataset.range(10)
    doubled = dl.data.Dataset.zip(numbers, numbers.map(lambda x: x * 2)).batch(2, name="pairs")
    nodes = _graph(tmp_path, doubled)
    assert [operation for operation, _ in nodes.values()] == ["range", "map", "zip", "batch"]
    (source, mapped, zipped, batched) = nodes
    assert nodes[zipped][1] == [source, mapped]
    assert nodes[batched][1] == [zipped] and "pairs" in batched
    assert all(name.startswith("dataset/") for name in nodes)


def test_models(tmp_path: Path) -> None:
    given = keras.Input((3,), name="given")
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="first")], name="inner")
    shared = keras.layers.Dense(2, name="shared")
    joined = keras.layers.Add(name="sum")([inner(given), shared(given), shared(given)])
    nodes = _graph(tmp_path, keras.Model(given, joined, name="whole"))
    assert nodes["whole/given"][0] == "InputLayer"
    assert nodes["whole/inner/first"][0] == "Dense"
    assert nodes["whole/sum"] == (
        "Add",
        ["whole/inner/first", "whole/shared_0", "whole/shared_1"],
    )
    assert nodes["whole/shared_1"][1] == ["whole/given"]


def test_a_model_whose_connections_are_code(tmp_path: Path) -> None:
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="own")
            self.dense = keras.layers.Dense(2, name="dense")

        def call(self, x: Any) -> Any:
            return self.dense(x)

    assert set(_graph(tmp_path, Own())) == {"own/dense"}
    with pytest.raises(ValueError, match="has no layers yet"):
        dl.summary.graph(keras.Model())


def test_functions_that_are_called(tmp_path: Path) -> None:
    @dl.function
    def double(x: Any) -> Any:
        return x * 2

    @dl.function
    def unused(x: Any) -> Any:
        return x

    double(np.float32(1))
    with dl.summary.create_file_writer(tmp_path).as_default(step=3):
        dl.summary.trace_on()
        double(np.float32(1))
        double(np.float32(2))
        double(np.zeros(2, np.float32))
        dl.summary.trace_export("calls")
        double(np.float32(1))
        with pytest.raises(ValueError, match="Must enable trace"):
            dl.summary.trace_export("calls")
    ((tag, step, content),) = values(tmp_path)
    assert (tag, step) == ("calls", 3)
    metadata = config_pb2.RunMetadata.FromString(content.item())
    graphs = [_nodes(each.pre_optimization_graph) for each in metadata.function_graphs]
    assert graphs and all(any(op == "mul" for op, _ in nodes.values()) for nodes in graphs)
    assert all(name.startswith("double") for nodes in graphs for name in nodes)


def test_tensorboards_plugin_shows_them(tmp_path: Path) -> None:
    plugin = pytest.importorskip("tensorboard.plugins.graph.graphs_plugin")
    context = pytest.importorskip("tensorboard.context")
    base = pytest.importorskip("tensorboard.plugins.base_plugin")
    provider = pytest.importorskip("tensorboard.backend.event_processing.data_provider")
    multiplexer = pytest.importorskip(
        "tensorboard.backend.event_processing.plugin_event_multiplexer"
    )
    with dl.summary.create_file_writer(tmp_path / "run").as_default(step=0):
        dl.summary.graph(dl.data.Dataset.range(3).batch(2))
        dl.summary.trace_on()
        dl.function(lambda x: x + 1)(np.float32(1))
        dl.summary.trace_export("calls")
    events_of = multiplexer.EventMultiplexer().AddRunsFromDirectory(str(tmp_path))
    events_of.Reload()
    data = provider.MultiplexerDataProvider(events_of, str(tmp_path))
    shown = plugin.GraphsPlugin(base.TBContext(data_provider=data, logdir=str(tmp_path)))
    request = context.RequestContext()
    ((_, tags),) = shown.info_impl(request, "").items()
    assert tags["run_graph"] and tags["tags"]["calls"]["op_graph"]
    text, _ = shown.graph_impl(request, "run", None, False, "", None, None)
    assert "dataset/0_range" in text
    text, _ = shown.graph_impl(request, "run", "calls", False, "", None, None)
    assert 'op: "add"' in text
