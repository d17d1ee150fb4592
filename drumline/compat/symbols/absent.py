"""What to use in place of TensorFlow's names that the look-alike has not, or why there is nothing.

An answer is an object to use, or one of `REASONS`. It is found by, in this order:

1. the first rule of ``answers.txt`` whose pattern the name fits;
2. for an operation of ``raw_ops`` the function of its name (``raw_ops.MatMul``: ``matmul``), for a
   name of ``compat.v1`` that of TensorFlow 2;
3. the answer for the function that was found, if this is absent, too.
"""

from __future__ import annotations

import builtins
import fnmatch
import functools
import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drumline.compat.symbols.table import canonical, find, present, tensorflow

REASONS = {
    "graphs": "there are no graphs, sessions and collections: functions run as they are called, "
    "and tf.function compiles them",
    "tpu": "it serves TPUs, or TPU embeddings, by TensorFlow's own means: jax finds and uses TPUs",
    "converters": "TensorFlow Lite, TensorRT and MLIR convert TensorFlow's graphs",
    "runtime": "it is a detail of TensorFlow's runtime, which has nothing here that is like it",
    "formats": "it is of a file format or protocol buffer that TensorFlow alone reads and writes",
    "quantized": "JAX has no kernels for tensors of quantized types (qint8)",
    "retired": "what it served has been removed from TensorFlow itself",
    "extensions": "classes and operations of users join JAX by pytrees and custom calls, not by "
    "TensorFlow's registries",
    "nothing": "JAX and Keras have nothing like it",
    "later": "it is not written yet",
}
"""The reasons that a name can be absent for."""

_REMOVED = {
    "estimator.*BoostedTrees*": "train boosted trees by XGBoost or scikit-learn, or a "
    "tf.estimator.DNNClassifier",
    "estimator.experimental.KMeans": "scikit-learn's KMeans takes the same rows",
    "estimator.experimental.LinearSDCA": 'give tf.estimator.LinearClassifier optimizer="Ftrl"',
    "estimator.experimental.RNN*": "make a Keras model of SequenceFeatures and LSTM an Estimator, "
    "by tf.keras.estimator.model_to_estimator",
    "estimator.experimental.*logit_fn*": "compute logits by Keras's layers",
    "estimator.experimental.build_raw_supervised_input_receiver_fn": "saved models are for "
    "predictions alone: train and evaluate with the Estimator",
    "estimator.experimental.make_stop_at_checkpoint_step_hook": "give train max_steps",
    "estimator.tpu.*": REASONS["tpu"],
    "estimator.FeedFnHook": REASONS["graphs"],
    "estimator.GlobalStepWaiterHook": REASONS["graphs"],
    "estimator.SummarySaverHook": "RunConfig(save_summary_steps=) says when summaries are written",
}
"""What TensorFlow had until 2.15, and 2.21 has not: what to do in its place."""

_RULES = Path(__file__).parent / "answers.txt"


def removed(name: str) -> str | None:
    """What to do in the place of a name that TensorFlow has removed; None if it is not known."""
    plain = name.removeprefix("compat.v1.")
    for pattern, instead in _REMOVED.items():
        if fnmatch.fnmatchcase(plain, pattern):
            return instead
    return None


@dataclass(frozen=True)
class Replacement:
    """What the error for an absent name says.

    Attributes:
        use: the object to use, as it is imported (``"jax.lax.scan"``, ``"tf.math.add"``), or empty.
        reason: a key of `REASONS`, or empty.
        note: how to use it, or empty.
    """

    use: str = ""
    reason: str = ""
    note: str = ""

    def __str__(self) -> str:
        why = f": {REASONS[self.reason]}" if self.reason else ""
        how = f" {self.note}" if self.note else ""
        return f"{why}; use {self.use}{how}" if self.use else why


@functools.cache
def answer(name: str) -> Replacement:
    """What to say about a public name of TensorFlow that is absent."""
    for rule in rules():
        if rule.expression.match(name):
            found = rule.answer(name)
            if found is not None:
                return found
            break
    target = _of_operation(name) or _of_version_2(name) or tensorflow().same.get(name)
    if target is None or target == name:
        return Replacement(reason="later")
    return Replacement(f"tf.{target}") if find(target) else answer(target)


@dataclass(frozen=True)
class Rule:
    """A line of ``answers.txt``.

    Attributes:
        pattern: of names, as those of shells.
        candidates: objects, and ``!`` with a reason.
        note: how to use the object.
    """

    pattern: str
    candidates: tuple[str, ...]
    note: str = ""

    @functools.cached_property
    def expression(self) -> re.Pattern[str]:
        """The pattern, compiled."""
        return re.compile(fnmatch.translate(self.pattern))

    def answer(self, name: str) -> Replacement | None:
        """What the first candidate says that is there; None if none is."""
        reasons = [each[1:] for each in self.candidates if each.startswith("!")]
        for candidate in self.candidates:
            if candidate.startswith("!"):
                return Replacement(reason=candidate[1:])
            use = _filled(candidate, name.rpartition(".")[2])
            if is_there(use, certain="{" not in candidate):
                return Replacement(use, reasons[0] if reasons else "", self.note)
        return None


@functools.cache
def rules() -> tuple[Rule, ...]:
    """The rules, in their order."""
    found = []
    for line in _RULES.read_text().splitlines():
        fields, _, note = line.partition("# ")
        if fields.strip():
            pattern, *candidates = fields.split()
            found.append(Rule(pattern, tuple(candidates), note.strip()))
    return tuple(found)


def _filled(candidate: str, last: str) -> str:
    """An object of a rule, with the parts of the name in it."""

    def part(found: re.Match[str]) -> str:
        kind, _, prefix = found[1].partition(":")
        rest = last.removeprefix(prefix)
        if kind == "lower":
            return rest.lower()
        if kind == "title":
            return rest.title().replace("_", "")
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", rest).lower() if kind == "snake" else rest

    return re.sub(r"{([^}]*)}", part, candidate)


def is_there(use: str, certain: bool = False) -> bool:
    """Whether an object is there.

    Args:
        use: of an `Replacement`.
        certain: whether objects of other packages are taken to be there, and not imported.
    """
    if not use.startswith("tf."):
        return certain or resolves(use)
    name = use.removeprefix("tf.")
    if canonical(name).startswith("keras."):
        return certain or resolves(use)
    if name == "__version__" or find(name) is not None or name in namespaces_there():
        return True
    return find(name.rpartition(".")[0]) is not None and (certain or resolves(use))


def resolves(use: str) -> bool:
    """Whether an object of an `Replacement` can be imported."""
    try:
        resolve(use)
    except (ImportError, AttributeError):
        return False
    return True


def resolve(use: str) -> Any:
    """The object of an `Replacement`.

    Raises:
        ImportError: there is no such module.
        AttributeError: its module has no such object.
    """
    parts = use.split(".")
    if parts[0] == "tf":
        parts[:1] = ["drumline", "compat", "tf"]
    if hasattr(builtins, parts[0]) and parts[0] not in sys.stdlib_module_names:
        return functools.reduce(getattr, parts, builtins)
    for size in range(len(parts), 0, -1):
        name = ".".join(parts[:size])
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError:
            if size == 1:
                raise
            continue
        return functools.reduce(getattr, parts[size:], found)
    raise ImportError(use)


@functools.cache
def namespaces_there() -> frozenset[str]:
    """The namespaces in which at least one name is."""
    return frozenset(name.rpartition(".")[0] for name in present())


@functools.cache
def _functions() -> dict[str, str]:
    """The public functions by their last part in small letters, without underscores."""
    there = present()
    found: dict[str, str] = {}

    def order(name: str) -> tuple[bool, bool, int, str]:
        return name.startswith("compat."), name not in there, name.count("."), name

    for name in sorted(tensorflow().names, key=order):
        root, last = name.partition(".")[0], name.rpartition(".")[2]
        if root in ("raw_ops", "keras", "experimental") or last[:1].isupper():
            continue
        if canonical(name) == name:
            found.setdefault(last.replace("_", ""), name)
    return found


def _of_operation(name: str) -> str | None:
    """The function of an operation of ``raw_ops``, as ``AddV2`` is that of ``add``."""
    if not name.startswith("raw_ops."):
        return None
    last = name.removeprefix("raw_ops.")
    known = _functions()
    return known.get(last.lower()) or known.get(re.sub(r"V\d+$", "", last).lower())


def _of_version_2(name: str) -> str | None:
    """The name that TensorFlow 2 has for one of ``compat.v1``."""
    if not name.startswith("compat.v1."):
        return None
    public = tensorflow()
    target = public.same.get(name, name.removeprefix("compat.v1."))
    if target in public.names and target != name:
        return target
    return _functions().get(name.rpartition(".")[2].replace("_", ""))
