"""`drumline cnn` on two hosts: gradients a step later, which travel while the next step computes.

The hosts are network namespaces of this machine, so it takes root, iproute2 and ``/dev/net/tun``.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from benchmarks.harness.floors import Floor
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Contender, Problems, Scale, Workload

OURS = ("drumline", "jax", "keras", "pytest")
HOSTS, FAR_MILLISECONDS = 2, 20.0
WARMUP_STEPS = 2
BATCH = 64
"""Of both hosts. By larger ones a step computes so long that 20 ms are nothing in it."""
STEP = re.compile(r"^(\d+)\timages/sec: [\d.]+ .*\t([\d.]+)$", re.M)
TOTAL = re.compile(r"^total images/sec: ([\d.]+)$", re.M)
SECRET = "of this benchmark's two processes, alone"


def command(host: int, addresses: tuple[str, str], consistency: str, scale: Scale) -> list[str]:
    """The command of one host: the convnet of CIFAR-10 that has no batch normalization."""
    return [
        *(sys.executable, "-m", "drumline.cnn"),
        *("--data_name=cifar10", "--model=alexnet", f"--batch_size={scale.batch_size // HOSTS}"),
        f"--num_batches={scale.elements // scale.batch_size}",
        f"--num_warmup_batches={WARMUP_STEPS}",
        "--variable_update=collective_all_reduce",
        f"--variable_consistency={consistency}",
        "--init_learning_rate=0.0003",  # by the model's own, 0.1, noise is not learned but diverges
        *("--job_name=worker", f"--task_index={host}"),
        f"--worker_hosts={','.join(f'{address}:50001' for address in addresses)}",
    ]


def run(milliseconds: float, consistency: str, scale: Scale) -> Measurement:
    """Train on two hosts that are so far apart; what is measured is what the first one shows.

    Raises:
        RuntimeError: if a process fails, or this machine has no hosts to offer.
    """
    from tests.network_namespaces import two_hosts

    environment = os.environ | {
        "DRUMLINE_CLUSTER_TOKEN": SECRET,
        "DRUMLINE_SHARED_MEMORY": "0",  # two hosts have none
    }
    before = time.perf_counter()
    with two_hosts(milliseconds) as hosts:
        processes = [
            hosts.run(
                host,
                command(host, hosts.addresses, consistency, scale),
                environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for host in range(HOSTS)
        ]
        outs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("\n".join(outs))
    (total,) = TOTAL.findall(outs[0])
    seconds = scale.elements / float(total)
    losses = [float(loss) for _, loss in STEP.findall(outs[0])]
    return Measurement(
        elements=scale.elements,
        import_s=time.perf_counter() - before - seconds,
        first_batch_s=seconds,
        first_epoch_s=seconds,
        later_epochs_s=(seconds,),
        evidence={"first": losses[0], "last": losses[-1]},
        versions=versions(("drumline", "jax", "keras")),
    )


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """All began with the same loss, and learned."""
    problems = {}
    first = measurements["drumline"].evidence["first"]
    for name, found in measurements.items():
        evidence = found.evidence
        if abs(evidence["first"] - first) > 0.01 * first:
            problems[name] = f"began with the loss {evidence['first']}, and drumline with {first}"
        elif not evidence["last"] < evidence["first"]:
            problems[name] = f"learned nothing: {evidence['first']} to {evidence['last']}"
    return problems


def contender(name: str, milliseconds: float, consistency: str) -> Contender:
    """A way of training, at a distance."""
    apart = f"{milliseconds:g} ms apart" if milliseconds else "side by side"
    later = "a step later" if consistency == "relaxed" else "in their own step"
    made: Callable[[Scale], Measurement] = functools.partial(run, milliseconds, consistency)
    return Contender(name, f"two hosts {apart}, gradients {later}", OURS, made)


WORKLOAD = Workload(
    name="cnn_staged_vars",
    title=(
        f"drumline cnn, CIFAR-10's AlexNet on 2 hosts {FAR_MILLISECONDS:g} ms apart, "
        f"2 x {BATCH // HOSTS}"
    ),
    unit="images",
    baseline="in step",
    full=Scale(elements=20 * BATCH, batch_size=BATCH, later_epochs=0),
    quick=Scale(elements=11 * BATCH, batch_size=BATCH, later_epochs=0),
    contenders=(
        contender("drumline", FAR_MILLISECONDS, "relaxed"),
        contender("in step", FAR_MILLISECONDS, "strong"),
        contender("side by side", 0.0, "relaxed"),
        contender("side by side, in step", 0.0, "strong"),
    ),
    floors=(Floor("later", at_least=1.0, against="in step"),),
    check=check,
    timeout_s=900.0,  # of a contender, which starts two programs
)
