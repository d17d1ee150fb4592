"""A step profile in Prometheus's text format, and a server for collectors."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Sequence

from drumline._recorder import PARTS
from drumline.profiler.epoch_profile import EpochProfile

_PREFIX = "drumline_step_"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def as_text(epochs: Sequence[EpochProfile]) -> str:
    """Counters over all epochs, and gauges of the last one."""
    lines = [
        f"# HELP {_PREFIX}seconds_total Wall time of a training by what it went to.",
        f"# TYPE {_PREFIX}seconds_total counter",
    ]
    for part in PARTS:
        seconds = sum(epoch.parts.get(part, 0.0) for epoch in epochs)
        lines.append(f'{_PREFIX}seconds_total{{part="{part.lower()}"}} {seconds}')
    for name, help_text, total in (
        ("steps_total", "Steps of a training.", sum(epoch.steps for epoch in epochs)),
        ("rows_total", "Rows that steps took.", sum(epoch.rows for epoch in epochs)),
        ("epochs_total", "Epochs that have ended.", len(epochs)),
    ):
        lines += _metric(name, "counter", help_text, total)
    if epochs:
        lines += _gauges(epochs[-1])
    return "\n".join(lines) + "\n"


_GAUGES = {
    "step_seconds": "Mean time of a step in the last epoch.",
    "rows_per_second": "Rows per second in the last epoch.",
    "goodput": "Share of the last epoch in which steps computed or communicated.",
    "profiler_share": "Share of the last epoch that the profile itself took.",
    "flops_per_second": "FLOPs of the model per second in the last epoch.",
    "share_of_peak": "Those FLOPs over what the hardware can.",
    "host_bytes": "Most memory of the process in RAM.",
    "device_bytes": "Most memory taken on a device.",
    "communicated_bytes": "Bytes that the process's sums took in the last epoch.",
}


def _gauges(epoch: EpochProfile) -> list[str]:
    numbers = epoch.numbers()
    lines = []
    for name, help_text in _GAUGES.items():
        if name in numbers:
            lines += _metric(name, "gauge", help_text, numbers[name])
    if epoch.processes:
        lines += [
            f"# HELP {_PREFIX}own_seconds A process's own part of a step in the last epoch.",
            f"# TYPE {_PREFIX}own_seconds gauge",
        ]
        lines += [
            f'{_PREFIX}own_seconds{{process="{_escaped(share.name)}"}} {share.own_seconds}'
            for share in epoch.processes
        ]
    return lines


def _metric(name: str, kind: str, help_text: str, value: float) -> list[str]:
    return [
        f"# HELP {_PREFIX}{name} {help_text}",
        f"# TYPE {_PREFIX}{name} {kind}",
        f"{_PREFIX}{name} {value}",
    ]


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class MetricsServer:
    """Answers a collector's requests for ``/metrics``, in a thread of its own.

    Args:
        text: returns the metrics.
        port: of this machine's own address; 0 for any that is free.

    Attributes:
        port: where it listens.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, text: Callable[[], str], port: int) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "there are /metrics alone")
                    return
                content = text().encode()
                self.send_response(200)
                self.send_header("Content-Type", _TEXT)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing of requests."""

        try:
            self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise OSError(
                error.errno, f"metrics cannot be served on port {port}: {error.strerror}"
            ) from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="drumline metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer no more requests."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
