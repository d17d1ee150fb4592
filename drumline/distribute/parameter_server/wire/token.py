"""The secret that the processes of a cluster share, and proving to know it without sending it."""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from drumline.distribute.parameter_server.wire.errors import AuthenticationError

TOKEN_VARIABLE = "DRUMLINE_CLUSTER_TOKEN"
FILE_VARIABLE = "DRUMLINE_CLUSTER_TOKEN_FILE"
HOW_TO_SET = (
    f"Give all processes of the cluster the same one, made for example by 'openssl rand -hex 32', "
    f"in the environment variable {TOKEN_VARIABLE}, or in a file that {FILE_VARIABLE} names. "
    f"'drumline launch' does this by itself."
)
NONCE_BYTES = 32
PROOF_BYTES = 32

_SHORTEST = 16
_PURPOSE = b"drumline-wire-2"


def cluster_token() -> str:
    """The cluster's token: from the environment, or else one made at random for this process.

    The latter serves clusters whose servers all live in one process; others cannot know it.

    Raises:
        AuthenticationError: if the token is too short to be a secret, or its file cannot be read.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    source = TOKEN_VARIABLE
    if token is None and (path := os.environ.get(FILE_VARIABLE)):
        token, source = _read(path), path
    if token is None:
        return _made_here()
    if len(token) < _SHORTEST:
        raise AuthenticationError(
            f"The token in {source} has {len(token)} characters; a secret needs at least "
            f"{_SHORTEST}. {HOW_TO_SET}"
        )
    return token


def is_made_here(token: str) -> bool:
    """Whether `token` was made at random for this process, so that no other can know it."""
    return hmac.compare_digest(token.encode(), _made_here().encode())


def new_nonce() -> bytes:
    """`NONCE_BYTES` that were never used before."""
    return secrets.token_bytes(NONCE_BYTES)


def proof(token: str, side: bytes, *nonces: bytes) -> bytes:
    """HMAC-SHA256 under `token` of who shows it and the nonces, which all have one length."""
    return hmac.new(token.encode(), b"|".join((_PURPOSE, side, *nonces)), hashlib.sha256).digest()


def same(one: bytes, other: bytes) -> bool:
    """Whether two proofs are equal, compared in constant time."""
    return hmac.compare_digest(one, other)


@functools.cache
def _made_here() -> str:
    return secrets.token_hex(32)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AuthenticationError(
            f"The cluster's token cannot be read from {path}, which {FILE_VARIABLE} names: {error}"
        ) from None
