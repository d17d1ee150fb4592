"""Whether a host that wants to take part was started like the others."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection

from drumline.jobs.launch.options import Options
from drumline.jobs.launch.rendezvous.messages import Hello

_OPTIONS = {
    "nodes": "--nodes",
    "workers": "--workers",
    "ps": "--ps",
    "chief": "--chief",
    "evaluator": "--evaluator",
    "max_restarts": "--max-restarts",
}


def hello_of(options: Options) -> Hello:
    """What this host says of itself."""
    layout = options.layout
    return Hello(
        node=options.node_rank,
        version=importlib.metadata.version("drumline"),
        nodes=layout.nodes,
        workers=layout.workers,
        ps=layout.ps,
        chief=layout.chief,
        evaluator=layout.evaluator,
        max_restarts=options.max_restarts,
    )


def objection(hello: Hello, own: Hello, taken: Collection[int]) -> str:
    """Why a host that says `hello` cannot join host 0, which would say `own`; empty if it can.

    Args:
        hello: the host's.
        own: host 0's.
        taken: the ranks of the hosts that have joined.
    """
    if hello.version != own.version:
        return f"it runs drumline {hello.version}, and host 0 runs {own.version}"
    for field, option in _OPTIONS.items():
        theirs, ours = getattr(hello, field), getattr(own, field)
        if theirs != ours:
            return f"{option} is {theirs} there and {ours} on host 0; it must be the same on all"
    if hello.node == 0 or hello.node in taken:
        return f"there is a host with --node-rank {hello.node} already"
    if hello.node >= own.nodes:
        return f"--node-rank {hello.node} does not fit --nodes {own.nodes}"
    return ""
