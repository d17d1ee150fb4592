"""Names of ``tf.keras`` that Keras 3 lacks, or has only with TensorFlow."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import keras

from drumline import datasets
from drumline.compat.data import dataset as _dataset  # noqa: F401 (its classes are known to wrap)
from drumline.compat.keras import boundaries, legacy
from drumline.compat.training.restored import contains_saved_model
from drumline.compat.values.boundary import from_core, of_tensors, unwrap
from drumline.keras.utils.experimental import DatasetCreator

boundaries.install()

__version__: str = keras.__version__


class ModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Keras's callback, which takes any path: the suffix that Keras wants is added.

    Args:
        filepath: where to save; ``.weights.h5`` or ``.keras`` is added if it has no such suffix.
        save_freq: ``"epoch"`` or a number of batches; ``period``, of Keras 2, a number of epochs,
            is refused.
        options: the other arguments of Keras's.

    Raises:
        TypeError: for an argument that neither Keras 2 nor 3 has.
    """

    def __init__(
        self,
        filepath: Any,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        initial_value_threshold: float | None = None,
        **options: Any,
    ):
        if "period" in options:
            raise ValueError("ModelCheckpoint takes no `period`: use `save_freq`, in batches")
        options.pop("options", None)  # of TensorFlow's file formats
        if options:
            raise TypeError(f"ModelCheckpoint takes no {', '.join(options)}")
        path = os.fspath(filepath)
        wanted = legacy.WEIGHTS if save_weights_only else ".keras"
        if not path.endswith((wanted, ".keras") if not save_weights_only else wanted):
            path = path.removesuffix(".h5") + wanted
        super().__init__(
            path,
            monitor,
            verbose,
            save_best_only,
            save_weights_only,
            mode,
            save_freq,
            initial_value_threshold,
        )


def load_model(filepath: Any, *args: Any, options: Any = None, **kwargs: Any) -> Any:
    """``tf.keras.models.load_model``, which also takes a directory that ``Model.save`` wrote.

    Args:
        filepath: of a file or a directory.
        args: the other arguments of Keras's.
        options: accepted; about TensorFlow's file formats.
        kwargs: the other arguments of Keras's, by name.

    Raises:
        ValueError: the directory has no model of Keras's in it.
    """
    path = os.fspath(filepath)
    if os.path.isdir(path):
        inner = os.path.join(path, legacy.MODEL)
        if not os.path.exists(inner):
            if contains_saved_model(path):
                raise ValueError(
                    f"{path} has programs and variables, which are no model of Keras's: use "
                    "tf.saved_model.load(path), or tf.keras.layers.TFSMLayer(path) as a layer; "
                    "for load_model save it by Model.save"
                )
            raise ValueError(
                f"{path} is a directory without {legacy.MODEL}: only directories that Model.save "
                "of this interface wrote can be loaded; a SavedModel of TensorFlow's cannot"
            )
        path = inner
    return keras.models.load_model(path, *args, **kwargs)


class SyncBatchNormalization(keras.layers.BatchNormalization):
    """Batch normalization with the moments of the global batch, of all replicas."""

    def __init__(self, **options: Any):
        super().__init__(**{"synchronized": True, **options})


def _losses(name: str) -> Callable[..., Any]:
    return boundaries.function_of_tensors(getattr(keras.losses, name))


mean_squared_error = _losses("mean_squared_error")
mean_absolute_error = _losses("mean_absolute_error")
mean_absolute_percentage_error = _losses("mean_absolute_percentage_error")
mean_squared_logarithmic_error = _losses("mean_squared_logarithmic_error")
kl_divergence = _losses("kl_divergence")
log_cosh = _losses("log_cosh")
cosine_similarity = _losses("cosine_similarity")


def _of_folders(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of drumline's that reads folders of classes, giving datasets of tensors."""
    named = of_tensors(function)

    @functools.wraps(function)
    def read(*args: Any, **kwargs: Any) -> Any:
        for option, only in (("format", "tf"), ("sampling_rate", None)):
            if kwargs.pop(option, only) != only:
                raise NotImplementedError(
                    f"tf.keras.utils.{function.__name__}({option}=...) is not in the look-alike; "
                    "leave it out, and map the dataset"
                )
        found = named(*args, **kwargs)
        for each in found if isinstance(found, tuple) else (found,):
            core = unwrap(each)
            for name in ("class_names", "file_paths"):
                setattr(each, name, getattr(core, name, None))
        return found

    return read


image_dataset_from_directory = _of_folders(datasets.image_dataset_from_directory)
text_dataset_from_directory = _of_folders(datasets.text_dataset_from_directory)
audio_dataset_from_directory = _of_folders(datasets.audio_dataset_from_directory)
timeseries_dataset_from_array = of_tensors(datasets.timeseries_dataset_from_array)


def get_file(
    fname: str | None = None,
    origin: str | None = None,
    untar: bool = False,
    *args: Any,
    extract: bool = False,
    **kwargs: Any,
) -> str:
    """``tf.keras.utils.get_file``, whose extracted files are where TensorFlow 2 has them.

    Keras 3 extracts into a folder of the file's name. What is in it is also found beside this
    folder, where scripts of TensorFlow 2 look: they take the returned path for that of the archive
    and change its end (``path.replace(".zip", ".csv")``). ``untar=True`` returns the folder
    ``fname`` of the archive, if there is one.

    Args:
        fname: of the file, or of the folder in the archive.
        origin: where it is.
        untar: whether it is a tar archive.
        args: the other arguments of Keras's.
        extract: whether to extract it.
        kwargs: the other arguments of Keras's, by name.

    Returns:
        The path of the file, or of the archive with ``extract=True`` and a ``fname`` with a suffix;
        otherwise that of the folder that it was extracted to.
    """
    found: str = keras.utils.get_file(fname, origin, untar, *args, extract=extract, **kwargs)
    if not (untar or extract) or not os.path.isdir(found):
        return found
    for name in os.listdir(found):
        beside = os.path.join(os.path.dirname(found), name)
        if not os.path.lexists(beside):
            os.symlink(os.path.abspath(os.path.join(found, name)), beside)
    if not fname:
        return found
    if not untar:
        archive = os.path.join(os.path.dirname(found), fname)
        return archive if os.path.isfile(archive) else found
    inner = os.path.join(found, fname)
    return inner if os.path.isdir(inner) else found


class DatasetCreatorOfTensors(DatasetCreator):
    """``tf.keras.utils.experimental.DatasetCreator``: makes the dataset of each worker.

    Args:
        dataset_fn: takes an ``InputContext`` and returns a batched ``tf.data.Dataset``.
        input_options: as of drumline's.

    Raises:
        TypeError: if ``dataset_fn`` cannot be called.
    """

    def __init__(self, dataset_fn: Callable[..., Any], input_options: Any = None):
        made = from_core(dataset_fn) if callable(dataset_fn) else dataset_fn
        super().__init__(made, input_options)


DatasetCreatorOfTensors.__name__ = DatasetCreatorOfTensors.__qualname__ = "DatasetCreator"
