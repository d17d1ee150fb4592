"""How both sides of a new stream prove that they know the token, in four frames.

The client sends a nonce; the server its own, with an HMAC of both under the token; the client its
HMAC, with what it wants; the server what it grants. The token itself is never sent. Without TLS,
someone who can change the traffic can still take over what follows.
"""

from __future__ import annotations

import json
from typing import Any

from drumline.distribute.parameter_server.transport.errors import (
    AuthenticationError,
    ProtocolError,
)
from drumline.distribute.parameter_server.transport.flight import FrameStream
from drumline.distribute.parameter_server.transport.token import (
    HOW_TO_SET,
    is_made_here,
    new_nonce,
    proof,
    same,
)

_LONGEST = 64 * 1024


def stream_key(token: str) -> str:
    """What clients send first of all, so that strangers are refused before they can send more."""
    return proof(token, "stream")


def greet(stream: FrameStream, token: str, wishes: dict[str, Any]) -> dict[str, Any]:
    """The client's side. Returns what the server grants.

    Raises:
        AuthenticationError: if the server does not know the token.
        ProtocolError: if it is no server of this kind, or ended the stream.
    """
    nonce = new_nonce()
    _send(stream, {"nonce": nonce})
    answer = _receive(stream)
    nonces = (nonce, str(answer.get("nonce")))
    if not same(proof(token, "server", *nonces), answer.get("proof")):
        raise AuthenticationError("the server does not know the cluster's token")
    _send(stream, {"proof": proof(token, "client", *nonces), "wishes": wishes})
    return _receive(stream)


def receive_wishes(stream: FrameStream, token: str) -> dict[str, Any]:
    """The server's side, up to what the client wants; the grant is sent by `tell`.

    Raises:
        AuthenticationError: if the client does not know the token.
        ProtocolError: if it is no client of this kind, or ended the stream.
    """
    theirs = _receive(stream).get("nonce")
    nonces = (str(theirs), new_nonce())
    _send(stream, {"nonce": nonces[1], "proof": proof(token, "server", *nonces)})
    answer = _receive(stream)
    if not same(proof(token, "client", *nonces), answer.get("proof")):
        raise AuthenticationError(refusal(token))
    wishes = answer.get("wishes")
    if not isinstance(wishes, dict):
        raise ProtocolError("a client has not said what it wants")
    return wishes


def tell(stream: FrameStream, words: dict[str, Any]) -> None:
    """Say one thing more, once both sides know each other."""
    _send(stream, words)


def hear(stream: FrameStream) -> dict[str, Any]:
    """What the other side said by `tell`.

    Raises:
        ProtocolError: if it did not.
    """
    return _receive(stream)


def refusal(token: str) -> str:
    """Why a client is refused that does not know `token`."""
    if is_made_here(token):
        return (
            "this server has no token, so that only its own process can use it. Set one: "
            + HOW_TO_SET
        )
    return "the cluster's token is missing or not this server's. " + HOW_TO_SET


def _send(stream: FrameStream, words: dict[str, Any]) -> None:
    with stream.lock:
        stream.write(json.dumps(words).encode())


def _receive(stream: FrameStream) -> dict[str, Any]:
    received = stream.read()
    if received is None:
        raise ProtocolError("the other side ended the stream before it was set up")
    frame, _ = received
    try:
        words = json.loads(bytes(frame)) if len(frame) <= _LONGEST else None
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, dict):
        raise ProtocolError("the other side does not speak this protocol")
    return words
