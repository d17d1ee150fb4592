"""The secret that the processes of a cluster share, and proving to know it without sending it."""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from drumline.distribute.parameter_server.transport.errors import AuthenticationError

TOKEN_VARIABLE = "DRUMLINE_CLUSTER_TOKEN"
FILE_VARIABLE = "DRUMLINE_CLUSTER_TOKEN_FILE"
HOW_TO_SET = (
    f"Give all processes of the cluster the same one, made for example by 'openssl rand -hex 32', "
    f"in the environment variable {TOKEN_VARIABLE}, or in a file that {FILE_VARIABLE} names. "
    f"'drumline launch' does this by itself."
)
_SHORTEST = 16


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


def new_nonce() -> str:
    """64 hexadecimal digits that were never used before."""
    return secrets.token_hex(32)


def proof(token: str, *words: str) -> str:
    """HMAC-SHA256 of `words` under `token`, in hexadecimal."""
    text = "|".join(("drumline-transport-1", *words)).encode()
    return hmac.new(token.encode(), text, hashlib.sha256).hexdigest()


def same(one: str, other: object) -> bool:
    """Whether two proofs are equal, compared in constant time."""
    return isinstance(other, str) and hmac.compare_digest(one.encode(), other.encode())


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
