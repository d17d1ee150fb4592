"""How both sides of a new stream prove that they know the cluster's token.

Each sends `PROTOCOL` first, so that who speaks another is turned away. Then follows the exchange of
`drumline._authentication` in this order: the server its nonce; the client its nonce and its proof;
the server ``+`` and, once it has checked that, its proof (or ``-`` and why not). All of this has a
fixed length, so that strangers get nothing parsed, and a server proves nothing to them. Then the
client says what it wants, and the server what it grants, each as a length and JSON.

Without TLS, someone who can change the traffic can still take over what follows.
"""

from __future__ import annotations

import functools
import json
import secrets
import struct
from typing import Any

from drumline._authentication import (
    HOW_TO_SET,
    NONCE_BYTES,
    PROOF_BYTES,
    ConnectionKey,
    TokenError,
    given_token,
    new_nonce,
    same_token,
)
from drumline.distribute.parameter_server.errors import AuthenticationError, ProtocolError
from drumline.distribute.parameter_server.wire.stream import Stream

PROTOCOL = b"drumline wire 3\n"

_ACCEPTED, _REFUSED = b"+", b"-"
_LENGTH = struct.Struct("<I")
_LONGEST = 64 * 1024


def cluster_token() -> str:
    """The cluster's token: from the environment, or else one made at random for this process.

    The latter serves clusters whose servers all live in one process; others cannot know it.

    Raises:
        AuthenticationError: if the token is too short to be a secret, or its file cannot be read.
    """
    try:
        return given_token() or _made_here()
    except TokenError as error:
        raise AuthenticationError(str(error)) from None


def is_made_here(token: str) -> bool:
    """Whether `token` was made at random for this process, so that no other can know it."""
    return same_token(token, _made_here())


@functools.cache
def _made_here() -> str:
    return secrets.token_hex(32)


def greet(stream: Stream, token: str) -> None:
    """Let both sides know each other; the client's part.

    Raises:
        AuthenticationError: if one of them does not know the token.
        ProtocolError: if the other is no server of this kind.
        OSError: if the stream breaks, or is not set up in time.
    """
    _send(stream, PROTOCOL)
    _hear_protocol(stream)
    theirs = bytes(stream.take(NONCE_BYTES))
    own = new_nonce()
    key = ConnectionKey(token, PROTOCOL, theirs, own, listens=False)
    _send(stream, own + key.sign())
    verdict = bytes(stream.take(1))
    if verdict == _REFUSED:
        raise AuthenticationError(_words(stream).decode(errors="replace"))
    if verdict != _ACCEPTED:
        raise _another_protocol()
    if not key.verify(bytes(stream.take(PROOF_BYTES))):
        raise AuthenticationError("the server does not know the cluster's token")


def be_greeted(stream: Stream, token: str) -> None:
    """Let both sides know each other; the server's part.

    Raises:
        AuthenticationError: if the client does not know the token. It was sent the reason.
        ProtocolError: if it is no client of this kind.
        OSError: if the stream breaks, or is not set up in time.
    """
    _hear_protocol(stream)
    own = new_nonce()
    _send(stream, PROTOCOL + own)
    said = bytes(stream.take(NONCE_BYTES + PROOF_BYTES))
    key = ConnectionKey(token, PROTOCOL, own, said[:NONCE_BYTES], listens=True)
    if not key.verify(said[NONCE_BYTES:]):
        why = refusal(token)
        _send(stream, _REFUSED + _LENGTH.pack(len(why.encode())) + why.encode())
        raise AuthenticationError(why)
    _send(stream, _ACCEPTED + key.sign())


def tell(stream: Stream, words: dict[str, Any]) -> None:
    """Say something, once both sides know each other.

    Raises:
        OSError: if the stream breaks, or is not set up in time.
    """
    text = json.dumps(words).encode()
    _send(stream, _LENGTH.pack(len(text)) + text)


def hear(stream: Stream) -> dict[str, Any]:
    """What the other side said by `tell`.

    Raises:
        ProtocolError: if it said something else.
        OSError: if the stream breaks, or is not set up in time.
    """
    try:
        words = json.loads(_words(stream))
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, dict):
        raise _another_protocol()
    return words


def refusal(token: str) -> str:
    """Why a client is refused that does not know `token`."""
    if is_made_here(token):
        return (
            "this server has no token, so that only its own process can use it. Set one: "
            + HOW_TO_SET
        )
    return "the cluster's token is missing or not this server's. " + HOW_TO_SET


def _send(stream: Stream, data: bytes) -> None:
    with stream.lock:
        stream.write([data])


def _hear_protocol(stream: Stream) -> None:
    if stream.take(len(PROTOCOL)) != PROTOCOL:
        raise _another_protocol()


def _words(stream: Stream) -> bytes:
    (length,) = _LENGTH.unpack(stream.take(_LENGTH.size))
    if length > _LONGEST:
        raise _another_protocol()
    return bytes(stream.take(length))


def _another_protocol() -> ProtocolError:
    return ProtocolError("the other side does not speak this protocol, or another release's")
