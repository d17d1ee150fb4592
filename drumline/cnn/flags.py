"""The command line: the flags of tf_cnn_benchmarks, what each is here, and how they are read.

The syntax is that of absl: ``--name=value``, ``--name value``, ``--name`` and ``--noname`` for
booleans, one or two dashes; of a flag that is given twice the later one counts. `--flagfile=PATH`
stands for the flags in a file, one a line.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from drumline.data.elements.errors import did_you_mean

Value = bool | int | float | str | list[str] | None


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag.

    Attributes:
        name: without dashes.
        kind: bool, int, float, str or list, of strings with commas between them.
        default: its value where it is not given.
        about: what it does.
        choices: the values that it may have; () for any.
        least: of a number.
        most: of a number.
        instead: of a flag that has no effect here: why, and what to use in its place.
    """

    name: str
    kind: type
    default: Value
    about: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    instead: str = ""


def _flag(name: str, default: Value, about: str, kind: type | None = None, **more: Any) -> Flag:
    return Flag(name, kind or type(default), default, about, **more)


def _without_effect(
    name: str, default: Value, instead: str, kind: type | None = None, **more: Any
) -> Flag:
    return Flag(name, kind or type(default), default, "no effect", instead=instead, **more)


_COMPILED = "XLA compiles every step here"
_NO_GRAPH = "there is no graph to write; `drumline plan` and JAX's lowered text show the program"
_MEMORY = "the memory of devices is XLA's: set XLA_PYTHON_CLIENT_MEM_FRACTION or its like"

GROUPS: dict[str, tuple[Flag, ...]] = {
    "What is run": (
        _flag(
            "model", "trivial", "the model, as `--help` lists them, or one of keras.applications"
        ),
        _flag("eval", False, "evaluate the latest checkpoint of --train_dir"),
        _flag("eval_interval_secs", 0, "evaluate again after so many seconds; 0: once", least=0),
        _flag(
            "eval_during_training_every_n_steps",
            None,
            "pause and evaluate after so many steps",
            int,
            least=1,
        ),
        _flag(
            "eval_during_training_every_n_epochs",
            None,
            "pause and evaluate after so many epochs",
            float,
            least=0,
        ),
        _flag("eval_during_training_at_specified_steps", [], "pause and evaluate at these steps"),
        _flag("eval_during_training_at_specified_epochs", [], "pause and evaluate at these epochs"),
        _flag("forward_only", False, "compute logits and accuracies, and train nothing"),
        _flag("print_training_accuracy", False, "show top-1 and top-5 of training batches"),
        _flag("batch_size", 0, "rows of a device; 0: the model's own", least=0),
        _flag("eval_batch_size", 0, "rows of a device in evaluation; 0: --batch_size", least=0),
        _flag("num_batches", None, "steps that are timed; 100 by default", int, least=1),
        _flag("num_eval_batches", None, "batches of an evaluation", int, least=1),
        _flag("num_epochs", None, "epochs, in the place of --num_batches", float, least=0),
        _flag("num_eval_epochs", None, "epochs of an evaluation", float, least=0),
        _flag(
            "stop_at_top_1_accuracy",
            None,
            "end when an evaluation finds so much, of 1",
            float,
            least=0,
            most=1,
        ),
        _flag("num_warmup_batches", None, "steps before those that are timed; 10", int, least=0),
        _flag("autotune_threshold", None, "five times its square are warm-up steps", int, least=1),
        _flag(
            "tf_random_seed",
            1234,
            "of weights, images and their order",
            least=0,
            most=2**32 - 1,
        ),
        _flag(
            "loss_type_to_report",
            "total_loss",
            "the loss that is shown: with weight decay, or without",
            choices=("base_loss", "total_loss"),
        ),
    ),
    "Devices": (
        _flag("num_gpus", 1, "devices that compute, on this host", least=1),
        _flag("gpu_indices", "", "which, as 0,2,1,3: the order of rings"),
        _flag("device", "gpu", "on which to compute", choices=("cpu", "gpu", "CPU", "GPU")),
        _flag("data_format", "NHWC", "of tensors in the model", choices=("NHWC", "NCHW")),
    ),
    "Images": (
        _flag("data_dir", None, "ImageNet's TFRecords or CIFAR-10's batches; else synthetic", str),
        _flag("data_name", None, "imagenet or cifar10; by default as --data_dir says", str),
        _flag(
            "resize_method",
            "bilinear",
            "of images",
            choices=("nearest", "bilinear", "bicubic", "area", "round_robin"),
        ),
        _flag("distortions", False, "distort colors, and windows of CIFAR-10, at random"),
        _flag("distort_color_in_yiq", True, "colors are turned in YIQ, not HSV"),
        _flag("fuse_decode_and_crop", True, "decode the window of a file alone"),
        _flag("ml_perf", False, "subtract channels' means, and use no objects' boxes"),
        _flag("datasets_repeat_cached_sample", False, "read one record, and repeat it for ever"),
        _flag("datasets_use_prefetch", True, "make batches ahead"),
        _flag(
            "datasets_prefetch_buffer_size",
            1,
            "how many batches of each device to make ahead",
            least=0,
        ),
        _flag("datasets_num_private_threads", None, "threads that prepare images", int, least=0),
        _flag("datasets_use_caching", False, "hold records in memory"),
        _flag(
            "datasets_parallel_interleave_cycle_length",
            None,
            "files that records come from by turns",
            int,
            least=1,
        ),
        _flag("datasets_sloppy_parallel_interleave", False, "a slow image seldom stops the others"),
        _flag("datasets_parallel_interleave_prefetch", None, "files read ahead", int, least=0),
        _flag("multi_device_iterator_max_buffer_size", 1, "batches more to make ahead", least=0),
    ),
    "How variables are updated": (
        _flag(
            "variable_update",
            "parameter_server",
            "the mode",
            choices=(
                "parameter_server",
                "replicated",
                "distributed_replicated",
                "independent",
                "distributed_all_reduce",
                "collective_all_reduce",
                "horovod",
            ),
        ),
        _flag(
            "local_parameter_device",
            "gpu",
            "where variables live in mode parameter_server",
            choices=("cpu", "gpu", "CPU", "GPU"),
        ),
        _flag("all_reduce_spec", None, "as nccl, xring#2, psgpu#4, pscpu:32k:xring", str),
        _flag("use_nccl", True, "without a spec: the platform's all-reduce, else a shuffle"),
        _flag("hierarchical_copy", False, "reduce in two levels of devices"),
        _flag("gradient_repacking", 0, "put small gradients together to so many packs", least=0),
        _flag("agg_small_grads_max_bytes", 0, "put gradients below this size together", least=0),
        _flag("agg_small_grads_max_group", 10, "so many at most", least=1),
        _flag("compact_gradient_transfer", True, "16-bit gradients travel as such"),
        _flag(
            "variable_consistency",
            "strong",
            "relaxed: gradients are applied a step later, and travel meanwhile",
            choices=("strong", "relaxed"),
        ),
        _flag("staged_vars", False, "the same in mode parameter_server"),
        _flag("cross_replica_sync", True, "workers of parameter servers step together"),
    ),
    "Hosts": (
        _flag("job_name", "", "what this process is", choices=("ps", "worker", "controller", "")),
        _flag("ps_hosts", "", "parameter servers, as HOST:PORT,HOST:PORT"),
        _flag("worker_hosts", "", "workers, as HOST:PORT,HOST:PORT"),
        _without_effect(
            "controller_host", None, "workers of distributed_all_reduce step together", str
        ),
        _flag("task_index", 0, "which of them this process is", least=0),
    ),
    "Optimizer and numbers": (
        _flag(
            "optimizer",
            "sgd",
            "what updates the variables",
            choices=("momentum", "sgd", "rmsprop", "adam"),
        ),
        _flag("init_learning_rate", None, "the first rate; by default the model's", float, least=0),
        _flag("piecewise_learning_rate_schedule", None, "as 0.3;10;0.1: rate;epoch;rate", str),
        _flag("num_epochs_per_decay", 0.0, "epochs from fall to fall of the rate", least=0),
        _flag("learning_rate_decay_factor", 0.0, "what the rate is multiplied by", least=0),
        _flag("num_learning_rate_warmup_epochs", 0.0, "epochs in which the rate rises", least=0),
        _flag("minimum_learning_rate", 0.0, "what it never falls below", least=0),
        _flag("resnet_base_lr", None, "of ResNets, at 256 rows", float, least=0),
        _flag("momentum", 0.9, "of --optimizer=momentum"),
        _flag("rmsprop_decay", 0.9, "of RMSProp's mean of squares"),
        _flag("rmsprop_momentum", 0.9, "of RMSProp"),
        _flag("rmsprop_epsilon", 1.0, "of RMSProp, under the root"),
        _flag("adam_beta1", 0.9, "of Adam"),
        _flag("adam_beta2", 0.999, "of Adam"),
        _flag("adam_epsilon", 1e-8, "of Adam"),
        _flag("gradient_clip", None, "the most of a gradient's element", float, least=0),
        _flag("weight_decay", 0.00004, "the factor of weights' squares in the loss", float),
        _flag("use_fp16", False, "compute in float16"),
        _flag("use_bf16", False, "compute in bfloat16, which needs no loss scale"),
        _flag("fp16_loss_scale", None, "what the loss is multiplied by; 128", float, least=1),
        _flag("fp16_vars", False, "hold variables in float16, too"),
        _flag("fp16_enable_auto_loss_scale", False, "find the loss scale"),
        _flag("fp16_inc_loss_scale_every_n", 1000, "steps until it grows", least=1),
    ),
    "What is shown and kept": (
        _flag("display_every", 10, "steps from line to line", least=1),
        _flag("display_perf_ewma", None, "weigh late steps by this much", float, least=0, most=1),
        _flag("train_dir", None, "checkpoints and summaries; what is there is continued", str),
        _flag("eval_dir", None, "summaries of --eval", str),
        _flag("backbone_model_path", None, "a checkpoint whose weights to begin with", str),
        _flag("save_model_secs", 0, "seconds from checkpoint to checkpoint", least=0),
        _flag("save_model_steps", None, "steps from checkpoint to checkpoint", int, least=1),
        _flag("max_ckpts_to_keep", 5, "checkpoints that are kept", least=1),
        _flag(
            "summary_verbosity",
            0,
            "0: no summaries; 1: of losses, rate, loss scale, speed; 2: of all gradients as well; "
            "3: of each weight and its gradient, and images of --data_dir, too",
            least=0,
            most=3,
        ),
        _flag("save_summaries_steps", 0, "steps from summary to summary", least=0),
        _flag("trace_file", "", "a Chrome trace of a step of the warm-up"),
        _flag("benchmark_log_dir", None, "benchmark_run.log and metric.log", str),
        _flag("benchmark_test_id", None, "what benchmark_run.log calls the run", str),
    ),
    "Without effect here": (
        _without_effect("xla", False, _COMPILED),
        _without_effect("xla_compile", False, _COMPILED),
        _without_effect("enable_optimizations", True, _COMPILED),
        _without_effect("rewriter_config", None, "XLA's options are those of XLA_FLAGS", str),
        _without_effect(
            "freeze_when_forward_only", False, "a step of --forward_only is compiled as it is"
        ),
        _without_effect("use_tf_layers", True, "layers are Keras's"),
        _without_effect("use_resource_vars", False, "variables are Keras's"),
        _without_effect("compute_lr_on_cpu", False, "the rate is part of the compiled step"),
        _without_effect("sparse_to_dense_grads", False, "these models have dense gradients"),
        _without_effect("single_l2_loss_op", False, "XLA joins the sums of squares"),
        _without_effect("sync_on_finish", False, "modes that reduce are in step"),
        _without_effect("batch_group_size", 1, "--datasets_prefetch_buffer_size does it"),
        _without_effect("use_datasets", True, "input is always of drumline.data"),
        _without_effect("input_preprocessor", "default", "--ml_perf has MLPerf's"),
        _without_effect("collect_eval_results_async", False, "it was of the SSD model alone"),
        _without_effect(
            "network_topology",
            "dgx1",
            "NCCL finds the topology by itself",
            choices=("dgx1", "gcp_v100"),
        ),
        _without_effect("allreduce_merge_scope", 1, "--gradient_repacking puts them together"),
        _without_effect("winograd_nonfused", True, "XLA chooses convolutions' algorithms"),
        _without_effect("batchnorm_persistent", True, "batch normalization is compiled"),
        _without_effect("gpu_thread_mode", "gpu_private", "no host thread runs operations"),
        _without_effect("per_gpu_thread_count", 0, "no host thread runs operations"),
        _without_effect("num_intra_threads", None, "give the process fewer processors", int),
        _without_effect("num_inter_threads", 0, "give the process fewer processors"),
        _without_effect("use_numa_affinity", False, "bind the process by numactl"),
        _without_effect("use_python32_barrier", False, "there is no such barrier"),
        _without_effect("server_protocol", "grpc", "hosts speak drumline's own protocol"),
        _without_effect("horovod_device", "", "--variable_update=collective_all_reduce"),
        _without_effect("force_gpu_compatible", False, _MEMORY),
        _without_effect("allow_growth", None, _MEMORY, bool),
        _without_effect("gpu_memory_frac_for_testing", 0.0, _MEMORY, least=0),
        _without_effect("use_unified_memory", None, _MEMORY, bool),
        _without_effect("timestamped_allocator", False, _MEMORY),
        _without_effect("gpu_kt_max_interval", 0, _MEMORY),
        _without_effect("gpu_kt_max_bytes", 0, _MEMORY),
        _without_effect("gpu_kt_max_pending", 0, _MEMORY),
        _without_effect("mkl", False, "XLA has kernels of its own for CPUs"),
        _without_effect("kmp_blocktime", 0, "OpenMP is not used"),
        _without_effect(
            "kmp_affinity", "granularity=fine,verbose,compact,1,0", "OpenMP is not used"
        ),
        _without_effect("kmp_settings", 1, "OpenMP is not used"),
        _without_effect(
            "trt_mode",
            "",
            "TensorRT takes TensorFlow's graphs; export by model.export",
            choices=("", "FP32", "FP16", "INT8"),
        ),
        _without_effect("trt_max_workspace_size_bytes", 4 << 30, "there is no TensorRT here"),
        _without_effect("use_chrome_trace_format", True, "traces are Chrome's always"),
        _without_effect("tfprof_file", None, "--trace_file, or dl.profile_steps()", str),
        _without_effect("graph_file", None, _NO_GRAPH, str),
        _without_effect("partitioned_graph_file_prefix", None, _NO_GRAPH, str),
        _without_effect("debugger", None, "dl.config.run_functions_eagerly and pdb", str),
        _without_effect("ml_perf_compliance_logging", False, "--benchmark_log_dir keeps figures"),
    ),
}
"""All flags, as ``--help`` groups them."""

FLAGS: dict[str, Flag] = {flag.name: flag for group in GROUPS.values() for flag in group}


class Flags(SimpleNamespace):
    """The values of all flags, as attributes.

    Attributes:
        remarks: a line for each flag that was given and has no effect here.
    """

    remarks: list[str]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no flag {name!r}")


def parse(arguments: Sequence[str]) -> Flags:
    """Read a command line.

    Args:
        arguments: without the program's name.

    Raises:
        ValueError: names what is no flag, with the nearest one, or a value that it cannot have.

    Example:
        >>> from drumline.cnn import flags
        >>> flags.parse(["--model=vgg16", "--nodistortions", "--batch_size", "32"]).batch_size
        32
    """
    given = _given(list(arguments), ())
    values = {name: flag.default for name, flag in FLAGS.items()} | given
    found = Flags(**{name: list(v) if isinstance(v, list) else v for name, v in values.items()})
    found.remarks = [
        f"--{name} has no effect here: {FLAGS[name].instead}."
        for name in given
        if FLAGS[name].instead
    ]
    return found


def _given(rest: list[str], files: tuple[Path, ...]) -> dict[str, Value]:
    """Read arguments, which come from the files, each named in the one before it."""
    given: dict[str, Value] = {}
    former: Flag | None = None
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("-") or argument in ("-", "--"):
            raise ValueError(_no_flag(argument, former))
        name, equals, text = argument.lstrip("-").partition("=")
        flag = None if name == "flagfile" else _find(name)
        if flag is not None and flag.kind is bool:
            given[flag.name] = _boolean(name, flag, text if equals else None)
            former = None if equals else flag
            continue
        former = None
        if not equals:
            if not rest:
                raise ValueError(f"--{name} needs a value: write --{name}=VALUE.")
            text = rest.pop(0)
        if flag is None:
            # A later one counts of a flag that is given twice, in the file or behind it.
            given |= _given(_in_file(text, files), (*files, Path(text).resolve()))
        else:
            given[flag.name] = value_of(flag, text)
    return given


def _no_flag(argument: str, former: Flag | None) -> str:
    if former is not None and argument.lower() in _TRUTHS:
        return (
            f"{argument!r} is no flag: --{former.name} takes a value behind an equals sign alone. "
            f"Write --{former.name}={argument}."
        )
    return f"{argument!r} is no flag: write --NAME=VALUE."


def _in_file(name: str, files: tuple[Path, ...]) -> list[str]:
    """The arguments in a file: one a line, as ``--name=value``; # and // begin a remark."""
    path = Path(name)
    if path.resolve() in files:
        chain = ", ".join(str(file) for file in files)
        raise ValueError(f"--flagfile={name}: it is read already, by way of {chain}.")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--flagfile={name}: it cannot be read: {error}.") from error
    stripped = (line.strip() for line in lines)
    return [line for line in stripped if line and not line.startswith(("#", "//"))]


def _find(name: str) -> Flag:
    """The flag of a name, or of that behind "no"."""
    if name in FLAGS:
        return FLAGS[name]
    negated = name.removeprefix("no")
    if negated != name and negated in FLAGS and FLAGS[negated].kind is bool:
        return FLAGS[negated]
    near = did_you_mean(name, FLAGS) or did_you_mean(negated, FLAGS)
    raise ValueError(f"There is no flag --{name}. {near}`--help` lists all of them.")


def _boolean(name: str, flag: Flag, text: str | None) -> bool:
    if name != flag.name:
        if text is not None:
            raise ValueError(f"--{name} takes no value: write --{flag.name}={text}.")
        return False
    return True if text is None else bool(value_of(flag, text))


_TRUTHS = {"true": True, "t": True, "1": True, "yes": True, "y": True}
_TRUTHS |= {"false": False, "f": False, "0": False, "no": False, "n": False}
_READERS: dict[type, Callable[[str], Value]] = {
    bool: lambda text: _TRUTHS[text.lower()],
    int: int,
    float: float,
    str: str,
    list: lambda text: [part.strip() for part in text.split(",") if part.strip()],
}
_NAMES: Mapping[type, str] = {bool: "true or false", int: "a whole number", float: "a number"}


def value_of(flag: Flag, text: str) -> Value:
    """Return the value that a text says.

    Raises:
        ValueError: if the flag cannot have it.
    """
    try:
        value = _READERS[flag.kind](text)
    except (ValueError, KeyError):
        raise ValueError(f"--{flag.name}={text}: it is {_NAMES[flag.kind]}.") from None
    if flag.choices and value not in flag.choices:
        near = did_you_mean(text, [choice for choice in flag.choices if choice])
        raise ValueError(
            f"--{flag.name}={text}: {near}It is one of {', '.join(filter(None, flag.choices))}."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"--{flag.name}={text}: it is a number that is finite.")
    if isinstance(value, (int, float)):
        if flag.least is not None and value < flag.least:
            raise ValueError(f"--{flag.name}={text}: it is {flag.least:g} or more.")
        if flag.most is not None and value > flag.most:
            raise ValueError(f"--{flag.name}={text}: it is {flag.most:g} or less.")
    return value


def help_text(models: Sequence[str] = ()) -> str:
    """Return what ``--help`` shows.

    Args:
        models: the names of models.
    """
    lines = ["drumline cnn: how fast this machine trains networks of images.", ""]
    lines += ["  drumline cnn --model=resnet50 --num_gpus=8 --variable_update=replicated", ""]
    if models:
        named = f"Models: {', '.join(models)}, and the names of keras.applications."
        lines += [*textwrap.wrap(named, 88), ""]
    lines += ["--flagfile=PATH stands for the flags in a file, one a line.", ""]
    for title, group in GROUPS.items():
        lines.append(f"{title}:")
        for flag in group:
            about = flag.instead or flag.about
            if flag.choices:
                about += f" ({', '.join(filter(None, flag.choices))})"
            elif not flag.instead and flag.default not in (None, "", []):
                about += f" ({str(flag.default).lower() if flag.kind is bool else flag.default})"
            name = f"  --{flag.name}"
            first, *others = textwrap.wrap(about, 50) or [""]
            if len(name) > 36:
                lines += [name, " " * 38 + first]
            else:
                lines.append(f"{name:<38}{first}")
            lines += [" " * 38 + other for other in others]
        lines.append("")
    return "\n".join(lines)
