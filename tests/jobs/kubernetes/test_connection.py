"""A kubeconfig: certificates, tokens, programs that give them, and what cannot be used."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.jobs.engines.kubernetes.api import KubernetesApi, NoAnswer
from drumline.jobs.engines.kubernetes.connection import ConnectionSettingsError, read_cluster
from tests.jobs.kubernetes.api_server import ApiServer, ObjectStore


def kubeconfig(folder: Path, server: str, cluster: Any = None, user: Any = None) -> str:
    path = folder / "config"
    path.write_text(json.dumps({
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
        "current-context": "x",
    }))  # fmt: skip
    return str(path)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    files = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=kubernetes", "-addext",
         "subjectAltName=DNS:kubernetes", "-keyout", str(files[1]), "-out", str(files[0])],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


@pytest.fixture
def server(certificate: tuple[Path, Path]) -> Iterator[ApiServer]:
    made = ApiServer(ObjectStore(), "sesame", certificate)
    yield made
    made.close()


def ask(path: str) -> dict[str, Any]:
    cluster = read_cluster(path)
    api = KubernetesApi(cluster, cluster.namespace, lambda seconds: None)
    return api.request("GET", api.place("Pod"))


def test_certificates_and_a_token(
    server: ApiServer, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    data = base64.b64encode(certificate[0].read_bytes()).decode()
    trusted = {"certificate-authority-data": data, "tls-server-name": "kubernetes"}
    assert ask(kubeconfig(tmp_path, server.address, trusted, {"token": "sesame"}))["items"] == []
    key = base64.b64encode(certificate[1].read_bytes()).decode()
    user = {"token": "sesame", "client-certificate-data": data, "client-key-data": key}
    assert ask(kubeconfig(tmp_path, server.address, trusted, user))["items"] == []
    (tmp_path / "ca.pem").write_bytes(certificate[0].read_bytes())
    (tmp_path / "token").write_text("sesame\n")
    named = {"certificate-authority": "ca.pem", "tls-server-name": "kubernetes"}
    path = kubeconfig(tmp_path, server.address, named, {"tokenFile": "token"})
    assert ask(path)["items"] == []
    # Its name is not the one in its certificate.
    wrong = {"certificate-authority-data": data}
    with pytest.raises(NoAnswer, match="certificate verify failed"):
        ask(kubeconfig(tmp_path, server.address, wrong, {"token": "sesame"}))
    with pytest.raises(NoAnswer, match="certificate verify failed"):
        ask(kubeconfig(tmp_path, server.address, {}, {"token": "sesame"}))
    careless = {"insecure-skip-tls-verify": True}
    assert ask(kubeconfig(tmp_path, server.address, careless, {"token": "sesame"}))["items"] == []


def test_a_program_gives_the_token(server: ApiServer, tmp_path: Path) -> None:
    """It is asked again once its token is refused."""
    count = tmp_path / "count"
    program = f"""\
import json, os, pathlib
assert json.loads(os.environ["KUBERNETES_EXEC_INFO"])["kind"] == "ExecCredential"
count = pathlib.Path({str(count)!r})
tried = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(tried))
token = os.environ["FIRST"] if tried == 1 else "sesame"
print(json.dumps({{"status": {{"token": token, "expirationTimestamp": "2999-01-01T00:00:00Z"}}}}))
"""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", program],
        "env": [{"name": "FIRST", "value": "old"}],
    }
    path = kubeconfig(
        tmp_path, server.address, {"insecure-skip-tls-verify": True}, {"exec": plugin}
    )
    cluster = read_cluster(path)
    api = KubernetesApi(cluster, "n")
    for _ in range(3):
        assert api.request("GET", api.place("Pod"))["items"] == []
    assert count.read_text() == "2"
    plugin["args"] = ["-c", "import sys; sys.exit('log in first')"]
    path = kubeconfig(
        tmp_path, server.address, {"insecure-skip-tls-verify": True}, {"exec": plugin}
    )
    with pytest.raises(NoAnswer, match="which gives the token, has failed: log in first"):
        ask(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"current-context": ""}, "no current context; name one of: x"),
        ({"current-context": "y"}, "has no context 'y'; it has: x"),
        ({"clusters": []}, "has no cluster 'c'; it has: none"),
        ({"clusters": [{"name": "c", "cluster": {"server": "ftp://x"}}]}, "no address of a server"),
        ({"clusters": [{"name": "c", "cluster": {"proxy-url": "x"}}]}, "proxy-url is not"),
        (
            {"clusters": [{"name": "c", "cluster": {
                "server": "https://x", "certificate-authority-data": "!"}}]},
            "certificates cannot be used",
        ),
        ({"users": [{"name": "u", "user": {"username": "ada"}}]}, "username is not supported"),
        ({"users": [{"name": "u", "user": {"token": "a\nb"}}]}, "characters that no token has"),
        ({"contexts": {"x": 1}}, "contexts is no list"),
        ({"contexts": [{"name": "x", "context": {"cluster": "c", "namespace": "Team_A"}}]},
         "namespace 'Team_A' is no name"),
    ],
)  # fmt: skip
def test_what_cannot_be_used(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = Path(kubeconfig(tmp_path, "https://x"))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConnectionSettingsError, match=said):
        read_cluster(str(path)).credentials.token()


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionSettingsError, match="cannot be read"):
        read_cluster(str(tmp_path / "none"))
    (tmp_path / "config").write_text("- 1\n")
    with pytest.raises(ConnectionSettingsError, match="no kubeconfig"):
        read_cluster(str(tmp_path / "config"))
    (tmp_path / "config").write_text("{")
    with pytest.raises(ConnectionSettingsError, match="cannot be read"):
        read_cluster(str(tmp_path / "config"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConnectionSettingsError, match="no pod of a cluster"):
        read_cluster("")


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)
WHOLE: Any = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/x",
                  "tls-server-name": "k", "certificate-authority-data": ""}}],
    "users": [{"name": "u", "user": {"token": "t", "tokenFile": "none", "exec": {
        "command": "/none", "args": ["x"], "env": [{"name": "A", "value": "1"}]}}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    "current-context": "x",
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in items if isinstance(value, dict | list) else ():
        yield from places(each, (*path, key))


@given(st.sampled_from(list(places(WHOLE))), VALUES)
@settings(deadline=None)
def test_a_kubeconfig_with_anything_anywhere(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[Any, ...], value: Any
) -> None:
    """It can be used, or it is said why not."""
    config = copy.deepcopy(WHOLE)
    if place:
        inner = config
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
    path = tmp_path_factory.getbasetemp() / "any-kubeconfig"
    path.write_text(json.dumps(config if place else value))
    with contextlib.suppress(ConnectionSettingsError, NoAnswer):
        cluster = read_cluster(str(path))
        KubernetesApi(cluster, cluster.namespace, lambda seconds: None).get("Pod", "p")


def test_in_a_pod(
    server: ApiServer, certificate: tuple[Path, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    module = "drumline.jobs.engines.kubernetes.connection"
    monkeypatch.setattr(f"{module}.IN_POD", tmp_path)
    (tmp_path / "token").write_text("old")
    (tmp_path / "namespace").write_text("research")
    (tmp_path / "ca.crt").write_bytes(certificate[0].read_bytes())
    host, _, port = server.address.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    cluster = read_cluster("")
    assert (cluster.server, cluster.namespace) == (server.address, "research")
    assert cluster.credentials.token() == "old"
    (tmp_path / "token").write_text("sesame")
    assert cluster.credentials.token() == "sesame"
