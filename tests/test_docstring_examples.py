"""Examples in docstrings run, and every public name of what users hold has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
from typing import Any

import pytest

import drumline as dl

MODULES = (
    "drumline.checkpoints.conversion",
    "drumline.checkpoints.formats",
    "drumline.checkpoints.reader",
    "drumline.checkpoints.weights",
    "drumline.config.cache",
    "drumline.config.cluster",
    "drumline.config.report",
    "drumline.config.settings",
    "drumline.data.dataset",
    "drumline.datasets.display",
    "drumline.datasets.prepared.decoders",
    "drumline.datasets.prepared.generator",
    "drumline.datasets.registry",
    "drumline.datasets.split_expression",
    "drumline.distribute.cluster_resolver.tpu.device_assignment",
    "drumline.distribute.cluster_resolver.tpu.resolver",
    "drumline.distribute.cluster_resolver.tpu.topology",
    "drumline.distribute.process_group.start",
    "drumline.distribute.strategies",
    "drumline.distribute.parameter_server.strategy",
    "drumline.distribute.strategy",
    "drumline.keras.callbacks.step_profiler",
    "drumline.keras.callbacks.track",
    "drumline.keras.layers.hashing",
    "drumline.keras.layers.integer_lookup",
    "drumline.keras.layers.string_lookup",
    "drumline.keras.layers.text_vectorization",
    "drumline.profiler.step_profile",
)
WHOLE = (dl.data.Dataset, dl.distribute.Strategy, dl.distribute.StrategyExtended)
CLASSES = (
    *WHOLE,
    dl.distribute.MirroredStrategy,
    dl.distribute.ModelParallelStrategy,
    dl.distribute.MultiWorkerMirroredStrategy,
    dl.distribute.experimental.CentralStorageStrategy,
    dl.distribute.OneDeviceStrategy,
    dl.distribute.TPUStrategy,
)
NEEDS = {"Dataset.from_huggingface": "datasets"}
"""What the package in its example is, where drumline does without it."""


def examples() -> list[Any]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name))]
    return [pytest.param(test, id=test.name.removeprefix("drumline.")) for test in found]


@pytest.mark.parametrize("example", examples())
def test_example(example: doctest.DocTest, names_of_examples: dict[str, Any]) -> None:
    needed = NEEDS.get(".".join(example.name.split(".")[-2:]))
    if needed:
        pytest.importorskip(needed, reason=f"the example is of the package {needed}")
    example.globs = {**names_of_examples}
    runner = doctest.DebugRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    try:
        runner.run(example)
    except doctest.DocTestFailure as failure:
        pytest.fail(
            f"{example.name}: `{failure.example.source.strip()}` gives {failure.got!r}, "
            f"the docstring says {failure.example.want!r}"
        )
    except doctest.UnexpectedException as failure:
        raise failure.exc_info[1] from None


def public(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_")]


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in CLASSES for name in public(kind)]
)
def test_every_public_name_is_documented(kind: type, name: str) -> None:
    value = inspect.getattr_static(kind, name)
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    text = inspect.getdoc(value) or ""
    assert ">>> " in text, f"{kind.__name__}.{name} has no example"
    if isinstance(value, property):
        return
    for argument in inspect.signature(value).parameters:
        assert argument in ("self", "cls") or f"\n    {argument}: " in text, (
            f"{kind.__name__}.{name} does not say what {argument} is"
        )


@pytest.mark.parametrize("kind", [*CLASSES, dl.distribute.ParameterServerStrategy])
def test_every_class_has_an_example(kind: type) -> None:
    assert ">>> " in (inspect.getdoc(kind) or "")


def test_classes_have_the_public_names_themselves() -> None:
    """Whoever looks for a method finds it in the class, and not in a base."""
    for kind in WHOLE:
        elsewhere = [
            name for name in dir(kind) if not name.startswith("_") and name not in vars(kind)
        ]
        assert elsewhere == []
