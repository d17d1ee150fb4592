"""A stream on which both sides tell each other that they live."""

from __future__ import annotations

import threading
from collections.abc import Callable

from drumline.distribute.parameter_server.transport.flight import STREAM_ERRORS, FrameStream

_MOST_SECONDS = 1.0


class Heartbeat:
    """Sends a beat now and then, from a thread of its own, and reads the answers.

    Args:
        stream: for nothing else.
        silence_seconds: how long the other side may be silent; beats are five times as frequent,
            and once a second at least.
        heard: called at each answer.
        lost: called with the reason if the stream breaks.
    """

    def __init__(
        self,
        stream: FrameStream,
        silence_seconds: float,
        heard: Callable[[], None],
        lost: Callable[[str], None],
    ) -> None:
        self._stream = stream
        self._interval = min(_MOST_SECONDS, silence_seconds / 5)
        self._heard = heard
        self._lost = lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drumline-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Beat no more; wait for the thread to end."""
        self._stop.set()
        self._stream.cancel()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with self._stream.lock:
                    self._stream.write(b"+")
                if self._stream.read() is None:
                    break
                self._heard()
                self._stop.wait(self._interval)
        except STREAM_ERRORS as error:
            self._end(str(error))
        else:
            self._end("it ended the connection")
        finally:
            self._stream.close()

    def _end(self, reason: str) -> None:
        if not self._stop.is_set():
            self._lost(reason)
