"""Proving to each other that both know the token, without sending it.

Both sides greet with a random nonce. From both nonces and the token each derives the connection's
key, and every later line carries an HMAC-SHA256 over who says it, its number and its text: it can
be neither forged, nor repeated, nor moved to another connection. Nothing is encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets


def new_nonce() -> str:
    """64 hexadecimal digits."""
    return secrets.token_hex(32)


class Seal:
    """Signs and checks the lines of one connection.

    Args:
        token: what both must know.
        leader_nonce: host 0's.
        member_nonce: the other's.
        is_leader: which of the two this is.
    """

    def __init__(self, token: str, leader_nonce: str, member_nonce: str, is_leader: bool) -> None:
        nonces = f"{leader_nonce}|{member_nonce}".encode()
        self._key = hmac.digest(token.encode(), b"drumline-launch-1|" + nonces, hashlib.sha256)
        self._mine, self._theirs = (b"leader", b"member") if is_leader else (b"member", b"leader")
        self._sent = 0
        self._received = 0

    def sign(self, line: bytes) -> bytes:
        """The proof of the next line to be sent, in hexadecimal."""
        proof = self._proof(self._mine, self._sent, line)
        self._sent += 1
        return proof

    def check(self, line: bytes, proof: bytes) -> bool:
        """Whether `proof` is that of the next line received."""
        genuine = hmac.compare_digest(self._proof(self._theirs, self._received, line), proof)
        self._received += 1
        return genuine

    def _proof(self, who: bytes, number: int, line: bytes) -> bytes:
        text = who + b"|%d|" % number + line
        return hmac.new(self._key, text, hashlib.sha256).hexdigest().encode()
