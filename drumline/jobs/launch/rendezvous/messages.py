"""The messages of launchers, checked when read, and which hosts may join."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from drumline._authentication import NONCE_BYTES
from drumline.jobs.launch.coordination import Report, Verdict
from drumline.jobs.launch.failure_cause import Role, Suspect
from drumline.jobs.launch.options import LaunchOptions

PROTOCOL: Literal["drumline-launch-4"] = "drumline-launch-4"

_Count = Annotated[int, Field(ge=0, le=100_000)]
_Text = Annotated[str, Field(max_length=10_000)]
_Line = Annotated[str, Field(max_length=70_000)]
_Address = Annotated[str, Field(max_length=300, pattern=r"^[^\s/]+:\d{1,5}$")]
_TaskType = Literal["chief", "worker", "ps"]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Greeting(_Message):
    """Said first by both sides, before anything is known of the other."""

    kind: Literal["greeting"] = "greeting"
    protocol: Literal["drumline-launch-4"] = PROTOCOL
    nonce: Annotated[str, Field(pattern=rf"^[0-9a-f]{{{2 * NONCE_BYTES}}}$")]
    has_token: bool


class Hello(_Message):
    """What a host was started with; all but `node` must be the same on all."""

    kind: Literal["hello"] = "hello"
    node: _Count
    version: Annotated[str, Field(max_length=100)]
    nodes: _Count
    workers: _Count
    ps: _Count
    chief: bool
    evaluator: bool
    process_per_node: bool
    max_restarts: _Count
    hang_after: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None


class Refusal(_Message):
    """Why a host cannot take part."""

    kind: Literal["refusal"] = "refusal"
    reason: _Text


class Welcome(_Message):
    """The host takes part."""

    kind: Literal["welcome"] = "welcome"


class PartOfCluster(_Message):
    """The addresses of one host's processes for the next start of the job."""

    kind: Literal["part"] = "part"
    addresses: dict[_TaskType, list[_Address]]


class WholeCluster(_Message):
    """The addresses of all processes."""

    kind: Literal["cluster"] = "cluster"
    addresses: dict[_TaskType, list[_Address]]


class Trained(_Message):
    """The training is done: on the host that says so, or, said by host 0, on all."""

    kind: Literal["trained"] = "trained"


class Silent(_Message):
    """The job is silent: on the host that says so, while it is, or, said by host 0, on all."""

    kind: Literal["silent"] = "silent"
    silent: bool


class HostFailure(_Message):
    """Something failed, for which all must stop."""

    kind: Literal["trouble"] = "trouble"
    text: _Text


class Ping(_Message):
    """I am still here."""

    kind: Literal["ping"] = "ping"


class SuspectMessage(_Message):
    """As `drumline.jobs.launch.failure_cause.Suspect`."""

    task: _Text
    part: Annotated[int, Field(ge=min(Role), le=max(Role))]
    age: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    what: _Text
    why: _Line
    log: _Text
    lines: Annotated[list[_Line], Field(max_length=100)]
    address: Annotated[str, Field(max_length=300)]
    pid: Annotated[int, Field(ge=0)] | None

    @classmethod
    def of(cls, suspect: Suspect) -> SuspectMessage:
        """The message that says `suspect`."""
        return cls(
            task=suspect.task,
            part=int(suspect.part),
            age=suspect.age,
            what=suspect.what[:10_000],
            why=suspect.why[:10_000],
            log=suspect.log[:10_000],
            lines=[line[:2_000] for line in suspect.lines],
            address=suspect.address[:300],
            pid=suspect.pid,
        )

    def suspect(self) -> Suspect:
        """What it says."""
        return Suspect(
            self.task,
            Role(self.part),
            *(self.age, self.what, self.why, self.log, tuple(self.lines), self.address, self.pid),
        )


class ReportMessage(_Message):
    """As `drumline.jobs.launch.coordination.Report`."""

    kind: Literal["report"] = "report"
    trained: bool
    suspects: Annotated[list[SuspectMessage], Field(max_length=10_000)]
    interrupted: Annotated[int, Field(ge=0, le=64)]
    preempted: bool

    @classmethod
    def of(cls, report: Report) -> ReportMessage:
        """The message that says `report`."""
        said = [SuspectMessage.of(suspect) for suspect in report.suspects]
        return cls(
            trained=report.trained,
            suspects=said,
            interrupted=report.interrupted,
            preempted=report.preempted,
        )

    def report(self) -> Report:
        """What it says."""
        suspects = tuple(s.suspect() for s in self.suspects)
        return Report(self.trained, suspects, self.interrupted, self.preempted)


class VerdictMessage(_Message):
    """As `drumline.jobs.launch.coordination.Verdict`."""

    kind: Literal["verdict"] = "verdict"
    trained: bool
    suspects: Annotated[list[SuspectMessage], Field(max_length=10_000)]
    final: _Text
    preempted: bool

    @classmethod
    def of(cls, verdict: Verdict) -> VerdictMessage:
        """The message that says `verdict`."""
        said = [SuspectMessage.of(suspect) for suspect in verdict.suspects[:10]]
        return cls(
            trained=verdict.trained,
            suspects=said,
            final=verdict.final,
            preempted=verdict.preempted,
        )

    def verdict(self) -> Verdict:
        """What it says."""
        suspects = tuple(s.suspect() for s in self.suspects)
        return Verdict(self.trained, suspects, self.final, self.preempted)


Message = Annotated[
    Greeting
    | Hello
    | Refusal
    | Welcome
    | PartOfCluster
    | WholeCluster
    | Trained
    | Silent
    | HostFailure
    | Ping
    | ReportMessage
    | VerdictMessage,
    Field(discriminator="kind"),
]

_adapter: TypeAdapter[Message] = TypeAdapter(Message)


def parse(line: bytes) -> Message:
    """The message in a line of JSON.

    Raises:
        ValueError: if it is not a message; the text is one line and quotes nothing it received.
    """
    try:
        return _adapter.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"not a launcher's message: {where}: {first['msg']}") from None


_OPTIONS = {
    "nodes": "--nodes",
    "workers": "--workers",
    "ps": "--ps",
    "chief": "--chief",
    "evaluator": "--evaluator",
    "process_per_node": "--process-per-node",
    "max_restarts": "--max-restarts",
    "hang_after": "--hang-after",
}


def hello_of(options: LaunchOptions) -> Hello:
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
        process_per_node=layout.process_per_node,
        max_restarts=options.max_restarts,
        hang_after=options.hang_after,
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
