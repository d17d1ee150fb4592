"""Who asks: tokens of requests and cookies of pages, and how often one may be wrong."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from starlette.requests import Request

from drumline.jobs.server.answers import HttpError
from drumline.jobs.server.identity import TeamMember, TeamMembers
from drumline.jobs.store.connection import StoreError

COOKIE = "drumline-session"
MOST_FAILURES = 10
FAILURE_SECONDS = 60.0
_MOST_KNOWN = 10_000


class FailedLogins:
    """Counts wrong tokens by the addresses they come from.

    After ten in a minute no token of that address is looked at, but those that were right before:
    others behind the same address are not locked out by one.

    Args:
        clock: seconds; tests turn it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, address: str, token: str) -> None:
        """Refuse a token without looking at it, if there were too many wrong ones.

        Raises:
            HttpError: 429.
        """
        with self._lock:
            times = self._failures.get(address, deque())
            while times and self._clock() - times[0] > FAILURE_SECONDS:
                times.popleft()
            if len(times) >= MOST_FAILURES and _digest(token) not in self._right:
                raise HttpError(
                    429, f"too many wrong tokens came from {address}; wait {FAILURE_SECONDS:g} s"
                )

    def was_right(self, token: str) -> None:
        """Remember a token (its digest) that was right."""
        with self._lock:
            _add(self._right, _digest(token), None)

    def was_wrong(self, address: str) -> None:
        """Count a wrong token."""
        with self._lock:
            times = self._failures.setdefault(address, deque(maxlen=MOST_FAILURES))
            times.append(self._clock())
            _add(self._failures, address, times)


class Door:
    """Finds the member of a request.

    Args:
        identity: the members.
        failures: see `FailedLogins`.
    """

    def __init__(self, identity: TeamMembers, failures: FailedLogins | None = None) -> None:
        self._identity = identity
        self._failures = failures or FailedLogins()

    def member(self, request: Request) -> TeamMember:
        """Who asks.

        Raises:
            HttpError: 401 without a token that is in use, 429 after too many wrong ones, 503 while
                the members cannot be asked for.
        """
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            token = request.cookies.get(COOKIE, "")
        if not token:
            raise HttpError(401, "this needs a token: `drumline login`")
        request.state.member = self.member_of(request, token.strip())
        return request.state.member

    def member_of(self, request: Request, token: str) -> TeamMember:
        """Whose token this is; raises as `member` does."""
        address = address_of(request)
        self._failures.check(address, token)
        try:
            member = self._identity.member_of(token)
            if member is None:
                self._failures.was_wrong(address)
                self._identity.record("", "", "refuse a token", "", address)
        except StoreError:
            # Where its database is, is not said to whoever asks; the server itself says it.
            raise HttpError(
                503, "the server cannot look up who you are: its list of members is away; try again"
            ) from None
        if member is None:
            raise HttpError(401, "this token is of no member, or was revoked")
        self._failures.was_right(token)
        return member


def address_of(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client else "unknown"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _add(table: OrderedDict, key: object, value: object) -> None:
    table[key] = value
    table.move_to_end(key)
    while len(table) > _MOST_KNOWN:
        table.popitem(last=False)
