"""Flags that do not go together, refused before anything is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LOCAL = ("parameter_server", "replicated", "independent")
"""Modes of a single host."""

OVER_HOSTS = ("collective_all_reduce", "distributed_all_reduce")
"""Modes of several hosts."""

REDUCING = ("replicated", *OVER_HOSTS)
"""Modes that sum gradients by an all-reduce."""

TRACED_BEFORE_END = 2
"""``--trace_file`` traces the step that is so many before the end of the warm-up."""

EVALUATIONS = (
    "eval_during_training_every_n_steps",
    "eval_during_training_every_n_epochs",
    "eval_during_training_at_specified_steps",
    "eval_during_training_at_specified_epochs",
)
"""At most one of them may be given."""


def check(flags: Any) -> None:
    """Refuse flags that do not go together.

    Args:
        flags: the command line's, of `drumline.cnn.flags`.

    Raises:
        ValueError: names the flags, and what to give instead.
    """
    _check_counts(flags)
    _check_work(flags)
    _check_cluster(flags)
    _check_mode(flags)
    _check_numbers(flags)


def _check_counts(flags: Any) -> None:
    if flags.num_gpus < 1:
        raise ValueError(f"--num_gpus={flags.num_gpus}: at least one device has to compute.")
    indices = [index for index in flags.gpu_indices.split(",") if index]
    if any(not index.strip().isdigit() for index in indices):
        raise ValueError(f"--gpu_indices={flags.gpu_indices}: write numbers, as 0,1,2,3.")
    if indices and len(indices) != flags.num_gpus:
        raise ValueError(
            f"--gpu_indices={flags.gpu_indices} names {len(indices)} devices, and --num_gpus is "
            f"{flags.num_gpus}."
        )
    if len(set(indices)) != len(indices):
        raise ValueError(f"--gpu_indices={flags.gpu_indices} names a device twice.")
    _exclude(flags, "num_batches", "num_epochs")
    _exclude(flags, "num_eval_batches", "num_eval_epochs")
    _exclude(flags, "save_model_secs", "save_model_steps")


def _check_work(flags: Any) -> None:
    _exclude(flags, "eval", "forward_only")
    _check_places(flags)
    warmup = flags.num_warmup_batches
    if flags.trace_file and warmup is not None and warmup < TRACED_BEFORE_END:
        raise ValueError(
            "--trace_file traces the last step but one of the warm-up: give --num_warmup_batches "
            f"of {TRACED_BEFORE_END} or more, not {warmup}."
        )
    given = [name for name in EVALUATIONS if getattr(flags, name)]
    if len(given) > 1:
        raise ValueError(f"--{given[0]} and --{given[1]} both say when to evaluate: leave out one.")
    if given:
        for other in ("eval", "forward_only", "job_name", "staged_vars"):
            _exclude(flags, given[0], other)
    if flags.stop_at_top_1_accuracy and not given:
        raise ValueError(
            "--stop_at_top_1_accuracy stops at what an evaluation finds: say when, by "
            f"--{EVALUATIONS[0]}."
        )
    if flags.eval and flags.train_dir is None:
        raise ValueError("--eval evaluates a checkpoint: say where it is, by --train_dir.")
    if flags.eval and flags.job_name and flags.variable_update not in OVER_HOSTS:
        raise ValueError(
            "--eval evaluates a checkpoint in one process: leave out --job_name, --ps_hosts and "
            "--worker_hosts."
        )
    if flags.forward_only and flags.freeze_when_forward_only and flags.train_dir is not None:
        raise ValueError("--freeze_when_forward_only writes no checkpoint: leave out --train_dir.")


def _check_places(flags: Any) -> None:
    """Refuse steps and epochs of an evaluation that are no numbers."""
    for name, kind in (("steps", int), ("epochs", float)):
        flag = f"eval_during_training_at_specified_{name}"
        for text in getattr(flags, flag):
            try:
                place = kind(text)
            except ValueError:
                place = -1
            if not 0 < place < float("inf"):
                raise ValueError(
                    f"--{flag}: {text!r} is none of the {name}: write numbers above 0, as 10,20."
                )


def _check_cluster(flags: Any) -> None:
    workers, servers = _hosts(flags, "worker_hosts"), _hosts(flags, "ps_hosts")
    if not flags.job_name:
        for name in ("worker_hosts", "ps_hosts", "controller_host"):
            if getattr(flags, name):
                raise ValueError(
                    f"--{name} says who takes part, and --job_name which of them this process is: "
                    "give it, as --job_name=worker --task_index=0."
                )
        return
    if not workers:
        raise ValueError(f"--job_name={flags.job_name} needs --worker_hosts=HOST:PORT,...")
    if flags.job_name == "controller":
        if flags.variable_update != "distributed_all_reduce":
            raise ValueError(
                "--job_name=controller is of --variable_update=distributed_all_reduce alone."
            )
        return
    if flags.job_name == "ps" and not servers:
        raise ValueError("--job_name=ps needs --ps_hosts=HOST:PORT,...")
    hosts = workers if flags.job_name == "worker" else servers
    if not 0 <= flags.task_index < len(hosts):
        raise ValueError(
            f"--task_index={flags.task_index}: --{flags.job_name}_hosts names "
            f"{len(hosts)} host(s), so it is 0 to {len(hosts) - 1}."
        )
    repeated = {host for host in [*workers, *servers] if [*workers, *servers].count(host) > 1}
    if repeated:
        raise ValueError(f"Two tasks have the address {min(repeated)}: each needs its own.")


def _check_mode(flags: Any) -> None:
    mode = flags.variable_update
    if mode == "horovod":
        raise ValueError(
            "--variable_update=horovod: give collective_all_reduce, which is a process a host and "
            "an all-reduce over all their devices, and needs no MPI."
        )
    if mode in OVER_HOSTS and not flags.job_name:
        raise ValueError(
            f"--variable_update={mode} is of several hosts: give --job_name, --task_index and "
            "--worker_hosts, or --variable_update=replicated for one host."
        )
    if mode in ("replicated", "independent") and flags.job_name:
        raise ValueError(
            f"--variable_update={mode} is of one host: give collective_all_reduce for copies that "
            "hosts keep alike, or leave out --job_name (or `drumline launch`, which gives it)."
        )
    if mode == "distributed_replicated" and not flags.job_name:
        raise ValueError(
            "--variable_update=distributed_replicated has its masters on parameter servers: give "
            "--job_name, --ps_hosts and --worker_hosts, or --variable_update=replicated."
        )
    if mode in ("parameter_server", "distributed_replicated") and flags.job_name:
        if flags.gpu_indices:
            raise ValueError(
                "--gpu_indices: a worker of parameter servers computes on the first --num_gpus "
                "devices that it sees. Leave it out, and choose by CUDA_VISIBLE_DEVICES."
            )
        if not _hosts(flags, "ps_hosts"):
            raise ValueError(
                f"--variable_update={mode} over hosts needs --ps_hosts=HOST:PORT,... (--ps of "
                "`drumline launch`)."
            )
    elif flags.ps_hosts and mode in OVER_HOSTS:
        raise ValueError(
            f"--variable_update={mode} has no parameter servers: leave out --ps_hosts, or give "
            "--variable_update=parameter_server."
        )
    if mode == "distributed_all_reduce" and not flags.all_reduce_spec:
        raise ValueError(f"--variable_update={mode} needs --all_reduce_spec, as xring.")
    if mode not in REDUCING and flags.all_reduce_spec:
        raise ValueError(
            f"--variable_update={mode} reduces nothing: leave out --all_reduce_spec, or give "
            "--variable_update=replicated."
        )
    if flags.hierarchical_copy and flags.num_gpus < 2:
        raise ValueError("--hierarchical_copy needs --num_gpus of 2 or more.")
    if flags.hierarchical_copy and mode != "replicated":
        raise ValueError("--hierarchical_copy is of --variable_update=replicated alone.")
    _exclude(flags, "hierarchical_copy", "all_reduce_spec")
    for name in ("gradient_repacking", "agg_small_grads_max_bytes"):
        if getattr(flags, name) and mode not in REDUCING:
            raise ValueError(f"--{name}: --variable_update={mode} sends every gradient by itself.")
    _exclude(flags, "gradient_repacking", "agg_small_grads_max_bytes")
    if flags.staged_vars and mode != "parameter_server":
        raise ValueError(
            f"--staged_vars is of --variable_update=parameter_server: for {mode} give "
            "--variable_consistency=relaxed, which delays gradients by a step as well."
        )
    if flags.staged_vars and flags.job_name:
        raise ValueError(
            "--staged_vars is of one host: with --nocross_replica_sync workers of parameter "
            "servers fetch the next step's weights while they compute as it is, and with "
            "--variable_update=collective_all_reduce --variable_consistency=relaxed gradients are "
            "applied a step later."
        )
    if flags.variable_consistency == "relaxed" and mode not in REDUCING:
        raise ValueError(
            f"--variable_consistency=relaxed is of modes that reduce gradients; for {mode} "
            + ("give --staged_vars." if mode == "parameter_server" else "leave it out.")
        )
    if not flags.cross_replica_sync and not (flags.job_name and mode == "parameter_server"):
        raise ValueError(
            "--cross_replica_sync=false lets workers run apart, which only those of "
            "--variable_update=parameter_server over several hosts can."
        )


def _check_numbers(flags: Any) -> None:
    _exclude(flags, "use_fp16", "use_bf16")
    if flags.gradient_clip == 0:
        raise ValueError("--gradient_clip=0 leaves no gradient: give more, or leave it out.")
    if flags.fp16_enable_auto_loss_scale:
        if not flags.use_fp16:
            raise ValueError("--fp16_enable_auto_loss_scale is of --use_fp16.")
        for other in ("staged_vars",):
            _exclude(flags, "fp16_enable_auto_loss_scale", other)
        if flags.variable_consistency == "relaxed":
            raise ValueError(
                "--fp16_enable_auto_loss_scale changes the scale from step to step, so gradients "
                "cannot wait for one: leave out --variable_consistency=relaxed."
            )
    if flags.fp16_vars and not flags.use_fp16:
        raise ValueError("--fp16_vars is of --use_fp16.")
    decay = flags.num_epochs_per_decay or flags.learning_rate_decay_factor
    whole = (
        flags.init_learning_rate is not None
        and flags.num_epochs_per_decay
        and flags.learning_rate_decay_factor
    )
    if decay and not whole and not flags.piecewise_learning_rate_schedule:
        raise ValueError(
            "A rate that decays needs --init_learning_rate, --num_epochs_per_decay and "
            "--learning_rate_decay_factor."
        )
    if flags.minimum_learning_rate and not whole and not flags.piecewise_learning_rate_schedule:
        raise ValueError(
            "--minimum_learning_rate bounds a rate that decays: give --init_learning_rate, "
            "--num_epochs_per_decay and --learning_rate_decay_factor."
        )


def _exclude(flags: Any, one: str, other: str) -> None:
    if getattr(flags, one) and getattr(flags, other):
        raise ValueError(f"--{one} and --{other} exclude each other: leave out one.")


def _hosts(flags: Any, name: str) -> Sequence[str]:
    """The addresses of a flag.

    Raises:
        ValueError: if one is not a host and a port.
    """
    hosts = [host.strip() for host in getattr(flags, name).split(",") if host.strip()]
    for host in hosts:
        address, _, port = host.rpartition(":")
        if not address or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"--{name}: {host!r} is no HOST:PORT.")
    return hosts
