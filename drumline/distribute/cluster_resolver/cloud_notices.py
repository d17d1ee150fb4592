"""What clouds' metadata services say of the end of a machine, as functions for `TerminationConfig`.

Each service answers at an address that only the machine itself reaches. A machine that is not of
that cloud gets no answer: this is said once in the log, and means that no end is near. A service
that has answered before and does not now, as in a moment of trouble, means the same.

Sources:
    https://cloud.google.com/compute/docs/metadata/predefined-metadata-keys
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
    https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence

from drumline._http_answers import read_whole

_log = logging.getLogger("drumline")

_TIMEOUT_SECONDS = 2.0
_MOST_BYTES = 1 << 20
_GCE = "http://metadata.google.internal"
_LINK_LOCAL = "http://169.254.169.254"
_TOKEN_SECONDS = 21_600


class _Service:
    """A metadata service, of which is asked without proxies and without waiting long.

    Args:
        name: of the cloud.
        address: the service's, with ``http://``.
    """

    def __init__(self, name: str, address: str) -> None:
        self._name = name
        self._address = address.rstrip("/")
        self._said = False
        # A proxy of the environment would ask of its own machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(
        self, path: str, headers: Mapping[str, str], method: str = "GET"
    ) -> tuple[int, bytes] | None:
        """The status and the content of an answer; None if there is none."""
        request = urllib.request.Request(self._address + path, headers=dict(headers), method=method)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return answer.status, read_whole(answer, _MOST_BYTES, closed_ends=True)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, b""
        except (OSError, http.client.HTTPException) as error:
            if not self._said:
                self._said = True
                _log.info(
                    "The metadata service of %s at %s does not answer (%s): no end of this machine "
                    "will be noticed by it.",
                    *(self._name, self._address, error),
                )
            return None


def gce_termination_watcher(address: str | None = None) -> Callable[[], bool]:
    """Watch for the end of a machine of Google Cloud, a TPU VM among them.

    The machine ends when it is preempted (``instance/preempted``), or when a maintenance ends it
    (``instance/maintenance-event``). One before which it is moved to another host is no end.

    Args:
        address: of the metadata service; by default that of ``GCE_METADATA_HOST`` or Google's own.

    Returns:
        A function for `TerminationConfig.termination_watcher_fn`.

    Example:
        >>> config = dl.train.TerminationConfig(dl.train.gce_termination_watcher())
    """
    if address is None:
        host = os.environ.get("GCE_METADATA_HOST")
        address = f"http://{host}" if host else _GCE
    service, headers = _Service("Google Cloud", address), {"Metadata-Flavor": "Google"}
    ends = {"/preempted": (b"TRUE",), "/maintenance-event": _ENDING_MAINTENANCE}

    def watch() -> bool:
        for key, values in ends.items():
            answer = service.ask(f"/computeMetadata/v1/instance{key}", headers)
            if answer is None:
                return False
            status, content = answer
            if status == http.client.OK and content.strip() in values:
                return True
        return False

    return watch


_ENDING_MAINTENANCE = (b"TERMINATE_ON_HOST_MAINTENANCE",)


def aws_termination_watcher(address: str | None = None) -> Callable[[], bool]:
    """Watch for the end of a spot instance of AWS.

    It is ``spot/instance-action`` of the instance metadata service, asked with a token (IMDSv2), or
    without one where the service gives none: ``terminate``, ``stop`` and ``hibernate`` are ends.

    Args:
        address: of the metadata service; by default that of the environment variable
            ``AWS_EC2_METADATA_SERVICE_ENDPOINT``, or AWS's own.

    Returns:
        A function for `TerminationConfig.termination_watcher_fn`.

    Example:
        >>> config = dl.train.TerminationConfig(dl.train.aws_termination_watcher())
    """
    if address is None:
        address = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _LINK_LOCAL
    service = _Service("AWS", address)
    headers: dict[str, str] = {}

    def watch() -> bool:
        answer = None
        for attempt in range(2):
            if not headers:
                limit = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS)}
                given = service.ask("/latest/api/token", limit, "PUT")
                if given is None:
                    return False
                if given[0] == http.client.OK:
                    headers["X-aws-ec2-metadata-token"] = (
                        given[1].decode("ascii", "replace").strip()
                    )
            answer = service.ask("/latest/meta-data/spot/instance-action", headers)
            if answer is None or answer[0] != http.client.UNAUTHORIZED or attempt:
                break
            headers.clear()  # the token is too old
        # Until there is a notice, the service has no such item.
        if answer is None or answer[0] != http.client.OK:
            return False
        return _item(answer[1], "action") in ("terminate", "stop", "hibernate")

    return watch


def azure_termination_watcher(
    address: str | None = None, events: Sequence[str] = ("Preempt", "Terminate")
) -> Callable[[], bool]:
    """Watch for the end of a machine of Azure, by its scheduled events.

    Azure lists the events of all machines of a scale set or availability set; those count that name
    this one.

    Args:
        address: of the metadata service; by default Azure's own.
        events: the types that are an end; ``"Reboot"``, ``"Redeploy"`` and ``"Freeze"`` are others.

    Returns:
        A function for `TerminationConfig.termination_watcher_fn`.

    Raises:
        ValueError: for an event of another type.

    Example:
        >>> watcher = dl.train.azure_termination_watcher(events=["Preempt", "Redeploy"])
        >>> config = dl.train.TerminationConfig(watcher)
    """
    unknown = sorted(set(events) - _AZURE_EVENTS)
    if unknown:
        known = ", ".join(sorted(_AZURE_EVENTS))
        raise ValueError(f"azure_termination_watcher: events {unknown} are none of {known}.")
    service, headers = _Service("Azure", address or _LINK_LOCAL), {"Metadata": "true"}
    name: list[str] = []

    def watch() -> bool:
        if not name:
            text = _text(service.ask("/metadata/instance/compute/name" + _AZURE_NAME, headers))
            if text is None:
                return False
            name.append(text)
        text = _text(service.ask("/metadata/scheduledevents" + _AZURE_SCHEDULE, headers))
        listed = _item((text or "{}").encode(), "Events")
        return any(
            isinstance(event, dict)
            and event.get("EventType") in events
            and name[0] in (event.get("Resources") or ())
            for event in (listed if isinstance(listed, list) else ())
        )

    return watch


_AZURE_EVENTS = {"Freeze", "Preempt", "Reboot", "Redeploy", "Terminate"}
_AZURE_NAME = "?api-version=2021-02-01&format=text"
_AZURE_SCHEDULE = "?api-version=2020-07-01"


def _text(answer: tuple[int, bytes] | None) -> str | None:
    if answer is None or answer[0] != http.client.OK:
        return None
    return answer[1].decode("utf-8", "replace").strip()


def _item(content: bytes, name: str) -> object:
    """An item of a JSON object; None if it is none, or lacks the item."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found.get(name) if isinstance(found, dict) else None
