"""What launchers say to each other, checked when read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from drumline.jobs.launch.coordination import Report, Verdict
from drumline.jobs.launch.failure_cause import Part, Suspect

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
    protocol: Literal["drumline-launch-1"] = "drumline-launch-1"
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
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
    max_restarts: _Count


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


class Trouble(_Message):
    """Something failed, for which all must stop."""

    kind: Literal["trouble"] = "trouble"
    text: _Text


class Ping(_Message):
    """I am still here."""

    kind: Literal["ping"] = "ping"


class SuspectMessage(_Message):
    """As `drumline.jobs.launch.failure_cause.Suspect`."""

    task: _Text
    part: Annotated[int, Field(ge=min(Part), le=max(Part))]
    age: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    what: _Text
    why: _Line
    log: _Text
    lines: Annotated[list[_Line], Field(max_length=100)]

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
        )

    def suspect(self) -> Suspect:
        """What it says."""
        return Suspect(
            self.task, Part(self.part), self.age, self.what, self.why, self.log, tuple(self.lines)
        )


class ReportMessage(_Message):
    """As `drumline.jobs.launch.coordination.Report`."""

    kind: Literal["report"] = "report"
    trained: bool
    suspects: Annotated[list[SuspectMessage], Field(max_length=10_000)]
    interrupted: Annotated[int, Field(ge=0, le=64)]

    @classmethod
    def of(cls, report: Report) -> ReportMessage:
        """The message that says `report`."""
        said = [SuspectMessage.of(suspect) for suspect in report.suspects]
        return cls(trained=report.trained, suspects=said, interrupted=report.interrupted)

    def report(self) -> Report:
        """What it says."""
        return Report(self.trained, tuple(s.suspect() for s in self.suspects), self.interrupted)


class VerdictMessage(_Message):
    """As `drumline.jobs.launch.coordination.Verdict`."""

    kind: Literal["verdict"] = "verdict"
    trained: bool
    suspects: Annotated[list[SuspectMessage], Field(max_length=10_000)]
    final: _Text

    @classmethod
    def of(cls, verdict: Verdict) -> VerdictMessage:
        """The message that says `verdict`."""
        said = [SuspectMessage.of(suspect) for suspect in verdict.suspects[:10]]
        return cls(trained=verdict.trained, suspects=said, final=verdict.final)

    def verdict(self) -> Verdict:
        """What it says."""
        return Verdict(self.trained, tuple(s.suspect() for s in self.suspects), self.final)


Message = Annotated[
    Greeting
    | Hello
    | Refusal
    | Welcome
    | PartOfCluster
    | WholeCluster
    | Trained
    | Trouble
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
