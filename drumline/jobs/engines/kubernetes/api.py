"""The API server of a cluster, over plain HTTP: requests, lists, watches and logs.

Every request may be repeated: names of objects are made up before they are created, so that one
which is there already was created by an earlier try. https://kubernetes.io/docs/reference/using-api/
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drumline._http_answers import read_whole
from drumline.jobs.engines.kubernetes.connection import ConnectionSettingsError, KubernetesCluster

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0

_TRIES = 4
_LONGEST_WAIT_SECONDS = 10.0
_PART = 1 << 16
_LARGEST_REFUSAL = 1 << 20
_OVERLOADED = (429, 500, 502, 503, 504)

_KINDS = {
    "Pod": ("v1", "pods"),
    "Service": ("v1", "services"),
    "Secret": ("v1", "secrets"),
    "ConfigMap": ("v1", "configmaps"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "Event": ("v1", "events"),
    "Job": ("batch/v1", "jobs"),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets"),
    "PodGroup": ("scheduling.x-k8s.io/v1alpha1", "podgroups"),
}


class KubernetesError(Exception):
    """The cluster cannot be used as asked; the message says why."""


class NoAnswer(KubernetesError):
    """The cluster does not answer, or not now."""


class ApiRefusal(KubernetesError):
    """The cluster has refused a request.

    Args:
        code: the HTTP status.
        reason: Kubernetes's word, as ``AlreadyExists``.
        message: its sentence.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message or f"{reason or 'refused'} ({code})")
        self.code = code
        self.reason = reason


class KubernetesApi:
    """The API server of a cluster.

    Args:
        cluster: how it is reached.
        namespace: where its objects are.
        sleep: waits between tries.
    """

    def __init__(
        self,
        cluster: KubernetesCluster,
        namespace: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.namespace = namespace
        self._cluster = cluster
        self._sleep = sleep
        self._address = urllib.parse.urlsplit(cluster.server)

    def create(self, body: Mapping[str, Any], dry_run: bool = False) -> dict[str, Any] | None:
        """Create an object; None if there is one of that name.

        Raises:
            KubernetesError: see `request`.
        """
        query = {"dryRun": "All"} if dry_run else {}
        try:
            place = self.place(str(body["kind"]), version=str(body["apiVersion"]))
            return self.request("POST", place, query, body)
        except ApiRefusal as refusal:
            if refusal.reason == "AlreadyExists":
                return None
            raise

    def get(self, kind: str, name: str, version: str = "") -> dict[str, Any] | None:
        """An object, or None.

        Raises:
            KubernetesError: see `request`.
        """
        try:
            return self.request("GET", self.place(kind, name, version))
        except ApiRefusal as refusal:
            if refusal.code == 404:
                return None
            raise

    def delete(self, kind: str, name: str, propagation: str = "Background") -> bool:
        """Delete an object and what it owns; False if there is none.

        Raises:
            KubernetesError: see `request`.
        """
        try:
            self.request("DELETE", self.place(kind, name), {"propagationPolicy": propagation})
        except ApiRefusal as refusal:
            if refusal.code == 404:
                return False
            raise
        return True

    def place(self, kind: str, name: str = "", version: str = "") -> str:
        """The path of a kind's objects, or of one of them; the version is as ``"batch/v1"``."""
        usual, plural = _KINDS[kind]
        version = version or usual
        root = "apis" if "/" in version else "api"
        namespace = urllib.parse.quote(self.namespace, safe="")
        path = f"/{root}/{version}/namespaces/{namespace}/{plural}"
        return f"{path}/{urllib.parse.quote(name, safe='')}" if name else path

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The answer to a request, which is repeated where the server asks for it or is cut off.

        Raises:
            ApiRefusal: it says no.
            NoAnswer: it says nothing, or is overloaded for long.
        """
        for tried in range(1, _TRIES + 1):
            try:
                with self._answer(method, path, query or {}, body, ANSWER_SECONDS) as answer:
                    return self._json(answer.read())
            except (NoAnswer, ApiRefusal) as error:
                if not isinstance(error, _Later) and not isinstance(error, NoAnswer):
                    raise
                if tried == _TRIES:
                    raise
                wait = error.seconds if isinstance(error, _Later) else 0.25 * 2**tried
                self._sleep(min(wait, _LONGEST_WAIT_SECONDS))
        raise AssertionError("not reached")

    def lines(self, path: str, query: Mapping[str, str], silence_seconds: float) -> Iterator[bytes]:
        """The lines of an answer as they come, each with its end.

        A last line without an end was cut off, and is not given.

        Args:
            path: what is asked for.
            query: how.
            silence_seconds: how long it may say nothing.

        Raises:
            ApiRefusal: the server says no.
            NoAnswer: it says nothing, or the connection was cut.
        """
        with self._answer("GET", path, query, None, silence_seconds) as answer:
            begun: list[bytes] = []
            while part := _part(answer):
                *lines, last = part.split(b"\n")
                for line in lines:
                    yield b"".join([*begun, line, b"\n"])
                    begun.clear()
                if last:
                    begun.append(last)
            if begun:
                raise NoAnswer("the connection was cut in the middle of a line")

    @contextlib.contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        silence_seconds: float,
    ) -> Iterator[http.client.HTTPResponse]:
        connection = self._connection()
        try:
            try:
                answer = self._asked(connection, method, path, query, body, silence_seconds)
                if answer.status == 401 and self._cluster.credentials.forget():
                    answer.close()
                    connection.close()
                    connection = self._connection()
                    answer = self._asked(connection, method, path, query, body, silence_seconds)
                if answer.status >= 400:
                    raise _refusal(answer)
            except (OSError, http.client.HTTPException) as error:
                raise NoAnswer(
                    f"the cluster at {self._cluster.server} does not answer: {_words(error)}"
                ) from None
            with answer:
                try:
                    yield answer
                except (OSError, http.client.HTTPException) as error:
                    raise NoAnswer(f"the connection was cut: {_words(error)}") from None
        finally:
            connection.close()

    def _asked(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        silence_seconds: float,
    ) -> http.client.HTTPResponse:
        headers = {"Accept": "application/json", "User-Agent": "drumline"}
        try:
            token = self._cluster.credentials.token()
        except ConnectionSettingsError as error:
            raise NoAnswer(str(error)) from None
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        target = self._address.path.rstrip("/") + path
        if query:
            target += "?" + urllib.parse.urlencode(query)
        connection.connect()
        assert connection.sock is not None
        connection.sock.settimeout(silence_seconds)
        connection.request(method, target, None if body is None else json.dumps(body), headers)
        return connection.getresponse()

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._cluster.tls is None:
            return http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)
        return _NamedConnection(
            host, port, self._cluster.tls, self._cluster.server_name, CONNECT_SECONDS
        )

    def _json(self, raw: bytes) -> dict[str, Any]:
        try:
            found = json.loads(raw)
        except ValueError:
            raise NoAnswer(f"{self._cluster.server} does not answer as Kubernetes does") from None
        if not isinstance(found, dict):
            raise NoAnswer(f"{self._cluster.server} does not answer as Kubernetes does")
        return found


class _Later(ApiRefusal):
    """Refused for now.

    Args:
        seconds: when to ask again.
    """

    def __init__(self, code: int, reason: str, message: str, seconds: float) -> None:
        super().__init__(code, reason, message)
        self.seconds = seconds


class _NamedConnection(http.client.HTTPSConnection):
    """To a server whose certificate may have another name than its address."""

    def __init__(
        self, host: str, port: int | None, tls: ssl.SSLContext, name: str | None, timeout: float
    ) -> None:
        super().__init__(host, port, context=tls, timeout=timeout)
        self._tls, self._name = tls, name

    def connect(self) -> None:
        if self._name is None:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _part(answer: http.client.HTTPResponse) -> bytes:
    """What comes next of an answer; nothing at its end."""
    try:
        # For `readline` a connection that is cut between two chunks is the end of the answer.
        part = answer.read1(_PART)
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(f"the connection was cut: {_words(error)}") from None
    if not part and answer.length:
        raise NoAnswer(f"the connection was cut: {answer.length} bytes are missing")
    return part


def is_temporary(error: KubernetesError) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, NoAnswer | _Later)


def _refusal(answer: http.client.HTTPResponse) -> ApiRefusal:
    with answer:
        raw = read_whole(answer, _LARGEST_REFUSAL)
    try:
        status = json.loads(raw)
        reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    except (ValueError, AttributeError):
        reason, message = "", " ".join(raw.decode(errors="replace").split())[:300]
    if answer.status in _OVERLOADED:
        given = answer.headers.get("Retry-After", "")
        seconds = float(given) if given.isdecimal() else 1.0
        return _Later(answer.status, reason, message, seconds)
    return ApiRefusal(answer.status, reason, message)


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
