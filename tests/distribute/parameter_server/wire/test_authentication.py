"""Who may connect: by the token, and by certificates."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drumline._authentication import (
    FILE_VARIABLE,
    NONCE_BYTES,
    TOKEN_VARIABLE,
    ConnectionKey,
)
from drumline.distribute.parameter_server.wire import (
    AuthenticationError,
    ClientTls,
    Connection,
    PeerUnavailableError,
    ServerTls,
    TransportServer,
    cluster_token,
    greeting,
)
from drumline.distribute.parameter_server.wire import server as server_module
from tests.distribute.parameter_server.wire.wire_support import (
    TOKEN,
    Handlers,
    connected,
    use_way,
    wait_until,
)


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


def test_a_server_proves_nothing_to_strangers(remote: TransportServer) -> None:
    """Else they could try guesses of the token against what it shows."""
    with connected(remote) as stream:
        stream.write([greeting.PROTOCOL])
        nonce = bytes(stream.take(len(greeting.PROTOCOL) + NONCE_BYTES))[len(greeting.PROTOCOL) :]
        guess, own = "what a thief may guess", bytes(NONCE_BYTES)
        forged = ConnectionKey(guess, greeting.PROTOCOL, nonce, own, listens=False).sign()
        stream.write([own, forged])
        assert bytes(stream.take(1)) == b"-"
        (length,) = struct.unpack("<I", stream.take(4))
        assert b"token is missing or not this server's" in bytes(stream.take(length))
        assert stream.byte() is None


def test_nothing_of_strangers_is_parsed(
    remote: TransportServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[object] = []
    monkeypatch.setattr(greeting.json, "loads", parsed.append)
    with connected(remote) as stream:
        greeting.tell(stream, {"stream": "requests"})
        assert stream.byte() is None
    with connected(remote) as stream:
        stream.write([greeting.PROTOCOL, bytes(NONCE_BYTES + 32), b"\x10\0\0\0", b"[" * 16])
        while stream.byte() is not None:
            pass
    assert not parsed


def test_a_false_server_is_refused() -> None:
    for answer in (b"+" + bytes(32), b"?" * 40, b"-\xff\xff\xff\xff"):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=_answer, args=(listener, answer))
            thread.start()
            with pytest.raises((AuthenticationError, PeerUnavailableError)) as caught:
                Connection(f"127.0.0.1:{listener.getsockname()[1]}", token=TOKEN, timeout_seconds=9)
            thread.join()
            assert ("server does not know" in str(caught.value)) == answer.startswith(b"+")


def _answer(listener: socket.socket, answer: bytes) -> None:
    """What somebody says who cannot check what a client shows, and lets him in."""
    with listener.accept()[0] as far:
        far.sendall(greeting.PROTOCOL + bytes(NONCE_BYTES))
        far.recv(len(greeting.PROTOCOL) + NONCE_BYTES + 32, socket.MSG_WAITALL)
        far.sendall(answer)
        far.recv(1)


def test_neither_token_nor_what_opens_another_connection_is_sent_in_the_clear(
    remote: TransportServer,
) -> None:
    """A recording of one connection holds no token, and opens no other."""
    said: list[bytes] = []
    with (
        _relay(remote.address, [], said) as relay,
        Connection(relay, token=TOKEN) as connection,
    ):
        connection.call("echo", {})
    assert TOKEN.encode() not in b"".join(said) and greeting.PROTOCOL in b"".join(said)
    with connected(remote) as stream:
        stream.write([b"".join(said)])
        stream.take(len(greeting.PROTOCOL) + NONCE_BYTES)
        assert bytes(stream.take(1)) == b"-"


def test_a_stranger_to_the_protocol_does_no_harm(remote: TransportServer) -> None:
    host, _, port = remote.address.rpartition(":")
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + os.urandom(500)):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(said)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b"", "he is turned away at once"
    with Connection(remote.address, token=TOKEN) as connection:
        assert connection.call("echo", {"n": 1}).header == {"n": 1}


@given(st.binary(max_size=200), st.integers(0, 200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_forged_greetings_open_nothing(remote: TransportServer, noise: bytes, at: int) -> None:
    right = greeting.PROTOCOL + bytes(NONCE_BYTES) + bytes(32)
    with connected(remote) as stream, contextlib.suppress(OSError):
        stream.write([right[:at] + noise])
        stream.end_writing()
        heard = bytearray()
        while (byte := stream.byte()) is not None:
            heard.append(byte)
        assert b"+" not in heard[len(greeting.PROTOCOL) + NONCE_BYTES :][:1]
    with remote._newcomers._changed:
        assert not remote._lanes


def test_who_says_nothing_or_one_byte_after_another_is_sent_away(
    remote: TransportServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline is for all of the greeting, not for each piece of it."""
    monkeypatch.setattr(server_module, "GREETING_SECONDS", 0.5)
    with connected(remote) as silent, connected(remote) as slow:
        ended = threading.Event()
        for piece in greeting.PROTOCOL * 100:
            if ended.is_set():
                break
            try:
                slow.write([bytes([piece])])
            except OSError:
                ended.set()
            ended.wait(0.1)
        assert ended.is_set()
        assert silent.byte() is None
    wait_until(lambda: not remote._newcomers._came)


def test_strangers_do_not_take_all_places(
    remote: TransportServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MOST_UNGREETED", 4)
    monkeypatch.setattr(server_module, "_UNGREETED_SECONDS", 0.05)
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(connected(remote)) for _ in range(40)]
        with Connection(remote.address, token=TOKEN, timeout_seconds=20) as connection:
            assert connection.call("echo", {"n": 1}).header == {"n": 1}
        assert len(remote._newcomers._came) <= 4
        assert strangers[0].byte() is None, "who came first had to go"
    wait_until(lambda: not remote._newcomers._came)


def test_as_many_clients_as_there_are_may_come_at_once(
    remote: TransportServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than may be unknown at once: they wait for each other, and none is turned away."""
    monkeypatch.setattr(server_module, "MOST_UNGREETED", 3)
    with ThreadPoolExecutor(12) as pool:
        opened = list(pool.map(lambda _: Connection(remote.address, token=TOKEN), range(24)))
    for connection in opened:
        assert connection.call("echo", {"n": 1}).header == {"n": 1}
        connection.close()


@pytest.mark.parametrize("host", ["[::1]", "[::]", "localhost"])
def test_it_listens_at_names_and_addresses_of_ipv6(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    use_way("network", monkeypatch)
    server = TransportServer(f"{host}:0", handlers.table(), token=TOKEN)
    server.start()
    with contextlib.closing(server):
        assert server.address == f"{host}:{server.port}"
        reached = [server.address.replace("[::]", "[::1]")]
        if host == "[::]":
            reached.append(f"127.0.0.1:{server.port}")
        for address in reached:
            with Connection(address, token=TOKEN) as connection:
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
            _echo_in_both_directions_at_once(connection)
        assert b"".join(recorded) and b"secret" not in b"".join(recorded)
        for wrong, why in (
            (client("stranger", "client"), "no encrypted connection"),
            (client("server", "stranger"), "no encrypted connection|Do both sides"),
            (None, "Do both sides, or neither, use TLS"),
        ):
            with pytest.raises(PeerUnavailableError, match=why):
                Connection(server.address, token=TOKEN, tls=wrong, timeout_seconds=5)
        with pytest.raises(PeerUnavailableError):
            Connection(server.address, token=TOKEN, tls=client("server", None), timeout_seconds=5)
        with pytest.raises(AuthenticationError):
            Connection(server.address, token=TOKEN + "x", tls=client("server", "client"))


def _echo_in_both_directions_at_once(connection: Connection) -> None:
    """Far more than all buffers hold: who reads must not wait until he can write."""
    large = np.arange(1_000_000)

    def ask(number: int) -> bool:
        sizes = (large, large[: number * 3000], np.full(3, number))
        back = connection.call("echo", {"i": number}, sizes, timeout_seconds=60)
        return all(map(np.array_equal, back.arrays, sizes))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(12)))


def test_a_missing_or_broken_certificate_is_named(
    certificates: Path, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = certificates / "server.key"
    for wrong in (certificates / "missing.pem", key):
        with pytest.raises(OSError, match=f"TLS cannot use .*{wrong.name}"):
            TransportServer("127.0.0.1:0", {}, token=TOKEN, tls=ServerTls(wrong, key)).start()
    use_way("network", monkeypatch)
    with pytest.raises(OSError, match=r"TLS cannot use .*missing\.pem"):
        Connection("127.0.0.1:1", token=TOKEN, tls=ClientTls(certificates / "missing.pem"))


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
def _relay(address: str, recorded: list[bytes], said: list[bytes] | None = None) -> Iterator[str]:
    """An address that leads to another, what passes it, and what the first client says of that."""

    def pump(source: socket.socket, target: socket.socket, first: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                recorded.append(data)
                if first and said is not None:
                    said.append(data)
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
                    first = len(ends) == 2 and pair[0] is near
                    threads.append(threading.Thread(target=pump, args=(*pair, first)))
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
