"""What one contender's process reports about one run."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """Timings of one run, in seconds, with the evidence that the work was done.

    Attributes:
        elements: elements consumed from the source in one epoch.
        import_s: importing the libraries and starting their runtime; never part of an epoch.
        first_batch_s: from the start of building the pipeline (or of ``fit``) to the first
            batch (or the end of the first training step).
        first_epoch_s: the first epoch, including building, tracing and compiling.
        later_epochs_s: every later epoch.
        evidence: checksums, counts and losses that the workload's check looks at.
        versions: the versions of the libraries that took part.
        parts: of a workload of many small calls, the time of one call of each.
    """

    elements: int
    import_s: float
    first_batch_s: float
    first_epoch_s: float
    later_epochs_s: tuple[float, ...]
    evidence: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)

    def speed(self, metric: str) -> float:
        """The run's speed in ``metric``: a rate, so that more is better.

        ``first`` and ``later`` are elements per second (``later`` uses the median later
        epoch); ``first_batch`` is first batches per second, the inverse of its delay.
        """
        if metric == "first":
            return self.elements / self.first_epoch_s
        if metric == "later":
            return self.elements / statistics.median(self.later_epochs_s)
        if metric == "first_batch":
            return 1.0 / self.first_batch_s
        raise ValueError(f"unknown metric {metric!r}; use 'first', 'later' or 'first_batch'")

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Measurement:
        """Reads what :meth:`to_json` wrote.

        Raises:
            ValueError: the line is not a measurement.
        """
        try:
            fields = json.loads(line)
            fields["later_epochs_s"] = tuple(fields["later_epochs_s"])
            return cls(**fields)
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"not a measurement: {line[:200]!r}") from error
