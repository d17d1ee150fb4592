"""Challenge and response: both ends of a connection prove that they know a token, never sending it.

Parameter servers and their clients use it, the processes of a group at their rendezvous, and the
launchers of several hosts. Each protocol frames the following in its own way:

1. Each side sends a nonce, `NONCE_BYTES` at random, fresh for each connection.
2. From the token, the protocol's name and both nonces each side derives the connection's key::

       key = HMAC-SHA256(token, protocol "|" nonce of the listener "|" nonce of the connector)

3. A side proves that it has the key, and so the token, by `PROOF_BYTES` that also sign a text,
   which may be empty::

       proof = HMAC-SHA256(key, side "|" number "|" text)

   where ``side`` is ``listener`` or ``connector``, and ``number`` counts the texts that this side
   has signed on this connection, from 0, in decimal.

So what was recorded opens no other connection (the nonces differ), cannot be repeated or reordered
on the same one (the number), cannot be sent back to who said it (the side) and is worth nothing in
another protocol with the same token (its name). Nothing is encrypted; a protocol that does not sign
all it sends needs TLS against those who can change the traffic. Who records an exchange can try
guesses of the token offline, so a token is to be random.

Follows the challenge-response of ISO/IEC 9798-4 with HMAC (RFC 2104).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

NONCE_BYTES = 32
PROOF_BYTES = 32

TOKEN_VARIABLE = "DRUMLINE_CLUSTER_TOKEN"
FILE_VARIABLE = "DRUMLINE_CLUSTER_TOKEN_FILE"
HOW_TO_SET = (
    f"Give all processes of the cluster the same one, made for example by 'openssl rand -hex 32', "
    f"in the environment variable {TOKEN_VARIABLE}, or in a file that {FILE_VARIABLE} names. "
    f"'drumline launch' does this by itself."
)

_SHORTEST = 16


class TokenError(ValueError):
    """The cluster's token is too short to be a secret, or its file cannot be read."""


def given_token() -> str | None:
    """The cluster's token, as the environment gives it to all its processes; None without one.

    Raises:
        TokenError: if the token is too short to be a secret, or its file cannot be read.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    source = TOKEN_VARIABLE
    if token is None and (path := os.environ.get(FILE_VARIABLE)):
        token, source = _read(path), path
    if token is not None and len(token) < _SHORTEST:
        raise TokenError(
            f"The token in {source} has {len(token)} characters; a secret needs at least "
            f"{_SHORTEST}. {HOW_TO_SET}"
        )
    return token


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(
            f"The cluster's token cannot be read from {path}, which {FILE_VARIABLE} names: {error}"
        ) from None


def new_nonce() -> bytes:
    """Return `NONCE_BYTES` from the system's source of randomness."""
    return secrets.token_bytes(NONCE_BYTES)


def token_digest(token: str, text: bytes) -> bytes:
    """Return the HMAC-SHA256 of `text` under `token`: 32 bytes."""
    return hmac.digest(_bytes_of(token), text, hashlib.sha256)


def same_token(one: str, other: str) -> bool:
    """Return whether two tokens of this process are equal, compared in constant time."""
    return hmac.compare_digest(_bytes_of(one), _bytes_of(other))


def _bytes_of(token: str) -> bytes:
    return token.encode(errors="surrogateescape")  # what was not UTF-8 in the environment


class ConnectionKey:
    """The key of one connection, by which one side signs what it says and checks the other's.

    Args:
        token: what both sides must know.
        protocol: the protocol's name and version.
        listener_nonce: of the side that accepted the connection.
        connector_nonce: of the side that opened it.
        listens: which of the two this is.

    Raises:
        ValueError: if a nonce has another length than `NONCE_BYTES`.

    Example:
        >>> nonces = new_nonce(), new_nonce()
        >>> server = ConnectionKey("token", b"example 1", *nonces, listens=True)
        >>> client = ConnectionKey("token", b"example 1", *nonces, listens=False)
        >>> server.verify(client.sign(b"text"), b"text")
        True
    """

    def __init__(
        self,
        token: str,
        protocol: bytes,
        listener_nonce: bytes,
        connector_nonce: bytes,
        *,
        listens: bool,
    ) -> None:
        for nonce in (listener_nonce, connector_nonce):
            if len(nonce) != NONCE_BYTES:
                raise ValueError(f"a nonce has {NONCE_BYTES} bytes, got {len(nonce)}")
        self._key = token_digest(token, b"|".join((protocol, listener_nonce, connector_nonce)))
        self._own, self._peer = (
            (b"listener", b"connector") if listens else (b"connector", b"listener")
        )
        self._signed = 0
        self._verified = 0

    def sign(self, text: bytes = b"") -> bytes:
        """Return the proof of the next text that this side sends: `PROOF_BYTES`."""
        proof = self._proof(self._own, self._signed, text)
        self._signed += 1
        return proof

    def verify(self, proof: bytes, text: bytes = b"") -> bool:
        """Return whether `proof` is that of the next `text` of the other side, in constant time.

        After False the connection is to be ended: what comes next is not to be believed.
        """
        genuine = hmac.compare_digest(self._proof(self._peer, self._verified, text), proof)
        self._verified += genuine
        return genuine

    def sign_line(self, line: bytes) -> bytes:
        """Return `line`, this side's next text, behind its proof in hexadecimal and a space."""
        return self.sign(line).hex().encode() + b" " + line

    def open_line(self, signed: bytes) -> bytes | None:
        """Return the text of the other side's next signed line, or None if it is not genuine."""
        proof, _, line = signed.partition(b" ")
        try:
            genuine = self.verify(bytes.fromhex(proof.decode("ascii")), line)
        except ValueError:  # not hexadecimal
            return None
        return line if genuine else None

    def _proof(self, side: bytes, number: int, text: bytes) -> bytes:
        return hmac.digest(self._key, side + b"|%d|" % number + text, hashlib.sha256)
