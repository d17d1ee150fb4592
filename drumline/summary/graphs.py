"""Graphs that TensorBoard's plugin draws: of a dataset's plan, of a model, of a program of JAX.

They are ``GraphDef`` messages (tensorflow/core/framework/graph.proto): nodes with an operation, the
nodes they read, and what is shown of them when one is chosen. A ``/`` in a name makes a box that
can be opened.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from jax.extend.core import Literal

from drumline._event_messages import bytes_field, varint_field
from drumline.data import Dataset
from drumline.data.plan.node import Node as Operation
from drumline.summary.writer import default_writer, recording

_PRODUCER = 22  # of GraphDef: what TensorBoard's reader has accepted since TensorFlow 1.5


def graph(graph_data: Any) -> bool:
    """Record the graph of a dataset, a model or a ``GraphDef``, as ``tf.summary.graph``.

    TensorBoard shows one graph for a directory of logs: the last.

    Args:
        graph_data: a `drumline.data.Dataset`, whose plan is drawn; a Keras model that is built,
            whose layers are; or a serialized ``GraphDef`` message, or the message.

    Returns:
        Whether it is recorded: there is a writer, and the condition of `record_if` holds.

    Raises:
        TypeError: `graph_data` is none of these.
        ValueError: a model that is not built.

    Example:
        >>> import tempfile
        >>> import drumline as dl
        >>> dataset = dl.data.Dataset.range(10).map(lambda x: x + 1).batch(2)
        >>> with dl.summary.create_file_writer(tempfile.mkdtemp()).as_default():
        ...     dl.summary.graph(dataset)
        True
    """
    message = _message(graph_data)
    writer = default_writer()
    if writer is None or not bool(recording()):
        return False
    if writer.path is not None:
        writer.raise_error()
        writer.put_graph(message)
    return True


def _message(source: Any) -> bytes:
    if isinstance(source, bytes):
        return source
    if hasattr(source, "SerializeToString"):
        made: bytes = source.SerializeToString()
        return made
    if isinstance(source, Dataset):
        return graph_message(plan_nodes(source))
    if isinstance(source, keras.Model):
        return graph_message(model_nodes(source))
    raise TypeError(
        f"summary.graph takes a dataset, a Keras model or a GraphDef, got {type(source).__name__}. "
        "For what a function computes: `dl.summary.trace_on()`, call it, `trace_export(name)`."
    )


@dataclass
class GraphNode:
    """A node.

    Attributes:
        name: unique in the graph; ``/`` separates boxes.
        operation: its kind.
        inputs: names of the nodes that it reads.
        shapes: of its outputs, None for what is not known.
        shown: more that is shown of it.
    """

    name: str
    operation: str
    inputs: list[str] = field(default_factory=list)
    shapes: Sequence[Sequence[int | None] | None] = ()
    shown: Mapping[str, str] = field(default_factory=dict)


def graph_message(nodes: Sequence[GraphNode]) -> bytes:
    """A ``GraphDef`` message."""
    content = b"".join(bytes_field(1, _node_message(node)) for node in nodes)
    return content + bytes_field(4, varint_field(1, _PRODUCER))


def _node_message(node: GraphNode) -> bytes:
    message = bytes_field(1, node.name.encode()) + bytes_field(2, node.operation.encode())
    message += b"".join(bytes_field(3, name.encode()) for name in node.inputs)
    for key, text in node.shown.items():
        message += _attribute(key, bytes_field(2, text.encode()))
    if node.shapes:
        shapes = b"".join(bytes_field(7, _shape_message(shape)) for shape in node.shapes)
        message += _attribute("_output_shapes", bytes_field(1, shapes))
    return message


def _attribute(key: str, value: bytes) -> bytes:
    return bytes_field(5, bytes_field(1, key.encode()) + bytes_field(2, value))


def _shape_message(shape: Sequence[int | None] | None) -> bytes:
    if shape is None:
        return varint_field(3, 1)
    sizes = [-1 if size is None else size for size in shape]
    return b"".join(bytes_field(2, varint_field(1, size)) for size in sizes)


def plan_nodes(dataset: Dataset) -> list[GraphNode]:
    """The operations of a dataset's plan, sources first; one that is read twice is there once."""
    made: dict[int, str] = {}
    nodes: list[GraphNode] = []

    def visit(operation: Operation) -> str:
        if id(operation) in made:
            return made[id(operation)]
        inputs = [visit(each) for each in operation.inputs]
        label = f"{operation.name}_{operation.title}" if operation.title else operation.name
        name = made[id(operation)] = f"dataset/{len(made)}_{_plain(label)}"
        shapes = [getattr(leaf, "shape", None) for leaf in operation.spec.leaves]
        shown = {"arguments": operation.arguments()}
        nodes.append(GraphNode(name, operation.name, inputs, shapes, shown))
        return name

    visit(dataset._plan)
    return nodes


def model_nodes(model: Any) -> list[GraphNode]:
    """The layers of a Keras model; those of models inside it stand in boxes.

    Raises:
        ValueError: it has no layers yet.
    """
    if not model.layers:
        raise ValueError(
            f"summary.graph: the model {model.name!r} has no layers yet. Build it first: "
            "`model.build(shape)`, or call it."
        )
    return list(_layer_nodes(model, _plain(model.name), [])[0])


def _layer_nodes(
    model: Any, box: str, given: Sequence[str]
) -> tuple[list[GraphNode], Mapping[int, str]]:
    """The nodes of a model's layers in `box`, and by its outputs' ids the nodes that give them."""
    model = getattr(model, "_functional", None) or model  # of a Sequential
    if not hasattr(model, "_nodes_by_depth"):
        return list(_apart(model, box)), {}
    nodes: list[GraphNode] = []
    source: dict[int, str] = {}
    waiting = list(given)
    nodes_of_model = [node for level in model._nodes_by_depth.values() for node in level]
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            layer = node.operation
            inputs = [source[id(t)] for t in node.input_tensors if id(t) in source]
            if node.is_input and waiting:
                inputs = [waiting.pop(0)]
            calls = [each for each in layer._inbound_nodes if each in nodes_of_model]
            again = f"_{calls.index(node)}" if len(calls) > 1 else ""
            name = f"{box}/{_plain(layer.name)}{again}"
            if getattr(layer, "layers", None) and getattr(layer, "outputs", None):
                below, found = _layer_nodes(layer, name, inputs)
                nodes += below
                ends = [found.get(id(t)) for t in layer.outputs]
                for tensor, end in zip(node.output_tensors, ends, strict=True):
                    source[id(tensor)] = end if end is not None else below[-1].name
                continue
            nodes.append(
                GraphNode(
                    name,
                    type(layer).__name__,
                    inputs,
                    [tuple(t.shape) for t in node.output_tensors],
                    _shown(layer),
                )
            )
            for tensor in node.output_tensors:
                source[id(tensor)] = name
    return nodes, source


def _apart(model: Any, box: str) -> Iterator[GraphNode]:
    """The layers of a model whose connections are in Python code."""
    for layer in model.layers:
        name = f"{box}/{_plain(layer.name)}"
        if getattr(layer, "layers", None):
            yield from _layer_nodes(layer, name, [])[0]
        else:
            yield GraphNode(name, type(layer).__name__, shown=_shown(layer))


def _shown(layer: Any) -> dict[str, str]:
    if not isinstance(layer, keras.layers.Layer):
        return {}
    weights = {weight.path: f"{weight.dtype}{tuple(weight.shape)}" for weight in layer.weights}
    return {"weights": ", ".join(f"{path} {of}" for path, of in weights.items())} | {
        "dtype": str(layer.compute_dtype)
    }


def program_nodes(jaxpr: Any, box: str, given: Sequence[str | None] = ()) -> list[GraphNode]:
    """The operations of a program of JAX; those of functions it calls stand in boxes.

    Args:
        jaxpr: ``jax.extend.core.Jaxpr``.
        box: the name of the box that all of it stands in.
        given: the nodes that its arguments come from, where they are known.
    """
    nodes: list[GraphNode] = []
    source: dict[Any, str] = {}
    for index, variable in enumerate(jaxpr.constvars):
        source[variable] = f"{box}/const_{index}"
        nodes.append(GraphNode(source[variable], "Const", [], [_shape_of(variable)]))
    for variable, outer in itertools.zip_longest(jaxpr.invars, given[: len(jaxpr.invars)]):
        source[variable] = f"{box}/argument_{len(source) - len(jaxpr.constvars)}"
        read = [] if outer is None else [outer]
        nodes.append(GraphNode(source[variable], "Argument", read, [_shape_of(variable)]))
    for index, equation in enumerate(jaxpr.eqns):
        name = f"{box}/{_plain(equation.primitive.name)}_{index}"
        read_from = [None if isinstance(v, Literal) else source.get(v) for v in equation.invars]
        shapes = [_shape_of(v) for v in equation.outvars]
        inputs = list(dict.fromkeys(each for each in read_from if each is not None))
        kind = equation.primitive.name
        nodes.append(GraphNode(name, kind, inputs, shapes, _parameters(equation.params)))
        for inner in _inside(equation.params):
            same = len(inner.invars) == len(read_from)
            nodes += program_nodes(inner, f"{name}/{kind}", read_from if same else ())
        for variable in equation.outvars:
            source[variable] = name
    return nodes


def _parameters(params: Mapping[str, Any]) -> dict[str, str]:
    plain = (bool, int, float, str, np.dtype)
    return {
        key: str(value)
        for key, value in params.items()
        if isinstance(value, plain)
        or (isinstance(value, tuple) and value and all(isinstance(v, plain) for v in value))
    }


def _inside(params: Mapping[str, Any]) -> Iterator[Any]:
    for value in params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(each, "jaxpr", each)
            if hasattr(inner, "eqns") and hasattr(inner, "invars"):
                yield inner


def _shape_of(variable: Any) -> tuple[int, ...] | None:
    return getattr(variable.aval, "shape", None)


def _plain(name: str) -> str:
    """A name as nodes may have it: ``[A-Za-z0-9.][A-Za-z0-9_.\\\\-]*``."""
    made = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in name)
    return made if made[:1].isalnum() else f"n{made}"
