"""The program: from flags to a run, and its lines."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

import drumline as dl
from drumline.cnn import consistency, idle_flags, inputs, models, optimizers
from drumline.cnn.inputs.cifar10 import FOLDER as CIFAR_FOLDER
from drumline.cnn.loop.evaluation import Evaluation
from drumline.cnn.loop.reporting import BenchmarkLog
from drumline.cnn.loop.training import BenchmarkLoop, RunCheckpoints, RunPlan, RunStatistics
from drumline.cnn.models.learning_rates import resnet_imagenet
from drumline.cnn.updates import hosts, modes, parameter_servers
from drumline.cnn.updates.steps import LossOptions, TrainingStep

DEFAULT_BATCHES = 100
EXAMPLES = {
    "imagenet": {"train": 1_281_167, "validation": 50_000},
    "cifar10": {"train": 50_000, "validation": 10_000},
}
"""In an epoch of each dataset."""


_INPUT_FLAGS = (
    "distortions",
    "resize_method",
    "distort_color_in_yiq",
    "fuse_decode_and_crop",
    "datasets_use_prefetch",
    "datasets_num_private_threads",
    "datasets_use_caching",
    "datasets_repeat_cached_sample",
    "datasets_parallel_interleave_cycle_length",
    "datasets_parallel_interleave_prefetch",
    "datasets_sloppy_parallel_interleave",
)
"""Flags that are options of inputs under the same name."""

_READERS = {"imagenet": inputs.imagenet, "cifar10": inputs.cifar10}


class BenchmarkRun:
    """A run of the benchmark.

    Args:
        flags: the command line's, of `drumline.cnn.flags`.
        say: prints a line.

    Attributes:
        remarks: a line for each flag that has no effect beside the others.

    Raises:
        ValueError: if flags do not go together, or name what there is not.

    Example:
        >>> from drumline.cnn import flags, program
        >>> given = flags.parse(["--model=trivial", "--num_batches=2", "--batch_size=2"])
        >>> program.BenchmarkRun(given, say=lambda line: None).run().num_steps  # doctest: +SKIP
        2
    """

    def __init__(self, flags: Any, say: Callable[[str], None] | None = None) -> None:
        flags = hosts.with_launcher(flags)
        consistency.check(flags)
        self._flags = flags
        self._say = say or _flushed
        self._dataset = dataset_of(flags)
        self._model = models.find(flags.model, self._dataset)
        self._per_device = flags.batch_size or self._model.batch_size
        self._local_batch = self._per_device * flags.num_gpus
        self._mode_name = _mode_name(flags)
        self._rate(self._local_batch)
        self.remarks = idle_flags.remarks(flags, self._dataset, self._scales_its_rate)

    @property
    def has_servers(self) -> bool:
        """Whether variables live on parameter servers of other processes."""
        return modes.has_servers(self._flags)

    @property
    def _scales_its_rate(self) -> bool:
        """Whether the model's rate is in proportion to the batch, from ``--resnet_base_lr`` on."""
        return self._model.schedule is resnet_imagenet

    def run(self) -> RunStatistics | None:
        """Run what the flags ask for.

        Returns:
            What a training, or its forward part, found; None of an evaluation.
        """
        flags = self._flags
        if modes.is_served(flags):
            parameter_servers.serve(flags, self._say)
            return None
        if flags.job_name == "controller":
            self._say("Workers need no controller here: worker 0 shows what it would.")
            return None
        mode = modes.mode_of(flags, self._say)
        keras.utils.set_random_seed(flags.tf_random_seed)
        batch = self._local_batch * mode.num_workers
        subset = "validation" if flags.eval else "train"
        batches, epochs = self._counts(batch, subset, flags.num_batches, flags.num_epochs)
        with mode.strategy.scope():
            model = models.build(
                flags.model,
                dataset=self._dataset,
                data_format=flags.data_format,
                dtype=policy_of(flags),
            )
            # Workers that run apart each update by themselves, from their own rows.
            rate = self._rate(batch if flags.cross_replica_sync else self._local_batch)
            optimizer = None
            if not (flags.eval or flags.forward_only):
                optimizer = self._optimizer(rate)
            saver = RunCheckpoints(flags.train_dir, model, optimizer, flags.max_ckpts_to_keep)
        self._print_info(mode, batches, epochs)
        log = self._log(mode, batches, epochs)
        evaluation = self._evaluation(mode, model, saver, log)
        if flags.eval:
            assert evaluation is not None
            self._evaluate_checkpoints(evaluation, saver)
            return None
        if found := saver.restore() or saver.begin_with(flags.backbone_model_path):
            self._say(f"Successfully loaded model from {found}.")
        options = LossOptions(
            batch_size=batch,
            weight_decay=flags.weight_decay or 0.0,
            loss_scale=loss_scale_of(flags),
            accuracies=flags.print_training_accuracy or flags.forward_only,
            travels_in=_travel_type(flags),
        )
        step, input_batches = self._step(mode, model, optimizer, options)
        plan = self._plan(batches, batch, evaluation)
        summaries = None
        if plan.summary_steps and flags.train_dir and mode.is_chief:
            summaries = dl.summary.create_file_writer(flags.train_dir)
        loop = BenchmarkLoop(
            step,
            input_batches,
            plan,
            saver,
            num_workers=mode.num_workers,
            is_chief=mode.is_chief,
            say=self._say,
            log=log,
            summaries=summaries,
            learning_rate=(
                None
                if optimizer is None or summaries is None
                else self._rates(mode, rate, optimizer)
            ),
            evaluate=None if evaluation is None else evaluation.run,
        )
        start = int(saver.step.value)
        try:
            found_out = loop.run()
        finally:
            step.close()
        if evaluation is not None and not evaluation.reached(flags.stop_at_top_1_accuracy):
            at = start + found_out.num_steps
            self._say(f"Running final evaluation at global_step {at}")
            evaluation.run(at)
        return found_out

    def _step(
        self,
        mode: modes.Mode,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer | None,
        options: LossOptions,
    ) -> tuple[TrainingStep, Iterator[Any]]:
        """The step of the mode, and its batches."""
        strategy = mode.strategy
        if isinstance(strategy, dl.distribute.ParameterServerStrategy):
            # A worker's gradients are those of the mean over its own batch.
            alone = dataclasses.replace(options, batch_size=self._local_batch)
            served = parameter_servers.ServerStep(
                strategy,
                model,
                optimizer,
                alone,
                self._worker_dataset(mode),
                devices=len(mode.devices),
            )
            for connection in mode.connections:
                connection.close()  # workers and servers know this leader by others now
            return served, served.batches()
        step = TrainingStep(
            strategy,
            model,
            optimizer,
            options,
            independent=mode.independent,
            delayed=mode.delayed,
        )
        return step, self._batches(mode, "train")

    def _worker_dataset(self, mode: modes.Mode) -> Callable[[Any], dl.data.Dataset]:
        """From an input context to the batches of a worker."""
        flags, options = self._flags, self._input_options(mode, self._local_batch)
        if flags.data_dir is None:
            made = inputs.synthetic(dataclasses.replace(options, shard_count=1, shard_index=0))
            batch = parameter_servers.synthetic_dataset((made.images, made.labels))
            return lambda context: batch
        read = _READERS[self._dataset]
        directory = flags.data_dir

        def dataset(context: Any) -> dl.data.Dataset:
            own = dataclasses.replace(options, shard_index=context.input_pipeline_id)
            return read(directory, "train", own)

        return dataset

    def _counts(
        self, batch: int, subset: str, num_batches: int | None, num_epochs: float | None
    ) -> tuple[int, float]:
        """How many steps there are, and how many epochs that is."""
        examples = EXAMPLES[self._dataset][subset]
        if num_epochs:
            num_batches = -(-int(num_epochs * examples) // batch)
        number = num_batches or DEFAULT_BATCHES
        return number, number * batch / examples

    def _rate(self, batch: int) -> optimizers.LearningRate:
        base = self._flags.resnet_base_lr if self._scales_its_rate else None
        own = self._model.learning_rate_for(batch, base)
        examples = EXAMPLES[self._dataset]["train"]
        return optimizers.learning_rate_of(self._flags, own, examples, batch)

    def _rates(
        self,
        mode: modes.Mode,
        rate: optimizers.LearningRate,
        optimizer: keras.optimizers.Optimizer,
    ) -> Callable[[int], float]:
        """From the steps that this run has made, its warm-up's too, to the rate of the next."""
        former = int(optimizer.iterations.value)
        updates = 1 if self._flags.cross_replica_sync else mode.num_workers
        return lambda steps: float(rate(np.int32(former + steps * updates)))

    def _optimizer(self, rate: optimizers.LearningRate) -> keras.optimizers.Optimizer:
        flags = self._flags
        made = optimizers.optimizer_of(flags, rate)
        if flags.fp16_enable_auto_loss_scale:
            return keras.optimizers.LossScaleOptimizer(
                made,
                initial_scale=flags.fp16_loss_scale or optimizers.LOSS_SCALE,
                dynamic_growth_steps=flags.fp16_inc_loss_scale_every_n,
            )
        return made

    def _plan(self, batches: int, batch: int, evaluation: Evaluation | None) -> RunPlan:
        flags = self._flags
        warmup = 10 if flags.num_warmup_batches is None else flags.num_warmup_batches
        if flags.autotune_threshold and flags.num_warmup_batches is None:
            warmup = max(warmup, 5 * flags.autotune_threshold**2)
        return RunPlan(
            num_batches=batches,
            num_warmup_batches=warmup,
            images=batch,
            display_every=flags.display_every,
            loss=flags.loss_type_to_report,
            accuracies=flags.print_training_accuracy or flags.forward_only,
            ewma=flags.display_perf_ewma,
            trace_file=flags.trace_file,
            save_steps=flags.save_model_steps,
            save_seconds=flags.save_model_secs,
            summary_steps=flags.save_summaries_steps if flags.summary_verbosity else 0,
            summary_verbosity=1 if flags.forward_only else flags.summary_verbosity,
            summary_images=flags.data_dir is not None and not modes.has_servers(flags),
            evaluate_after=self._evaluate_after(batches, batch),
            stop_at=flags.stop_at_top_1_accuracy,
            totals=evaluation is None,
        )

    def _evaluate_after(self, batches: int, batch: int) -> Callable[[int], bool]:
        flags = self._flags
        every = flags.eval_during_training_every_n_steps
        if every:
            return lambda step: step % every == 0
        examples = EXAMPLES[self._dataset]["train"]
        epochs = [float(each) for each in flags.eval_during_training_at_specified_epochs]
        if flags.eval_during_training_every_n_epochs:
            between = flags.eval_during_training_every_n_epochs
            epochs = list(np.arange(between, batches * batch / examples, between))
        at = {-(-int(epoch * examples) // batch) for epoch in epochs}
        at |= {int(step) for step in flags.eval_during_training_at_specified_steps}
        return lambda step: step in at

    def _evaluation(
        self, mode: modes.Mode, model: keras.Model, saver: RunCheckpoints, log: BenchmarkLog | None
    ) -> Evaluation | None:
        flags = self._flags
        if not flags.eval and self._mode_name != "training + evaluation":
            return None
        per_device = flags.eval_batch_size or self._per_device
        batch = per_device * flags.num_gpus * mode.num_workers
        given = flags.num_eval_batches or flags.num_eval_epochs
        wanted = (
            (flags.num_eval_batches, flags.num_eval_epochs)
            if given
            else (flags.num_batches, flags.num_epochs)
        )
        batches, _ = self._counts(batch, "validation", *wanted)
        writer = None
        if flags.eval_dir and flags.train_dir and mode.is_chief and flags.eval:
            writer = dl.summary.create_file_writer(flags.eval_dir)
        return Evaluation(
            mode.strategy,
            model,
            lambda: self._batches(mode, "validation", per_device),
            batches,
            batch,
            say=self._say,
            display_every=flags.display_every,
            totals=bool(flags.eval),
            summaries=writer,
            log=log,
        )

    def _evaluate_checkpoints(self, evaluation: Evaluation, saver: RunCheckpoints) -> None:
        """Evaluate the latest checkpoint: once, or again and again."""
        flags = self._flags
        while True:
            found = saver.restore()
            if found is None:
                self._say(f"Checkpoint not found in {flags.train_dir}")
            else:
                self._say(f"Successfully loaded model from {found}.")
                evaluation.run(int(saver.step.value))
            if flags.eval_interval_secs <= 0:
                return
            time.sleep(flags.eval_interval_secs)

    def _batches(
        self, mode: modes.Mode, split: str, per_device: int | None = None
    ) -> Iterator[Any]:
        """Batches without an end, each replica's part on its device."""
        flags, strategy = self._flags, mode.strategy
        options = self._input_options(mode, per_device or self._per_device)
        if flags.data_dir is None:
            return _synthetic(strategy, options)
        read = _READERS[self._dataset]
        return iter(
            strategy.distribute_datasets_from_function(
                lambda context: read(flags.data_dir, split, options)
            )
        )

    def _input_options(self, mode: modes.Mode, batch_size: int) -> inputs.ImageInputOptions:
        flags = self._flags
        # A worker of parameter servers takes the rows of all its devices as one element.
        elements = 1 if modes.has_servers(flags) else flags.num_gpus
        return inputs.ImageInputOptions(
            batch_size=batch_size,
            image_size=(self._model.image_size, self._model.image_size),
            dtype=compute_type_of(flags),
            num_classes=models.NUM_CLASSES[self._dataset],
            match_mlperf=flags.ml_perf,
            seed=flags.tf_random_seed,
            shard_count=mode.num_workers,
            shard_index=flags.task_index if mode.num_workers > 1 else 0,
            datasets_prefetch_buffer_size=flags.datasets_prefetch_buffer_size * elements,
            multi_device_iterator_max_buffer_size=(
                flags.multi_device_iterator_max_buffer_size * elements
            ),
            **{name: getattr(flags, name) for name in _INPUT_FLAGS},
        )

    def _print_info(self, mode: modes.Mode, batches: int, epochs: float) -> None:
        """The header, as the original prints it."""
        flags = self._flags
        synthetic = "" if flags.data_dir else " (synthetic)"
        single = flags.variable_update == "distributed_all_reduce"
        lines = {
            "Model": flags.model,
            "Dataset": f"{self._dataset}{synthetic}",
            "Mode": self._mode_name,
            "SingleSess": single,
            "Batch size": f"{self._local_batch * mode.num_workers} global",
            "": f"{self._per_device} per device",
            "Num batches": batches,
            "Num epochs": f"{epochs:.2f}",
            "Devices": list(mode.devices),
            "NUMA bind": flags.use_numa_affinity,
            "Data format": flags.data_format,
            "Optimizer": flags.optimizer,
            "Variables": flags.variable_update,
        }
        if mode.all_reduce is not None:
            lines["AllReduce"] = mode.all_reduce
        if flags.job_name:
            lines["Sync"] = flags.cross_replica_sync
        if flags.staged_vars:
            lines["Staged vars"] = flags.staged_vars
        for name, value in lines.items():
            self._say(f"{name + ':' if name else '':<13}{value}")
        self._say("=" * 10)

    def _log(self, mode: modes.Mode, batches: int, epochs: float) -> BenchmarkLog | None:
        flags = self._flags
        if flags.benchmark_log_dir is None or not mode.is_chief:
            return None
        log = BenchmarkLog(flags.benchmark_log_dir)
        synthetic = "" if flags.data_dir else " (synthetic)"
        log.run_info(
            flags.model,
            f"{self._dataset}{synthetic}",
            {
                "model": flags.model,
                "dataset": f"{self._dataset}{synthetic}",
                "mode": self._mode_name,
                "single_sess": flags.variable_update == "distributed_all_reduce",
                "devices": list(mode.devices),
                "batch_size": self._local_batch,
                "batch_size_per_device": self._per_device,
                "num_batches": batches,
                "num_epochs": epochs,
                "data_format": flags.data_format,
                "optimizer": flags.optimizer,
                "variable_update": flags.variable_update,
            },
            devices=mode.devices,
            versions={
                name: importlib.metadata.version(name) for name in ("drumline", "jax", "keras")
            },
            test_id=flags.benchmark_test_id,
        )
        return log


def _flushed(line: str) -> None:
    print(line, flush=True)


def dataset_of(flags: Any) -> str:
    """The name of the dataset: that of the flag, or the one that the directory's name has in it.

    Raises:
        ValueError: if the flag names another, or the directory none of them.
    """
    if flags.data_name:
        if flags.data_name not in EXAMPLES:
            raise ValueError(f"--data_name={flags.data_name}: there are {' and '.join(EXAMPLES)}.")
        return str(flags.data_name)
    if flags.data_dir is None:
        return "imagenet"
    found = [name for name in EXAMPLES if name in flags.data_dir.lower()]
    # Files say what they are where the directory's name does not.
    if not found and any(
        Path(flags.data_dir, folder, "data_batch_1").is_file() for folder in ("", CIFAR_FOLDER)
    ):
        return "cifar10"
    if not found and any(Path(flags.data_dir).glob("*-*-of-*")):
        return "imagenet"
    if len(found) != 1:
        raise ValueError(
            f"--data_dir={flags.data_dir}: whose images are these? Say --data_name=imagenet or "
            "--data_name=cifar10."
        )
    return found[0]


def _synthetic(
    strategy: dl.distribute.Strategy, options: inputs.ImageInputOptions
) -> Iterator[Any]:
    """The same batch for ever, each replica's part made once on its device."""

    def part(context: Any) -> tuple[Any, Any]:
        replica = context.replica_id_in_sync_group
        own = dataclasses.replace(
            options, seed=options.seed + replica, shard_count=1, shard_index=0
        )
        made = inputs.synthetic(own, strategy.replica_devices[replica])
        return made.images, made.labels

    return itertools.repeat(strategy.experimental_distribute_values_from_function(part))


def _mode_name(flags: Any) -> str:
    if flags.eval:
        return "evaluation"
    if flags.forward_only:
        return "forward-only"
    if any(getattr(flags, name) for name in consistency.EVALUATIONS):
        return "training + evaluation"
    return "training"


def compute_type_of(flags: Any) -> str:
    """The dtype in which layers compute."""
    return "float16" if flags.use_fp16 else "bfloat16" if flags.use_bf16 else "float32"


def policy_of(flags: Any) -> str:
    """The dtype policy of the model: 16 bits to compute in, 32 for variables unless said."""
    compute = compute_type_of(flags)
    if compute == "float32" or (compute == "float16" and flags.fp16_vars):
        return compute
    return f"mixed_{compute}"


def loss_scale_of(flags: Any) -> float:
    """What the loss is multiplied by; 1 where the optimizer does, or nothing has to."""
    if not flags.use_fp16 or flags.fp16_enable_auto_loss_scale:
        return 1.0
    return float(flags.fp16_loss_scale or optimizers.LOSS_SCALE)


def _travel_type(flags: Any) -> str | None:
    """The dtype in which gradients are summed by an all-reduce; None for their own."""
    compute = compute_type_of(flags)
    if compute == "float32" or flags.variable_update not in consistency.REDUCING:
        return None
    return compute if flags.compact_gradient_transfer else None
