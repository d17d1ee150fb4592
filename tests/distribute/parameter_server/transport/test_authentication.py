"""Who may connect: by the token, and by certificates."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumline.distribute.parameter_server.transport import (
    AuthenticationError,
    ClientTls,
    Connection,
    PeerUnavailableError,
    ServerTls,
    TransportServer,
    cluster_token,
    flight,
    handshake,
)
from drumline.distribute.parameter_server.transport.token import (
    FILE_VARIABLE,
    TOKEN_VARIABLE,
    proof,
)
from tests.distribute.parameter_server.transport.transport_support import TOKEN, Handlers, use_way


def test_another_token_is_refused(server: TransportServer, way: str) -> None:
    with pytest.raises(AuthenticationError, match=f"{server.address} refuses the connection"):
        Connection(server.address, token=TOKEN + "x", timeout_seconds=20)
    with Connection(server.address, token=TOKEN) as connection:
        assert connection.call("echo", {"n": 1}).header == {"n": 1}


@pytest.fixture
def remote(handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> Iterator[TransportServer]:
    use_way("network", monkeypatch)
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    with contextlib.closing(server):
        yield server


def test_the_stream_key_alone_is_not_enough(remote: TransportServer) -> None:
    """It can be overheard, unlike the token."""
    client = flight.connect(remote.address, None)
    stream = flight.FrameStream.open(client, handshake.stream_key(TOKEN))
    with pytest.raises(AuthenticationError, match="server does not know"):
        handshake.greet(stream, "what a thief may guess", {"stream": "requests"})
    stream.close()
    stream = flight.FrameStream.open(client, handshake.stream_key(TOKEN))
    handshake.tell(stream, {"nonce": "of a thief"})
    nonce = handshake.hear(stream)["nonce"]
    forged = proof("what a thief may guess", "client", "of a thief", nonce)
    handshake.tell(stream, {"proof": forged, "wishes": {"stream": "requests"}})
    with pytest.raises(flight.STREAM_ERRORS, match="token is missing or not this server's"):
        handshake.hear(stream)
    stream.close()


def test_neither_token_nor_what_it_proves_is_sent_in_the_clear(remote: TransportServer) -> None:
    """A recording of one connection holds no token, and opens no other."""
    recorded, address = [], remote.address
    with _relay(address, recorded) as relay, Connection(relay, token=TOKEN) as connection:
        connection.call("echo", {})
    assert TOKEN.encode() not in b"".join(recorded)
    assert b"proof" in b"".join(recorded)


def test_a_stranger_to_the_protocol_does_no_harm(remote: TransportServer) -> None:
    host, _, port = remote.address.rpartition(":")
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(500)):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(said)
    client = flight.connect(remote.address, None)
    for action in (client.list_actions, lambda: list(client.list_flights())):
        with pytest.raises(flight.STREAM_ERRORS, match="token"):
            action()
    with Connection(remote.address, token=TOKEN) as connection:
        assert connection.call("echo", {"n": 1}).header == {"n": 1}


def test_it_listens_at_its_address_only(remote: TransportServer) -> None:
    with pytest.raises(OSError, match="cannot listen at"):
        TransportServer(remote.address, {}, token=TOKEN).start()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", remote.port), timeout=5)
    with pytest.raises(OSError, match="an address of this machine"):
        TransportServer("192.0.2.1:0", {}, token=TOKEN).start()


def test_the_token_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    assert cluster_token() == cluster_token() and len(cluster_token()) == 64
    path = tmp_path / "token"
    path.write_text("from the file, long enough\n")
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    assert cluster_token() == "from the file, long enough"
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert cluster_token() == TOKEN
    monkeypatch.setenv(TOKEN_VARIABLE, "short")
    with pytest.raises(AuthenticationError, match="has 5 characters; a secret needs at least 16"):
        cluster_token()
    monkeypatch.delenv(TOKEN_VARIABLE)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(AuthenticationError, match="cannot be read from .*missing"):
        cluster_token()


def test_without_a_token_other_processes_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, handlers: Handlers
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    server = TransportServer("127.0.0.1:0", handlers.table(), token=cluster_token())
    server.start()
    with contextlib.closing(server):
        with Connection(server.address, token=cluster_token()) as connection:
            assert connection.call("echo", {"n": 1}).header == {"n": 1}
        use_way("network", monkeypatch)
        with pytest.raises(AuthenticationError, match="openssl rand -hex 32"):
            Connection(server.address, token=cluster_token())
        with pytest.raises(AuthenticationError, match="this server has no token"):
            Connection(server.address, token=TOKEN)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("server", "client", "stranger"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
            + ["-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext"]
            + ["subjectAltName=DNS:drumline.test", "-keyout", f"{name}.key", "-out", f"{name}.pem"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
    return folder


def test_tls_encrypts_and_checks_both_sides(
    certificates: Path, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_way("network", monkeypatch)
    files = {path.name: path for path in certificates.iterdir()}
    tls = ServerTls(files["server.pem"], files["server.key"], files["client.pem"])
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN, tls=tls)
    server.start()

    def client(authority: str, own: str | None) -> ClientTls:
        pair = (files[f"{own}.pem"], files[f"{own}.key"]) if own else (None, None)
        return ClientTls(files[f"{authority}.pem"], *pair, server_name="drumline.test")

    recorded: list[bytes] = []
    with contextlib.closing(server):
        with (
            _relay(server.address, recorded) as relay,
            Connection(relay, token=TOKEN, tls=client("server", "client")) as connection,
        ):
            assert connection.call("echo", {"secret": 1}).header == {"secret": 1}
        assert b"".join(recorded) and b"secret" not in b"".join(recorded)
        for wrong in (client("stranger", "client"), client("server", "stranger"), None):
            with pytest.raises(PeerUnavailableError):
                Connection(server.address, token=TOKEN, tls=wrong, timeout_seconds=5)
        with pytest.raises(PeerUnavailableError):
            Connection(server.address, token=TOKEN, tls=client("server", None), timeout_seconds=5)
        with pytest.raises(AuthenticationError):
            Connection(server.address, token=TOKEN + "x", tls=client("server", "client"))


def test_tls_from_the_environment(
    certificates: Path, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_way("network", monkeypatch)
    monkeypatch.setenv("DRUMLINE_TLS_CERTIFICATE", str(certificates / "server.pem"))
    with pytest.raises(ValueError, match="DRUMLINE_TLS_KEY"):
        TransportServer("127.0.0.1:0", {}, token=TOKEN).start()
    monkeypatch.setenv("DRUMLINE_TLS_KEY", str(certificates / "server.key"))
    monkeypatch.setenv("DRUMLINE_TLS_AUTHORITIES", str(certificates / "server.pem"))
    monkeypatch.setenv("DRUMLINE_TLS_SERVER_NAME", "drumline.test")
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    with contextlib.closing(server):
        with Connection(server.address, token=TOKEN) as connection:
            assert connection.call("echo", {"n": 1}).header == {"n": 1}
        monkeypatch.setenv("DRUMLINE_TLS_AUTHORITIES", str(certificates / "client.pem"))
        with pytest.raises(PeerUnavailableError):
            Connection(server.address, token=TOKEN, timeout_seconds=5)
        for name in ("CERTIFICATE", "KEY", "AUTHORITIES"):
            monkeypatch.delenv(f"DRUMLINE_TLS_{name}")
        with pytest.raises(PeerUnavailableError):
            Connection(server.address, token=TOKEN, timeout_seconds=5)


@contextlib.contextmanager
def _relay(address: str, recorded: list[bytes]) -> Iterator[str]:
    """An address that leads to another, and what passes it."""

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                recorded.append(data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                host, _, port = address.rpartition(":")
                far = socket.create_connection((host, int(port)))
                ends.extend((near, far))
                for pair in ((near, far), (far, near)):
                    threads.append(threading.Thread(target=pump, args=pair))
                    threads[-1].start()

    ends: list[socket.socket] = []
    threads: list[threading.Thread] = []
    listener = socket.create_server(("127.0.0.1", 0))
    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        for end in (listener, *ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *threads):
            thread.join()
        for end in (listener, *ends):
            end.close()
