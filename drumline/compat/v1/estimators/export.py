"""``tf.estimator.export``: receivers of what is served, and Estimators as saved models."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drumline._local_path import local_path
from drumline.compat.data.dataset import TensorDataset
from drumline.compat.data.features.columns import (
    BucketizedColumn,
    NumericColumn,
    WeightedCategoricalColumn,
)
from drumline.compat.keras.feature_layers import PREFIX, unwrap_features
from drumline.compat.training.host_part import HostColumn, HostPart, placeholder
from drumline.compat.training.module import TensorModule
from drumline.compat.training.saved_model import SavedFunctions
from drumline.compat.v1.estimators.premade import DENSE_LAYER, LINEAR_LAYER
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import unwrap, wrap
from drumline.compat.values.specs import ArraySpec
from drumline.compat.values.tensor import Tensor
from drumline.estimator.export.outputs import (
    ClassificationOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)
from drumline.estimator.premade.heads.base import DEFAULT_SERVING_KEY
from drumline.estimator.premade.model import PremadeEstimator
from drumline.estimator.spec import ModeKeys
from drumline.io import FixedLenFeature


class _Receiver(NamedTuple):
    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any = None


class ServingInputReceiver(_Receiver):
    """What a model that is served is given, as ``tf.estimator.export.ServingInputReceiver``.

    Args:
        features: tensors or ``tf.TensorSpec`` by name, with the batch as the first dimension.
        receiver_tensors: the same: there is no graph in which features are computed of others.
        receiver_tensors_alternatives: must be None.

    Raises:
        NotImplementedError: features are others than the receiver's tensors, or there are
            alternatives.
    """

    parsed: dict[str, Any] | None = None

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> ServingInputReceiver:
        if receiver_tensors_alternatives:
            raise NotImplementedError("receiver_tensors_alternatives: export a second model.")
        given, received = _by_name(features), _by_name(receiver_tensors)
        if given.keys() != received.keys() or any(
            given[name] is not received[name] for name in given
        ):
            raise NotImplementedError(
                "ServingInputReceiver: features are computed of receiver_tensors in a graph, which "
                "there is not: let features be the receiver_tensors, and compute of them in "
                "model_fn; or use build_parsing_serving_input_receiver_fn."
            )
        return super().__new__(cls, features, receiver_tensors)


class TensorServingInputReceiver(ServingInputReceiver):
    """As `ServingInputReceiver`, of a model whose features are one tensor."""


class _ParsingReceiver(ServingInputReceiver):
    """A receiver of serialized examples."""

    @classmethod
    def of(cls, features: Mapping[str, Any], size: int | None) -> _ParsingReceiver:
        """That of a specification of features."""
        tensors = {"examples": ArraySpec([size], dtypes.string, "examples")}
        made = cls(tensors, tensors)
        made.parsed = dict(features)
        return made


def _by_name(tensors: Any) -> dict[str, Any]:
    return dict(tensors) if isinstance(tensors, Mapping) else {"input": tensors}


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function for serialized examples, as in ``tf.estimator.export``.

    Args:
        feature_spec: ``tf.io.FixedLenFeature`` and ``VarLenFeature`` by name.
        default_batch_size: how many examples there are; None for any number.
    """
    return lambda: _ParsingReceiver.of(feature_spec, default_batch_size)


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function for features as they are, as in ``tf.estimator.export``.

    Args:
        features: tensors or specs by name, whose first dimension is the batch.
        default_batch_size: how many rows there are; None for any number.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        made = {name: _spec(name, each, default_batch_size) for name, each in features.items()}
        return ServingInputReceiver(made, made)

    return serving_input_receiver_fn


def _spec(name: str, value: Any, size: int | None) -> ArraySpec:
    if not isinstance(value, ArraySpec):
        if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, Tensor):
            shape = [None if each is None else int(each) for each in value.shape]
            kind = value.dtype if isinstance(value.dtype, (str, dtypes.DType)) else None
            value = ArraySpec(shape, kind or dtypes.of_array(np.dtype(value.dtype)), name)
        else:
            value = ArraySpec.from_tensor(wrap(unwrap(value)))
    return ArraySpec([size, *value.shape.as_list()[1:]], value.dtype, name)


def export_saved_model(
    estimator: Any,
    export_dir_base: Any,
    serving_input_receiver_fn: Callable[[], Any],
    assets_extra: Mapping[str, Any] | None,
    as_text: bool,
    checkpoint_path: str | None,
    mode: str,
) -> bytes:
    """Write an Estimator's model for serving; see ``Estimator.export_saved_model``."""
    if as_text:
        raise NotImplementedError("export_saved_model: saved models are no text; leave as_text.")
    if mode != ModeKeys.PREDICT:
        raise NotImplementedError(
            f"export_saved_model: a saved model is for {ModeKeys.PREDICT!r} alone, not {mode!r}: "
            "train and evaluate with the Estimator, from its checkpoints."
        )
    if serving_input_receiver_fn is None:
        raise ValueError("An input_receiver_fn must be defined.")
    path = checkpoint_path or estimator.latest_checkpoint()
    if path is None:
        raise ValueError(f"Couldn't find trained model at {estimator.model_dir}.")
    receiver = serving_input_receiver_fn()
    if not isinstance(receiver, ServingInputReceiver):
        raise TypeError(f"serving_input_receiver_fn must give a ServingInputReceiver: {receiver!r}")
    base = Path(local_path(export_dir_base, "export_saved_model", "a model"))
    base.mkdir(parents=True, exist_ok=True)
    made = _Exported(estimator, receiver, path)
    target = _new_directory(base)
    made.write(target)
    for name, source in (assets_extra or {}).items():
        asset = target / "assets.extra" / name
        asset.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, asset)
    return os.fsencode(target)


def _new_directory(base: Path) -> Path:
    """A directory that is named by the time, ten digits; it is made."""
    seconds = int(time.time())
    while True:
        target = base / str(seconds)
        try:
            target.mkdir()
        except FileExistsError:
            seconds += 1  # of the same second
        else:
            return target


class _Variables(TensorModule):
    """What holds a saved model's variables."""

    model_variables: list[Any]


class _Exported:
    """A model_fn of one checkpoint, with its signatures.

    Args:
        estimator: whose.
        receiver: what it is given.
        path: the checkpoint.
    """

    def __init__(self, estimator: Any, receiver: ServingInputReceiver, path: str):
        self._premade = isinstance(estimator, PremadeEstimator)
        self._single = not isinstance(receiver.features, Mapping)
        self._inputs = {
            name: _spec(name, each, _size(each))
            for name, each in _by_name(receiver.receiver_tensors).items()
        }
        self._parsed = receiver.parsed
        features = self._placeholders()
        given = features["input"] if self._single else features
        run = estimator.model_run(lambda: TensorDataset.from_tensors(given))
        run.restore(path)
        self._run = run
        self._outputs = _outputs(run.spec)
        columns = estimator.host_columns() if self._premade else []
        read = self._read(estimator, columns, features)
        self._host = HostPart(self._inputs, self._parsed, columns, read)
        self._arguments = self._host.prepared(unwrap_features(features))

    def _placeholders(self) -> dict[str, Any]:
        """Features of one row."""
        if self._parsed is None:
            return {name: placeholder(spec) for name, spec in self._inputs.items()}
        found = {}
        for name, feature in self._parsed.items():
            shape = list(feature.shape) if isinstance(feature, FixedLenFeature) else [1]
            kind = dtypes.string if np.dtype(_numpy(feature.dtype)).kind in "OSU" else None
            kind = kind or dtypes.of_array(np.dtype(_numpy(feature.dtype)))
            found[name] = placeholder(ArraySpec([1, *shape], kind))
        return found

    def _read(self, estimator: Any, columns: list[HostColumn], features: Any) -> list[str]:
        """The features that the program takes as they are."""
        numbers = [name for name, each in features.items() if unwrap(each).dtype.kind not in "OSU"]
        if not self._premade:
            text = sorted(features.keys() - set(numbers))
            if text:
                raise NotImplementedError(
                    f"export_saved_model: the features {text} are strings, which the model_fn's "
                    "program does not take: use a premade Estimator with feature columns."
                )
            return numbers
        wanted = estimator.features_of_program()
        if wanted is None:
            return numbers
        missing = sorted(set(wanted) - features.keys())
        if missing:
            raise ValueError(f"The receiver has no features {missing}, which columns read.")
        return sorted(wanted)

    def _program_specs(self) -> dict[str, ArraySpec]:
        """What the program takes."""
        made = {}
        for name, value in self._arguments.items():
            array = unwrap(value)
            own = self._inputs.get(name)
            shape: list[int | None]
            if name.startswith(PREFIX):
                shape = [None] * array.ndim
            elif own is not None and self._parsed is None:
                shape = own.shape.as_list()
            else:
                shape = [None, *array.shape[1:]]
            made[name] = ArraySpec(shape, dtypes.of_array(array.dtype), name)
        return made

    def write(self, target: Path) -> None:
        """Write the signatures and the variables."""
        specs = self._program_specs()
        root = _Variables("estimator")
        root.model_variables = list(self._run.saved_variables().values())
        saved = SavedFunctions(root)
        for key, output in self._outputs.items():
            host = self._for(output)
            if host is not None:
                saved.add_signature(key, self._serve(key), specs, host.described())
        saved.write_to(target)

    def _for(self, output: ExportOutput) -> HostPart | None:
        """The host's part of a signature; None if it cannot take the receiver's tensors.

        As in TensorFlow: those of classification and regression take one tensor of strings, by the
        name ``inputs``.
        """
        if not isinstance(output, (ClassificationOutput, RegressionOutput)):
            return self._host
        specs = list(self._inputs.values())
        if len(specs) != 1 or specs[0].dtype != dtypes.string:
            return None
        inputs = {"inputs": ArraySpec(specs[0].shape, specs[0].dtype, "inputs")}
        return HostPart(inputs, self._parsed, self._host.columns, self._host.passed)

    def _serve(self, key: str) -> Callable[..., Any]:
        def serve(**arguments: Any) -> dict[str, Any]:
            given = arguments["input"] if self._single else dict(arguments)
            return _outputs(self._run.predicted(given))[key].tensors

        return serve


def _numpy(dtype: Any) -> Any:
    return dtype.as_numpy_dtype if isinstance(dtype, dtypes.DType) else dtype


def _size(value: Any) -> int | None:
    return value.shape[0] if isinstance(value, ArraySpec) else None


def _outputs(spec: Any) -> dict[str, ExportOutput]:
    """The outputs of a model_fn's specification, by signature: predictions if it states none."""
    found = spec.export_outputs
    if not found:
        return {DEFAULT_SERVING_KEY: PredictOutput(spec.predictions)}
    for name, each in found.items():
        if not isinstance(each, ExportOutput):
            raise TypeError(
                f"Values in export_outputs must be ExportOutput objects. {name!r} is {each!r}"
            )
    if DEFAULT_SERVING_KEY not in found:
        if len(found) > 1:
            raise ValueError(
                "Multiple export_outputs were provided, but none of them is specified as the "
                f"default. Do this by naming one of them with {DEFAULT_SERVING_KEY!r}."
            )
        found = {**found, DEFAULT_SERVING_KEY: next(iter(found.values()))}
    return dict(found)


def host_columns(layer: str, columns: Any) -> list[HostColumn]:
    """The columns of a layer that are prepared before the program.

    Raises:
        NotImplementedError: one has weights.
    """
    found = []
    for column in columns:
        if isinstance(column, (NumericColumn, BucketizedColumn)):
            continue
        inner = getattr(column, "categorical_column", None)
        weighted = isinstance(column, WeightedCategoricalColumn)
        if weighted or isinstance(inner, WeightedCategoricalColumn):
            raise NotImplementedError(
                f"export_saved_model: the column {column.name!r} has weights, which a saved "
                "model's program does not take; predict with the Estimator."
            )
        found.append(HostColumn(f"{PREFIX}{layer}/{column.name}/", inner or column, True))
    return found


def columns_of(dense: Any, linear: Any) -> list[HostColumn]:
    """The columns of a premade Estimator that are prepared before the program."""
    return [*host_columns(DENSE_LAYER, dense), *host_columns(LINEAR_LAYER, linear)]


def features_of_program(dense: Any, linear: Any) -> set[str] | None:
    """The features that a premade Estimator's program takes as they are; None for all numbers."""
    columns = [*dense, *linear]
    if not columns:
        return None
    return {
        key
        for column in columns
        if isinstance(column, (NumericColumn, BucketizedColumn))
        for key in column.parse_example_spec
    }
