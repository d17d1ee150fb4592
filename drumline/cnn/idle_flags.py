"""Flags that were given and have no effect beside the others: each is named, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from drumline.cnn.consistency import EVALUATIONS, REDUCING
from drumline.cnn.flags import FLAGS

_RATES = (
    "init_learning_rate",
    "piecewise_learning_rate_schedule",
    "num_epochs_per_decay",
    "learning_rate_decay_factor",
    "num_learning_rate_warmup_epochs",
    "minimum_learning_rate",
    "resnet_base_lr",
)
_OF_OPTIMIZERS = {
    "momentum": ("momentum",),
    "rmsprop": ("rmsprop_decay", "rmsprop_momentum", "rmsprop_epsilon"),
    "adam": ("adam_beta1", "adam_beta2", "adam_epsilon"),
}
_LOSS_SCALES = ("fp16_loss_scale", "fp16_enable_auto_loss_scale", "fp16_inc_loss_scale_every_n")
_TRAINING = (
    "optimizer",
    *_RATES,
    *(name for names in _OF_OPTIMIZERS.values() for name in names),
    *_LOSS_SCALES,
    "gradient_clip",
    "weight_decay",
    "loss_type_to_report",
    "print_training_accuracy",
    "variable_consistency",
    "staged_vars",
    "compact_gradient_transfer",
)
_STEPS = (
    "num_warmup_batches",
    "autotune_threshold",
    "display_perf_ewma",
    "trace_file",
    "save_model_secs",
    "save_model_steps",
    "max_ckpts_to_keep",
    "summary_verbosity",
    "save_summaries_steps",
    "backbone_model_path",
    "distortions",
    "fuse_decode_and_crop",
)
_FILES = (
    "resize_method",
    "distort_color_in_yiq",
    "fuse_decode_and_crop",
    "datasets_use_caching",
    "datasets_parallel_interleave_cycle_length",
    "datasets_parallel_interleave_prefetch",
)
_IMAGES = (
    *_FILES,
    "distortions",
    "ml_perf",
    "datasets_repeat_cached_sample",
    "datasets_use_prefetch",
    "datasets_prefetch_buffer_size",
    "multi_device_iterator_max_buffer_size",
    "datasets_num_private_threads",
    "datasets_sloppy_parallel_interleave",
)

Rule = tuple[tuple[str, ...], Callable[[Any], Any], str]
"""Flags, whether they have no effect beside the others, and why."""


def _evaluates(flags: Any) -> bool:
    return bool(flags.eval or any(getattr(flags, name) for name in EVALUATIONS))


def _sums_by_shuffle(flags: Any) -> bool:
    """Whether ``--local_parameter_device`` says who sums the gradients of copies."""
    return (
        flags.variable_update == "replicated"
        and not flags.use_nccl
        and not flags.all_reduce_spec
        and not flags.hierarchical_copy
    )


def _holds_variables(flags: Any) -> bool:
    return flags.variable_update == "parameter_server" and not flags.job_name


_RULES: tuple[Rule, ...] = (
    (_TRAINING, lambda flags: flags.eval, "--eval trains nothing"),
    (_STEPS, lambda flags: flags.eval, "--eval runs no step of a training"),
    (_TRAINING, lambda flags: flags.forward_only, "--forward_only trains nothing"),
    *(
        (
            names,
            lambda flags, name=name: flags.optimizer != name,
            f"it is of --optimizer={name} alone",
        )
        for name, names in _OF_OPTIMIZERS.items()
    ),
    (
        ("resnet_base_lr",),
        lambda flags: (
            flags.init_learning_rate is not None or flags.piecewise_learning_rate_schedule
        ),
        "--init_learning_rate or --piecewise_learning_rate_schedule says the rate",
    ),
    (_LOSS_SCALES, lambda flags: not flags.use_fp16, "it is of --use_fp16 alone"),
    (
        ("fp16_inc_loss_scale_every_n",),
        lambda flags: not flags.fp16_enable_auto_loss_scale,
        "it is of --fp16_enable_auto_loss_scale alone",
    ),
    (
        ("compact_gradient_transfer",),
        lambda flags: (
            not (flags.use_fp16 or flags.use_bf16) or flags.variable_update not in REDUCING
        ),
        "no 16-bit gradient is summed by an all-reduce",
    ),
    (("eval_interval_secs", "eval_dir"), lambda flags: not flags.eval, "it is of --eval alone"),
    (
        ("eval_batch_size", "num_eval_batches", "num_eval_epochs"),
        lambda flags: not _evaluates(flags),
        f"nothing is evaluated: give --eval or --{EVALUATIONS[0]}",
    ),
    (
        ("autotune_threshold",),
        lambda flags: flags.num_warmup_batches is not None,
        "--num_warmup_batches says how many steps the warm-up has",
    ),
    (_IMAGES, lambda flags: not flags.data_dir, "images are synthetic: give --data_dir"),
    (
        ("distort_color_in_yiq",),
        lambda flags: not flags.distortions,
        "colors are changed by --distortions alone",
    ),
    (
        ("datasets_prefetch_buffer_size", "multi_device_iterator_max_buffer_size"),
        lambda flags: not flags.datasets_use_prefetch,
        "--nodatasets_use_prefetch makes no batch ahead",
    ),
    (
        ("datasets_use_caching",),
        lambda flags: flags.datasets_repeat_cached_sample,
        "--datasets_repeat_cached_sample holds its one record in memory",
    ),
    (
        ("local_parameter_device",),
        lambda flags: not (_holds_variables(flags) or _sums_by_shuffle(flags)),
        "it is of --variable_update=parameter_server on one host, and of --nouse_nccl",
    ),
    (
        ("use_nccl",),
        lambda flags: not _sums_by_shuffle(flags),
        "it is of --variable_update=replicated without --all_reduce_spec and --hierarchical_copy",
    ),
    (
        ("agg_small_grads_max_group",),
        lambda flags: not flags.agg_small_grads_max_bytes,
        "--agg_small_grads_max_bytes says which gradients are put together",
    ),
    (
        ("gpu_indices",),
        lambda flags: flags.job_name,
        "over hosts the devices of a process are in their own order: set CUDA_VISIBLE_DEVICES",
    ),
    (("task_index",), lambda flags: not flags.job_name, "it is of --job_name alone"),
    (
        ("save_model_secs", "save_model_steps", "max_ckpts_to_keep"),
        lambda flags: not flags.train_dir,
        "there is no --train_dir to save in",
    ),
    (
        ("summary_verbosity", "save_summaries_steps"),
        lambda flags: (
            not (flags.summary_verbosity and flags.save_summaries_steps and flags.train_dir)
        ),
        "summaries need --summary_verbosity=1, --save_summaries_steps and --train_dir",
    ),
    (
        ("benchmark_test_id",),
        lambda flags: not flags.benchmark_log_dir,
        "there is no --benchmark_log_dir to write it in",
    ),
)


def remarks(flags: Any, dataset: str, scales_its_rate: bool) -> list[str]:
    """A line for each flag that was given and has no effect beside the others.

    A flag that has its default value is no matter.

    Args:
        flags: the command line's, checked by `drumline.cnn.consistency.check`.
        dataset: its name.
        scales_its_rate: whether the model has a rate in proportion to the batch, as ResNets.
    """
    given = [name for name, flag in FLAGS.items() if getattr(flags, name) != flag.default]
    idle = dict(_idle(flags, dataset, scales_its_rate))
    lines = [f"--{name} has no effect here: {idle[name]}." for name in given if name in idle]
    if flags.summary_verbosity > 1 and flags.forward_only and "summary_verbosity" not in idle:
        lines.append(
            f"--summary_verbosity={flags.summary_verbosity} is as 1 with --forward_only: there are "
            "no gradients."
        )
    return lines


def _idle(flags: Any, dataset: str, scales_its_rate: bool) -> Iterator[tuple[str, str]]:
    if dataset == "cifar10":
        yield from ((name, "CIFAR-10's images are in memory") for name in _FILES)
        yield "ml_perf", "it is of ImageNet alone"
    if not scales_its_rate:
        yield "resnet_base_lr", f"--model={flags.model} has a rate of its own"
    for names, has_no_effect, why in reversed(_RULES):
        if has_no_effect(flags):
            yield from ((name, why) for name in names)
