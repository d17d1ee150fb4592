"""An authenticated connection between two launchers: each proves that it knows the token.

Both sides begin with a `Greeting` that holds their nonce. With a token every later line is signed
by the key of `drumline._authentication`, under the name `PROTOCOL`: the proof in hexadecimal, a
space, the text. So a line can be neither forged, nor repeated, nor moved to another connection.
Nothing is encrypted.
"""

from __future__ import annotations

import socket
import time

from drumline._authentication import ConnectionKey, new_nonce
from drumline._lost_process import silent
from drumline._rendezvous import ChannelError, LineChannel
from drumline.jobs.launch.rendezvous.messages import PROTOCOL, Greeting, Message, Ping, parse

_LINE = 16 * 1024 * 1024
_PING_SECONDS = 5.0
SILENCE_SECONDS = 30.0
"""A launcher that has said nothing for this long counts as gone."""


class LauncherChannel(LineChannel[Message]):
    """Messages to and from one other launcher.

    Args:
        connection: a connected socket; the channel closes it.
        token: what the other must prove to know, or None.
        is_leader: whether this is host 0.

    Raises:
        OSError: if the other is gone already.
    """

    def __init__(self, connection: socket.socket, token: str | None, is_leader: bool) -> None:
        super().__init__(connection)
        self._token = token
        self._is_leader = is_leader
        self._nonce = new_nonce()
        self._key: ConnectionKey | None = None
        self._greeted = False
        self.send(Greeting(nonce=self._nonce.hex(), has_token=token is not None))

    def trust(self) -> None:
        """Accept longer lines from now on."""
        self.line_limit = _LINE

    def encode(self, message: Message) -> bytes:
        line = message.model_dump_json().encode()
        return line if self._key is None else self._key.sign_line(line)

    def decode(self, line: bytes) -> Message | None:
        if self._key is not None:
            opened = self._key.open_line(line)
            if opened is None:
                raise ChannelError("it does not know the same --rendezvous-token")
            line = opened
        try:
            message = parse(line)
        except ValueError as error:
            raise ChannelError(f"it is no drumline launcher of this version ({error})") from None
        if isinstance(message, Greeting) == self._greeted:
            raise ChannelError(f"it is no drumline launcher (unexpected {message.kind})")
        if isinstance(message, Greeting):
            self._meet(message)
        return None if isinstance(message, Greeting | Ping) else message

    def keep_alive(self) -> None:
        """Let the other know, now and then, that this side lives, and check that it does.

        Raises:
            ChannelError: if nothing was heard for `SILENCE_SECONDS`.
        """
        now = time.monotonic()
        if now - self.heard_at > SILENCE_SECONDS:
            raise ChannelError(f"it {silent(SILENCE_SECONDS)}")
        if self._greeted and now - self.sent_at > _PING_SECONDS:
            self.send(Ping())

    @property
    def greeted(self) -> bool:
        """Whether the other has greeted, so that more can be said."""
        return self._greeted

    def _meet(self, greeting: Greeting) -> None:
        if greeting.has_token != (self._token is not None):
            known, unknown = ("it", "this host") if greeting.has_token else ("this host", "it")
            raise ChannelError(
                f"{known} was started with a --rendezvous-token and {unknown} without one"
            )
        if self._token is not None:
            ours, theirs = self._nonce, bytes.fromhex(greeting.nonce)
            nonces = (ours, theirs) if self._is_leader else (theirs, ours)
            self._key = ConnectionKey(
                self._token, PROTOCOL.encode(), *nonces, listens=self._is_leader
            )
        self._greeted = True
