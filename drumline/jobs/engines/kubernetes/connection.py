"""How a cluster is reached: from a kubeconfig file, or from inside one of its pods.

https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import json
import os
import ssl
import subprocess
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from drumline.jobs.engines.kubernetes.settings import is_namespace

IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PLUGIN_SECONDS = 60
_EARLY_SECONDS = 60.0  # A token is renewed before it has expired.


class ConnectionSettingsError(Exception):
    """A kubeconfig that cannot be used; the message says why."""


@dataclasses.dataclass(frozen=True)
class KubernetesCluster:
    """How to reach a cluster.

    Attributes:
        server: its address, as ``https://10.0.0.1:6443``.
        tls: for https.
        server_name: the name its certificate has, if not the one in `server`.
        namespace: what the kubeconfig's context or the pod has.
        credentials: says who asks.
    """

    server: str
    tls: ssl.SSLContext | None
    server_name: str | None
    namespace: str
    credentials: Credentials


class Credentials:
    """A bearer token: one that stands, that of a file, or what a program says.

    Args:
        token: one that stands.
        file: read each time, as others renew it.
        plugin: ``exec`` of a kubeconfig.
    """

    def __init__(
        self,
        token: str = "",
        file: Path | None = None,
        plugin: Mapping[str, Any] | None = None,
    ) -> None:
        self._token = token
        self._file = file
        self._plugin = plugin
        self._expires: datetime.datetime | None = None

    def token(self) -> str:
        """The token, or the empty string.

        Raises:
            ConnectionSettingsError: it cannot be had.
        """
        token = self._token
        if self._file is not None:
            try:
                token = self._file.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConnectionSettingsError(f"the token cannot be read: {error}") from None
        elif self._plugin is not None and (not self._token or self._is_old()):
            self._token, self._expires = _asked(self._plugin)
            token = self._token
        if not (token.isascii() and token.isprintable()):
            raise ConnectionSettingsError("the token has characters that no token has")
        return token

    def forget(self) -> bool:
        """Ask again the next time; False if the answer would be the same."""
        if self._plugin is not None:
            self._token = ""
        return self._plugin is not None or self._file is not None

    def _is_old(self) -> bool:
        if self._expires is None:
            return False
        now = datetime.datetime.now(datetime.UTC)
        return self._expires - now < datetime.timedelta(seconds=_EARLY_SECONDS)


def read_cluster(kubeconfig: str, context: str = "") -> KubernetesCluster:
    """The cluster of a kubeconfig's context.

    Args:
        kubeconfig: the file; empty for the cluster in one of whose pods this runs.
        context: its name; the current one if it is empty.

    Raises:
        ConnectionSettingsError: it cannot be used.
    """
    if not kubeconfig:
        return _of_this_pod()
    path = Path(kubeconfig)
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConnectionSettingsError(f"{path} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise ConnectionSettingsError(f"{path} is no kubeconfig")
    chosen = context or config.get("current-context") or ""
    if not chosen:
        names = _names(_listed(path, config, "contexts"))
        raise ConnectionSettingsError(f"{path} has no current context; name one of: {names}")
    found = _entry(path, config, "contexts", "context", chosen)
    cluster = _entry(path, config, "clusters", "cluster", found.get("cluster"))
    user = _entry(path, config, "users", "user", found["user"]) if found.get("user") else {}
    for key in ("proxy-url",):
        if key in cluster:
            raise ConnectionSettingsError(f"{path}: {key} is not supported")
    for key in ("auth-provider", "username", "as"):
        if key in user:
            raise ConnectionSettingsError(
                f"{path}: the user's {key} is not supported; use a certificate, a token or exec"
            )
    server = str(cluster.get("server", ""))
    if not _is_address(server):
        raise ConnectionSettingsError(f"{path}: {server!r} is no address of a server")
    namespace = str(found.get("namespace") or "default")
    if not is_namespace(namespace):
        raise ConnectionSettingsError(
            f"{path}: the context's namespace {namespace!r} is no name of a namespace"
        )
    name = cluster.get("tls-server-name")
    plugin = user.get("exec")
    if plugin is not None:
        plugin = _mapping(path, "exec", plugin)
    try:
        tls = _tls(path.parent, cluster, user) if server.startswith("https") else None
    except (OSError, binascii.Error, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConnectionSettingsError(f"{path}: its certificates cannot be used: {error}") from None
    token_file = user.get("tokenFile")
    return KubernetesCluster(
        server,
        tls,
        str(name) if name else None,
        namespace,
        Credentials(
            str(user.get("token", "")),
            path.parent / str(token_file) if token_file else None,
            plugin,
        ),
    )


def _entry(path: Path, config: Mapping[str, Any], kind: str, inner: str, name: Any) -> Any:
    listed = _listed(path, config, kind)
    for each in listed:
        if each.get("name") == name:
            return _mapping(path, f"the {inner} {name!r}", each.get(inner) or {})
    names = _names(listed)
    raise ConnectionSettingsError(f"{path} has no {inner} {name!r}; it has: {names or 'none'}")


def _listed(path: Path, config: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    listed = config.get(kind) or []
    if not isinstance(listed, list):
        raise ConnectionSettingsError(f"{path}: {kind} is no list")
    return [each for each in listed if isinstance(each, dict)]


def _names(listed: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(str(each.get("name")) for each in listed)


def _mapping(path: Path, what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConnectionSettingsError(f"{path}: {what} is no mapping")
    return value


def _is_address(server: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(server)
        # What is asked for is in the first line of a request, and may not break it.
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and server.isascii()
            and server.isprintable()
            and " " not in server
        )
    except ValueError:
        return False


def _tls(folder: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _bytes(folder, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = _bytes(folder, user, "client-certificate")
    key = _bytes(folder, user, "client-key")
    if certificate and key:
        # OpenSSL takes files only; this one is in memory, and of this process alone.
        held = os.memfd_create("drumline-client")
        try:
            os.write(held, certificate.rstrip() + b"\n" + key)
            context.load_cert_chain(f"/proc/self/fd/{held}")
        finally:
            os.close(held)
    return context


def _bytes(folder: Path, fields: Mapping[str, Any], key: str) -> bytes:
    if f"{key}-data" in fields:
        return base64.b64decode(str(fields[f"{key}-data"]), validate=True)
    return (folder / str(fields[key])).read_bytes() if fields.get(key) else b""


def _of_this_pod() -> KubernetesCluster:
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    if not host or not (IN_POD / "token").exists():
        raise ConnectionSettingsError(
            "there is no kubeconfig, and this is no pod of a cluster: set KUBECONFIG, or give "
            "--set kubeconfig=FILE"
        )
    shown = f"[{host}]" if ":" in host else host
    try:
        tls = ssl.create_default_context(cafile=str(IN_POD / "ca.crt"))
        namespace = (IN_POD / "namespace").read_text().strip()
    except OSError as error:
        raise ConnectionSettingsError(f"the pod's service account: {error}") from None
    credentials = Credentials(file=IN_POD / "token")
    return KubernetesCluster(f"https://{shown}:{port}", tls, None, namespace, credentials)


def _asked(plugin: Mapping[str, Any]) -> tuple[str, datetime.datetime | None]:
    """The token that a program of the kubeconfig gives, and until when.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    """
    given = plugin.get("args") or []
    args = given if isinstance(given, list) else [given]
    command = [str(plugin.get("command", "")), *map(str, args)]
    version = str(plugin.get("apiVersion", "client.authentication.k8s.io/v1"))
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    env = {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    listed = plugin.get("env") or []
    env |= {
        str(each["name"]): str(each.get("value", ""))
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict) and each.get("name")
    }
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PLUGIN_SECONDS
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ConnectionSettingsError(f"{command[0]}, which gives the token: {error}") from None
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())[-300:]
        raise ConnectionSettingsError(f"{command[0]}, which gives the token, has failed: {said}")
    try:
        status = json.loads(done.stdout)["status"]
        expires = status.get("expirationTimestamp")
        until = datetime.datetime.fromisoformat(expires) if expires else None
        if until is not None and until.tzinfo is None:
            until = until.replace(tzinfo=datetime.UTC)
        token = str(status["token"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConnectionSettingsError(f"{command[0]} gives no token") from None
    return token, until
