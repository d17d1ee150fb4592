"""An API server with the semantics of Kubernetes's lists and watches, and faults on demand."""

from __future__ import annotations

import base64
import contextlib
import copy
import functools
import json
import ssl
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.jobs.kubernetes.rules import broken_rules, extension_problems

KINDS = {
    "pods": ("v1", "Pod"),
    "services": ("v1", "Service"),
    "secrets": ("v1", "Secret"),
    "configmaps": ("v1", "ConfigMap"),
    "events": ("v1", "Event"),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim"),
    "jobs": ("batch/v1", "Job"),
    "podgroups": ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    "jobsets": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "localqueues": ("kueue.x-k8s.io/v1beta1", "LocalQueue"),
}
COSCHEDULING, VOLCANO = "scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1"
JOB_SET, KUEUE = "jobset.x-k8s.io/v1alpha2", "kueue.x-k8s.io/v1beta1"
EXTENSIONS = {
    COSCHEDULING: "podgroups",
    VOLCANO: "podgroups",
    JOB_SET: "jobsets",
    KUEUE: "localqueues",
}
BUILT_IN = {"Pod", "Service", "Secret", "ConfigMap", "Job"}
NEWEST = "1.37"

Key = tuple[str, str, str]


class Faults:
    """What goes wrong.

    Attributes:
        overloaded: so many requests are answered by 429.
        retry_after: seconds, with it.
        unheard: so many requests are done, and the connection is cut before the answer.
        cut_refusals: so many refusals are cut in the middle.
        refused: so many connections are cut before anything.
        cut_watches: so many watches are cut in the middle of their next event.
        cut_logs: so many logs are cut after the next line.
        open_logs: logs do not end.
        stalled: kinds of objects of whose watches nothing comes.
        down: all connections are cut.
        nonsense: so many requests are answered by what is JSON, and nothing that Kubernetes says.
        denied: verbs and resources that are forbidden, as ``("create", "secrets")``.
        silent: requests are taken and never answered.
    """

    def __init__(self) -> None:
        self.nonsense = self.overloaded = self.unheard = self.refused = self.cut_watches = (
            self.cut_logs
        ) = self.cut_refusals = 0
        self.retry_after = 0
        self.down = self.silent = self.open_logs = False
        self.stalled: set[str] = set()
        self.denied: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def take(self, name: str) -> bool:
        """Whether the fault is due; it is used up."""
        with self._lock:
            left = int(getattr(self, name))
            setattr(self, name, max(0, left - 1))
            return left > 0


class ObjectStore:
    """All objects, their versions, and what has happened since the last compaction."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 1000
        self.objects: dict[Key, dict[str, Any]] = {}
        self._history: list[tuple[int, str, Key, dict[str, Any]]] = []
        self._oldest = 1000
        self.listeners: list[Callable[[str, Key, dict[str, Any]], None]] = []

    def create(self, key: Key, body: dict[str, Any]) -> dict[str, Any] | None:
        """Add an object; None if there is one."""
        with self.changed:
            if key in self.objects:
                return None
            body = copy.deepcopy(body)
            body["metadata"] |= {
                "uid": str(uuid.uuid4()),
                "namespace": key[1],
                "creationTimestamp": now(),
            }
            return self._put("ADDED", key, body)

    def update(self, key: Key, change: Callable[[dict[str, Any]], None]) -> None:
        """Change an object, if it is there."""
        with self.changed:
            if key in self.objects:
                body = copy.deepcopy(self.objects[key])
                change(body)
                if body != self.objects[key]:
                    self._put("MODIFIED", key, body)

    def remove(self, key: Key) -> None:
        """Remove an object, and let the garbage collector have what it owns."""
        with self.changed:
            if key in self.objects:
                body = copy.deepcopy(self.objects[key])
                self._put("DELETED", key, body)

    def owned_by(self, uid: str) -> list[Key]:
        with self.changed:
            return [
                key for key, body in self.objects.items()
                if any(o["uid"] == uid for o in body["metadata"].get("ownerReferences") or [])
            ]  # fmt: skip

    def compact(self) -> None:
        """Forget what has happened: watches from before it are told 410."""
        with self.changed:
            self.version += 1
            self._oldest = self.version
            self._history.clear()
            self.changed.notify_all()

    def since(self, version: int) -> list[tuple[int, str, Key, dict[str, Any]]] | None:
        """What has happened after a version; None if that is forgotten."""
        if version < self._oldest:
            return None
        return [each for each in self._history if each[0] > version]

    def _put(self, what: str, key: Key, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        if what == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = body
        self._history.append((self.version, what, key, body))
        self.changed.notify_all()
        for listener in self.listeners:
            listener(what, key, body)
        return body


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class ApiServer:
    """The server.

    Args:
        token: that every request must have; none if it is empty.
        certificate: files of its certificate and key; plain HTTP without.
        logs: opens the log of a container; see `LogSource`.

    Attributes:
        faults: what goes wrong.
        requests: the verbs and paths that were asked for.
        extensions: the groups and versions that are there besides those of every cluster.
        namespaces: those that there are.
    """

    def __init__(
        self, store: ObjectStore, token: str = "", certificate: tuple[Path, Path] | None = None
    ) -> None:
        self.store = store
        self.faults = Faults()
        self.token = token
        self.requests: list[str] = []
        self.extensions: set[str] = set()
        self.namespaces = {"team"}
        self.delete: Callable[[Key, str], None] = lambda key, propagation: store.remove(key)
        self.log: Callable[[str, str], tuple[Path, Callable[[], bool]] | str] = (
            lambda pod, container: "there are no logs"
        )
        self.bookmark_seconds = 0.5
        outer = self

        class Handler(_Handler):
            server_side = outer

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*map(str, certificate))
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
            scheme = "https"
        self.address = f"{scheme}://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Cut(Exception):
    """The connection is cut."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_side: ApiServer

    def log_message(self, *args: object) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError, BrokenPipeError, _Cut):
            super().handle()

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, verb: str) -> None:
        faults = self.server_side.faults
        url = urllib.parse.urlsplit(self.path)
        self.server_side.requests.append(f"{verb} {self.path}")
        query = dict(urllib.parse.parse_qsl(url.query))
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if faults.down or faults.take("refused"):
            self.close_connection = True
            raise _Cut
        if self.server_side.token:
            given = self.headers.get("Authorization")
            if given != f"Bearer {self.server_side.token}":
                self._refuse(401, "Unauthorized", "Unauthorized")
                return
        if faults.take("overloaded"):
            after = {"Retry-After": str(faults.retry_after)}
            self._refuse(429, "TooManyRequests", "too many requests", after)
            return
        while faults.silent:
            time.sleep(0.02)
        if url.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            self._review(json.loads(raw))
            return
        version, _, place = url.path.strip("/").partition("/namespaces/")
        parts = place.split("/")
        if faults.take("nonsense"):
            self._answer(200, {"items": [{}], "status": []})
            return
        if not place or len(parts) == 1:
            self._discover(version, parts[0])
            return
        kind, version = parts[1], version.removeprefix("apis/").removeprefix("api/")
        if not self._has(kind, version):
            self._refuse(404, "NotFound", "the server could not find the requested resource")
            return
        space, kind, name, *rest = [*parts, ""] if len(parts) == 2 else parts
        action = {"GET": "get" if name else "list", "POST": "create", "DELETE": "delete"}[verb]
        action = "watch" if query.get("watch") == "true" else action
        resource = f"{kind}/log" if rest == ["log"] else kind
        if (action, resource) in faults.denied:
            group = version.rpartition("/")[0]
            name = f'"{name}" ' if name else ""
            self._refuse(403, "Forbidden", (
                f'{resource}{f".{group}" if group else ""} {name}is forbidden: User "ada" cannot '
                f'{action} resource "{resource}" in API group "{group}" in the namespace "{space}"'
            ))  # fmt: skip
        elif space not in self.server_side.namespaces and verb == "POST":
            self._refuse(404, "NotFound", f'namespaces "{space}" not found')
        elif verb == "POST":
            self._create(kind, version, space, json.loads(raw), query)
        elif rest == ["log"]:
            self._log(name, query)
        elif verb == "DELETE":
            self._delete((kind, space, name), query)
        elif name:
            found = self.server_side.store.objects.get((kind, space, name))
            if found is None:
                self._refuse(404, "NotFound", f'{kind} "{name}" not found')
            else:
                self._answer(200, found)
        elif query.get("watch") == "true":
            self._watch(kind, space, query)
        else:
            self._list(kind, space, query)

    def _review(self, body: dict[str, Any]) -> None:
        """Whether the user may do something."""
        if ("create", "selfsubjectaccessreviews") in self.server_side.faults.denied:
            self._refuse(403, "Forbidden", "selfsubjectaccessreviews is forbidden")
            return
        wanted = body["spec"]["resourceAttributes"]
        inside = wanted.get("subresource")
        resource = f"{wanted['resource']}/{inside}" if inside else wanted["resource"]
        denied = (wanted["verb"], resource) in self.server_side.faults.denied
        self._answer(201, {**body, "status": {"allowed": not denied}})

    def _discover(self, version: str, space: str) -> None:
        """Which groups there are, what a version of one has, or a namespace."""
        extensions = self.server_side.extensions
        group = version.removeprefix("apis/")
        if version == "api/v1" and space in self.server_side.namespaces:
            self._answer(200, {"kind": "Namespace", "metadata": {"name": space}})
        elif group in extensions:
            resources = [{"name": EXTENSIONS[group]}, {"name": f"{EXTENSIONS[group]}/status"}]
            self._answer(200, {"kind": "APIResourceList", "resources": resources})
        elif found := [each for each in extensions if each.startswith(f"{group}/")]:
            self._answer(200, {"preferredVersion": {"groupVersion": found[0]}})
        else:
            text = f'namespaces "{space}" not found' if space else "the server could not find it"
            self._refuse(404, "NotFound", text)

    def _has(self, kind: str, version: str) -> bool:
        if version in EXTENSIONS:
            return version in self.server_side.extensions and EXTENSIONS[version] == kind
        return kind in KINDS and KINDS[kind][0] == version

    def _create(
        self, kind: str, version: str, space: str, body: dict[str, Any], query: dict[str, str]
    ) -> None:
        name = KINDS[kind][1]
        if (body.get("apiVersion"), body.get("kind")) != (version, name):
            self._refuse(400, "BadRequest", f"the object is no {name} of {version}")
            return
        problems = schema_problems(body, NEWEST) + broken_rules(body)
        if problems:
            self._refuse(422, "Invalid", "; ".join(problems))
            return
        if kind == "secrets" and body.get("stringData"):
            data = {k: base64.b64encode(v.encode()).decode() for k, v in body["stringData"].items()}
            body = {**body, "data": {**(body.get("data") or {}), **data}}
            del body["stringData"]
        key = (kind, space, body["metadata"]["name"])
        if query.get("dryRun") == "All":
            if key in self.server_side.store.objects:
                self._refuse(409, "AlreadyExists", f'{kind} "{key[2]}" already exists')
            else:
                self._answer(201, body)
            return
        made = self.server_side.store.create(key, body)
        if self.server_side.faults.take("unheard"):
            self.close_connection = True
            raise _Cut
        if made is None:
            self._refuse(409, "AlreadyExists", f'{kind} "{key[2]}" already exists')
        else:
            self._answer(201, made)

    def _delete(self, key: Key, query: dict[str, str]) -> None:
        if key not in self.server_side.store.objects:
            self._refuse(404, "NotFound", f'{key[0]} "{key[2]}" not found')
            return
        self.server_side.delete(key, query.get("propagationPolicy", "Background"))
        self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _list(self, kind: str, space: str, query: dict[str, str]) -> None:
        store = self.server_side.store
        with store.changed:
            found = [
                body for key, body in sorted(store.objects.items())
                if key[:2] == (kind, space) and _matches(body, query)
            ]  # fmt: skip
            version = store.version
        begin = int(query.get("continue", "0"))
        limit = int(query.get("limit", "0")) or len(found) or 1
        metadata = {"resourceVersion": str(version)}
        if begin + limit < len(found):
            metadata["continue"] = str(begin + limit)
        answer = {
            "kind": f"{KINDS[kind][1]}List",
            "apiVersion": KINDS[kind][0],
            "metadata": metadata,
            "items": found[begin : begin + limit],
        }
        self._answer(200, answer)

    def _watch(self, kind: str, space: str, query: dict[str, str]) -> None:
        store, faults = self.server_side.store, self.server_side.faults
        version = int(query["resourceVersion"])
        until = time.monotonic() + float(query.get("timeoutSeconds", "60"))
        self._begin_chunks()
        bookmark = time.monotonic() + self.server_side.bookmark_seconds
        while time.monotonic() < until:
            with store.changed:
                news = store.since(version)
                if not news:
                    store.changed.wait(min(0.1, self.server_side.bookmark_seconds))
                    news = store.since(version)
            if faults.down:
                raise _Cut
            if news is None:
                status = _status(410, "Expired", f"too old resource version: {version}")
                self._chunk(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
                break
            if kind in faults.stalled:
                continue
            for number, what, key, body in news:
                version = number
                if key[:2] != (kind, space) or not _matches(body, query):
                    continue
                line = json.dumps({"type": what, "object": body}).encode() + b"\n"
                if faults.take("cut_watches"):
                    self._chunk(line[: len(line) // 2])
                    raise _Cut
                self._chunk(line)
            if query.get("allowWatchBookmarks") == "true" and time.monotonic() > bookmark:
                bookmark = time.monotonic() + self.server_side.bookmark_seconds
                object_ = {
                    "kind": KINDS[kind][1],
                    "apiVersion": KINDS[kind][0],
                    "metadata": {"resourceVersion": str(version)},
                }
                self._chunk(json.dumps({"type": "BOOKMARK", "object": object_}).encode() + b"\n")
        self._end_chunks()

    def _log(self, pod: str, query: dict[str, str]) -> None:
        found = self.server_side.log(pod, query.get("container", "main"))
        if isinstance(found, str):
            code = 404 if "not found" in found else 400
            self._refuse(code, "NotFound" if code == 404 else "BadRequest", found)
            return
        path, ended = found
        self._begin_chunks()
        faults = self.server_side.faults

        def over() -> bool:
            if faults.down:
                raise _Cut
            return ended()

        for line in _log_lines(path, over, query.get("follow") == "true"):
            stamp, _, text = line.partition(b" ")
            # Kubernetes has sinceTime in whole seconds.
            if stamp[:19] < query.get("sinceTime", "")[:19].encode():
                continue
            self._chunk(line if query.get("timestamps") == "true" else text)
            if self.server_side.faults.take("cut_logs") or self.server_side.faults.down:
                raise _Cut
        while faults.open_logs:
            time.sleep(0.02)
            if faults.down:
                raise _Cut
        self._end_chunks()

    def _answer(
        self, code: int, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        raw = json.dumps(body).encode()
        self.send_response(code)
        for name, value in {
            "Content-Type": "application/json", "Content-Length": str(len(raw)), **(headers or {})
        }.items():  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        if code >= 400 and self.server_side.faults.take("cut_refusals"):
            self.wfile.write(raw[: len(raw) // 2])
            self.close_connection = True
            raise _Cut
        self.wfile.write(raw)

    def _refuse(
        self, code: int, reason: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        self._answer(code, _status(code, reason, message), headers)

    def _begin_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

    def _end_chunks(self) -> None:
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }


def _matches(body: dict[str, Any], query: dict[str, str]) -> bool:
    labels = body["metadata"].get("labels") or {}
    wanted = [each.split("=", 1) for each in query.get("labelSelector", "").split(",") if each]
    fields = [each.split("=", 1) for each in query.get("fieldSelector", "").split(",") if each]
    return all(labels.get(key) == value for key, value in wanted) and all(
        _field(body, path) == value for path, value in fields
    )


def _field(body: dict[str, Any], path: str) -> Any:
    found: Any = body
    for name in path.split("."):
        found = found.get(name, {})
    return found


def _log_lines(path: Path, ended: Callable[[], bool], follow: bool) -> Iterator[bytes]:
    rest = b""
    with open(path, "rb") as file:
        while True:
            over = ended()
            while part := file.read(65536):
                *lines, rest = (rest + part).split(b"\n")
                yield from (line + b"\n" for line in lines)
            if over or not follow:
                return
            time.sleep(0.02)


def schema_problems(body: dict[str, Any], version: str) -> list[str]:
    """What the strict schema of a version says of an object."""
    if body["kind"] not in BUILT_IN:
        return extension_problems(body, lambda job: schema_problems(job, version))
    found = _validator(body["kind"].lower(), body["apiVersion"].replace("/", "-"), version)
    return [str(error.message) for error in found.iter_errors(body)]


@functools.cache
def _validator(kind: str, group: str, version: str) -> Any:
    """As kubernetes_validate makes one, for each object."""
    import jsonschema
    import referencing
    from kubernetes_validate.utils import schema_contents

    folder = f"kubernetes-json-schema/v{version}.0-local-strict"
    schema = schema_contents(f"{folder}/{kind}-{group}.json", version)
    definitions = schema_contents(f"{folder}/_definitions.json", version)
    registry = referencing.Registry()
    for contents in (schema, definitions):
        registry = referencing.Resource.from_contents(contents) @ registry
    return jsonschema.validators.Draft202012Validator(schema, registry=registry.crawl())
