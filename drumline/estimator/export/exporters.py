"""Exporters: what an `EvalSpec` does with a model after each evaluation."""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from drumline.estimator.experimental.early_stopping import read_event_files


class Exporter:
    """What is done with a model after an evaluation, as ``tf.estimator.Exporter``: a base class."""

    @property
    def name(self) -> str:
        """Of the directory in ``model_dir/export``."""
        raise NotImplementedError

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Export a checkpoint, or not.

        Args:
            estimator: the `Estimator`.
            export_path: a directory for this exporter's exports.
            checkpoint_path: what was evaluated.
            eval_result: what the evaluation gave.
            is_the_final_export: whether training has ended.

        Returns:
            Where the export is; None without one.
        """
        raise NotImplementedError


class _SavedModels(Exporter):
    """Writes models by `Estimator.export_saved_model`."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Any,
        assets_extra: Any,
        as_text: bool,
        exports_to_keep: int | None = None,
    ):
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError(
                f"`exports_to_keep`, if provided, must be a positive number. Got {exports_to_keep}"
            )
        self._name = name
        self._receiver_fn = serving_input_receiver_fn
        self._options = {"assets_extra": assets_extra, "as_text": as_text}
        self._keep = exports_to_keep

    @property
    def name(self) -> str:
        return self._name

    def _write(self, estimator: Any, export_path: str, checkpoint_path: str) -> Any:
        made = estimator.export_saved_model(
            export_path, self._receiver_fn, checkpoint_path=checkpoint_path, **self._options
        )
        if self._keep is not None:
            for old in versions(export_path)[: -self._keep]:
                shutil.rmtree(old)
        return made


class LatestExporter(_SavedModels):
    """Exports after each evaluation, as ``tf.estimator.LatestExporter``.

    Args:
        name: of the directory in ``model_dir/export``.
        serving_input_receiver_fn: see `Estimator.export_saved_model`.
        assets_extra: see `Estimator.export_saved_model`.
        as_text: must be False.
        exports_to_keep: how many of the newest exports are kept; None for all.

    Raises:
        ValueError: ``exports_to_keep`` is not positive.

    Example:
        >>> dl.estimator.LatestExporter("latest", lambda: None, exports_to_keep=2).name
        'latest'
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Any,
        assets_extra: Any = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        return self._write(estimator, export_path, checkpoint_path)


class FinalExporter(_SavedModels):
    """Exports once training has ended, as ``tf.estimator.FinalExporter``.

    Args:
        name: of the directory in ``model_dir/export``.
        serving_input_receiver_fn: see `Estimator.export_saved_model`.
        assets_extra: see `Estimator.export_saved_model`.
        as_text: must be False.

    Example:
        >>> dl.estimator.FinalExporter("final", lambda: None).name
        'final'
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Any,
        assets_extra: Any = None,
        as_text: bool = False,
    ):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        if not is_the_final_export:
            return None
        return self._write(estimator, export_path, checkpoint_path)


def _smaller_loss(best_eval_result: Any, current_eval_result: Any) -> bool:
    """Whether the current loss is smaller than the best one."""
    for name, found in (("best", best_eval_result), ("current", current_eval_result)):
        if not found or "loss" not in found:
            raise ValueError(f"{name}_eval_result cannot be empty or no loss is found in it.")
    return bool(best_eval_result["loss"] > current_eval_result["loss"])


class BestExporter(_SavedModels):
    """Exports when an evaluation is the best one so far, as ``tf.estimator.BestExporter``.

    Args:
        name: of the directory in ``model_dir/export``.
        serving_input_receiver_fn: see `Estimator.export_saved_model`.
        event_file_pattern: of the event files in ``model_dir`` whose evaluations count, those of
            former runs; None for none.
        compare_fn: a function of ``best_eval_result`` and ``current_eval_result``, whether the
            current one is better; by default its loss is smaller.
        assets_extra: see `Estimator.export_saved_model`.
        as_text: must be False.
        exports_to_keep: how many of the newest exports are kept; None for all.

    Raises:
        ValueError: ``exports_to_keep`` is not positive, or compare_fn takes something else.

    Example:
        >>> dl.estimator.BestExporter(serving_input_receiver_fn=lambda: None).name
        'best_exporter'
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Any = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Callable[..., bool] = _smaller_loss,
        assets_extra: Any = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        if compare_fn is None:
            raise ValueError("`compare_fn` must not be None.")
        names = set(inspect.signature(compare_fn).parameters)
        if names != {"best_eval_result", "current_eval_result"}:
            raise ValueError(
                f"compare_fn ({compare_fn}) must take best_eval_result and current_eval_result, "
                f"not {sorted(names)}"
            )
        self._better = compare_fn
        self._pattern = event_file_pattern
        self._model_dir: str | None = None
        self._best: Mapping[str, Any] | None = None
        self._exported = False

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        if self._model_dir != estimator.model_dir and self._pattern:
            self._model_dir = estimator.model_dir
            self._best = self._best_of(os.path.join(estimator.model_dir, self._pattern))
        is_best = (
            self._best is None
            or not self._exported
            or self._better(best_eval_result=self._best, current_eval_result=eval_result)
        )
        if not is_best:
            return None
        self._best, self._exported = eval_result, True
        return self._write(estimator, export_path, checkpoint_path)

    def _best_of(self, pattern: str) -> Mapping[str, Any] | None:
        """The best of the evaluations in event files; None if there are none."""
        best: Mapping[str, Any] | None = None
        for found in read_event_files(pattern).values():
            if best is None or self._better(best_eval_result=best, current_eval_result=found):
                best = found
        return best


def versions(export_dir_base: str) -> list[Path]:
    """The exports in a directory, the oldest first."""
    found = [
        path
        for path in Path(export_dir_base).glob("*")
        if len(path.name) == 10 and path.name.isdigit()
    ]
    return sorted(found)
