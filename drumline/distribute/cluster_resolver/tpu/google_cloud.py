"""What Google Cloud says of a TPU: its metadata server on the machine, and its API by name.

Sources:
    https://cloud.google.com/compute/docs/metadata/querying-metadata
    https://cloud.google.com/tpu/docs/reference/rest/v2/projects.locations.nodes
"""

from __future__ import annotations

import http.client
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from drumline._http_answers import read_whole

_GOOGLES_HOST = "metadata.google.internal"
_TIMEOUT_SECONDS = 2.0
_API = "https://tpu.googleapis.com/v2"
_API_TIMEOUT_SECONDS = 30.0
_MOST_BYTES = 1 << 20


class UnansweredError(Exception):
    """A question that got no answer; its text says where it was asked, and why there was none."""


class MetadataServer:
    """The server that tells a machine of Google Cloud about itself.

    It is the host of ``GCE_METADATA_HOST`` or ``GCE_METADATA_IP``, or Google's own, and is not
    asked where ``TPU_SKIP_MDS_QUERY`` is set. JAX sets that variable itself on machines without
    TPU chips.
    """

    def __init__(self) -> None:
        host = os.environ.get("GCE_METADATA_HOST") or os.environ.get("GCE_METADATA_IP")
        self.address = f"http://{host or _GOOGLES_HOST}/computeMetadata/v1"
        self._skipped = os.environ.get("TPU_SKIP_MDS_QUERY")
        # A proxy of the environment would ask of its own machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read(self, path: str) -> str:
        """Return the value at `path`, as ``"instance/zone"``.

        Raises:
            UnansweredError: if there is none.
        """
        where = f"the metadata server's {path} ({self.address})"
        if self._skipped:
            raise UnansweredError(
                f"{where} was not asked, as TPU_SKIP_MDS_QUERY={self._skipped} (JAX sets it where "
                "the machine has no TPU chips)"
            )
        request = urllib.request.Request(
            f"{self.address}/{path}", headers={"Metadata-Flavor": "Google"}
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                content = read_whole(answer, _MOST_BYTES, closed_ends=True)
        except urllib.error.HTTPError as error:
            with error:
                raise UnansweredError(f"{where} answers with status {error.code}") from None
        except (OSError, http.client.HTTPException) as error:
            raise UnansweredError(f"{where} does not answer: {error}") from None
        return content.decode("utf-8", "replace").strip()

    def attribute(self, name: str) -> str:
        """Return an attribute of the machine, as ``"agent-worker-number"``.

        Raises:
            UnansweredError: if it has none of this name.
        """
        return self.read(f"instance/attributes/{name}")

    def tpu_environment(self) -> dict[str, str]:
        """Return what the attribute ``tpu-env`` says of the machine's TPU, as ``NODE_ID``.

        Raises:
            UnansweredError: if the machine has none.
        """
        lines = self.attribute("tpu-env").splitlines()
        found = (re.fullmatch(r"\s*(\w+)\s*:\s*'?(.*?)'?\s*", line) for line in lines)
        return {match[1]: match[2] for match in found if match}


def described_tpu(
    name: str, project: str, zone: str, *, credentials: Any, service: Any
) -> Mapping[str, Any]:
    """Return what Google's TPU API says of a TPU, as the resource ``Node`` of its documentation.

    Args:
        name: the TPU's.
        project: the project it is of.
        zone: where it is.
        credentials: an access token, or an object that has it as ``token``, as those of
            google-auth; ``"default"`` or None takes the token of the machine's service account.
        service: in place of Google's API over HTTP: the object that
            ``googleapiclient.discovery.build("tpu", ...)`` returns.

    Raises:
        UnansweredError: if it is not said.
    """
    path = f"projects/{project}/locations/{zone}/nodes/{name}"
    if service is not None:
        try:
            described: Mapping[str, Any] = (
                service.projects().locations().nodes().get(name=path).execute()
            )
        # Whatever the client that was given raises: its classes are not known here.
        except Exception as error:
            raise UnansweredError(f"the given service says of {path}: {error}") from error
        return described
    return _asked(path, _token(credentials))


def _asked(path: str, token: str) -> Mapping[str, Any]:
    url = f"{_API}/{urllib.parse.quote(path)}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=_API_TIMEOUT_SECONDS) as answer:
            described = json.loads(read_whole(answer, _MOST_BYTES, closed_ends=True))
    except urllib.error.HTTPError as error:
        with error:
            reason = _reason(error.read(_MOST_BYTES)) or error.reason
        raise UnansweredError(f"{url} answers with status {error.code}: {reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnansweredError(f"{url} gives no answer: {error}") from None
    if not isinstance(described, dict):
        raise UnansweredError(f"{url} answers with {described!r}, which describes no TPU")
    return described


def _token(credentials: Any) -> str:
    if credentials not in (None, "default"):
        token = getattr(credentials, "token", credentials)
        if not isinstance(token, str) or not token:
            raise UnansweredError(
                f"the credentials {type(credentials).__name__} hold no access token: refresh "
                "them first, or give the token itself"
            )
        return token
    try:
        said = MetadataServer().read("instance/service-accounts/default/token")
        token = json.loads(said)["access_token"]
    except UnansweredError as error:
        raise UnansweredError(f"{error}; give credentials=, an access token") from None
    except (ValueError, KeyError, TypeError):
        raise UnansweredError(
            "the metadata server gives no access token for the machine's service account; give "
            "credentials=, an access token"
        ) from None
    return str(token)


def _reason(content: bytes) -> str:
    """The message of an error of Google's APIs; empty if there is none."""
    try:
        return str(json.loads(content)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return ""
