"""A server with a certificate, and clients that trust it, or do not."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumline.jobs.commands import console
from drumline.jobs.server.app import TeamServer, team_app
from drumline.jobs.server.identity import Grant
from drumline.jobs.server.serving import HttpServer, listen, tls_problem
from drumline.jobs.service import connection
from drumline.jobs.service.login import Login, checked_url
from drumline.jobs.service.remote import RemoteWorkspace
from drumline.jobs.store.workspace import WorkspaceError


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    files = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
         f"subjectAltName=DNS:{name}", "-keyout", str(files[1]), "-out", str(files[0])],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[int, str, Path]]:
    cert, key = certificate(tmp_path, "localhost")
    team = TeamServer(tmp_path / "server")
    token = team.identity.add_member("ada")
    team.identity.add_workspace("vision")
    team.identity.set_grant(Grant("vision", "ada", "member"))
    with listen("127.0.0.1", 0) as listening:
        server = HttpServer(team_app(team, secure=True), cert=cert, key=key)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield listening.getsockname()[1], token, cert
        server.should_exit = True
        thread.join()
    team.close()


def test_a_port_in_use_is_named_with_the_remedy() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        said = f"port {port} {{}}cannot be used: Address already in use. Choose another by --port"
        with pytest.raises(OSError, match=said.format("of 127.0.0.1 ")):
            listen("127.0.0.1", port)
        with pytest.raises(ValueError, match=said.format("")):
            console._listen(port)
    with pytest.raises(OSError, match="of no.such.host.invalid cannot be used: "):
        listen("no.such.host.invalid", 0)


def test_a_certificate_that_is_trusted_by_the_client(
    served: tuple[int, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_RETRY_SECONDS", 0.0)
    port, token, cert = served
    url = f"https://localhost:{port}"
    assert RemoteWorkspace(Login(url, token, "vision", str(cert))).jobs()["jobs"] == []
    with pytest.raises(OSError, match="is not trusted: .*--ca FILE"):
        RemoteWorkspace(Login(url, token, "vision")).jobs()
    other, _ = certificate(tmp_path, "other")
    with pytest.raises(OSError, match="is not trusted"):
        RemoteWorkspace(Login(url, token, "vision", str(other))).jobs()
    # Another name than the certificate's.
    by_number = Login(f"https://127.0.0.1:{port}", token, "vision", str(cert))
    with pytest.raises(OSError, match="is not trusted"):
        RemoteWorkspace(by_number).jobs()
    # What speaks no TLS gets nothing, and disturbs no other.
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        plain.sendall(b"GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" not in plain.recv(100)
    assert RemoteWorkspace(Login(url, token, "vision", str(cert))).jobs()["jobs"] == []


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "one")
    _, other = certificate(tmp_path, "two")
    assert tls_problem(cert, key) == ""
    assert "are no certificate and its key" in tls_problem(cert, other)
    assert "are no certificate and its key" in tls_problem(key, key)
    assert "there is no file" in tls_problem(tmp_path / "none", key)


@pytest.mark.parametrize(
    "url",
    ["jobs.example.com", "ftp://x", "https://", "https://u:p@x", "https://x?q", "https://x:port"],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(WorkspaceError, match="is no server's address"):
        checked_url(url)


def test_tokens_are_not_sent_in_clear_over_a_network() -> None:
    with pytest.raises(WorkspaceError, match="has no TLS"):
        checked_url("http://jobs.example.com")
    assert checked_url("http://jobs.example.com/", insecure=True) == "http://jobs.example.com"
    assert checked_url("http://127.0.0.1:8470/") == "http://127.0.0.1:8470"
