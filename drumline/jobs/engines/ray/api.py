"""Ray's job submission, as the dashboard of a cluster's head node answers it over HTTP.

https://docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from drumline.jobs.engines.engine import SettingError

_SECONDS = 30.0
_LONGEST = 300


class RayError(Exception):
    """A cluster that does not answer, or has refused something; the message says why.

    Attributes:
        status: of HTTP; 0 if there was no answer.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class RayApi:
    """Requests to a cluster.

    Args:
        address: of the dashboard, as ``http://head:8265``.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def request(self, method: str, path: str, body: bytes | Mapping[str, Any] | None = None) -> Any:
        """What is answered: decoded JSON, or text.

        Args:
            method: of HTTP.
            path: below the address.
            body: bytes, or what becomes JSON.

        Raises:
            RayError: there is no answer, or a refusal.
        """
        raw = body is None or isinstance(body, bytes)
        data = body if isinstance(body, bytes) else None if body is None else _encoded(body)
        kind = "application/octet-stream" if raw else "application/json"
        request = urllib.request.Request(
            self.address + path, data, {"Content-Type": kind}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                found = answer.read()
                is_json = answer.headers.get_content_type() == "application/json"
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode(errors="replace").strip().splitlines()
            raise RayError(said[-1][:_LONGEST] if said else str(error), error.code) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise RayError(f"{self.address} does not answer: {reason}") from None
        try:
            return json.loads(found) if is_json else found.decode(errors="replace")
        except ValueError:
            raise RayError(f"{self.address} is no dashboard of Ray's: it answers no JSON") from None

    def job(self, submission: str) -> dict[str, Any] | None:
        """What the cluster knows of a job, or None."""
        try:
            found = self.request("GET", f"/api/jobs/{submission}")
        except RayError as error:
            if error.status == 404:
                return None
            raise
        return dict(found)


def _encoded(body: Mapping[str, Any] | bytes) -> bytes:
    return json.dumps(body).encode()


def checked_address(text: str) -> str:
    """The address of a dashboard.

    Raises:
        SettingError: it is none.
    """
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise SettingError(
            f"address: {text!r} must be that of a Ray dashboard, as http://head:8265"
        )
    if parts.username or parts.password:
        raise SettingError("address: must hold no password")
    return text.rstrip("/")
