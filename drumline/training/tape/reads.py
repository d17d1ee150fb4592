"""Which values a tape's variables were read as."""

from __future__ import annotations

from typing import Any

from drumline.training.tape.recording import Recording


class Reads:
    """The values that one tape's watched variables were read as.

    A variable may be assigned between reads, so it can have several. Each is an object of its
    own, which no other variable and no constant shares.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._variables: dict[int, Any] = {}
        self._values: dict[int, list[Any]] = {}
        self._known: dict[tuple[int, int], tuple[Any, Any]] = {}

    def known(self, variable: Any, stored: Any) -> Any:
        """What `variable` was read as when it held the object `stored`; None if never."""
        return self._known.get((id(variable), id(stored)), (None, None))[1]

    def remember(self, variable: Any, stored: Any, value: Any) -> None:
        """Let later reads of the same object give the same `value`."""
        self._known[id(variable), id(stored)] = (stored, value)

    def add(self, variable: Any, value: Any) -> None:
        """Watch `value` as one of `variable`."""
        self._recording.watch(value)
        self._variables[id(variable)] = variable
        self._values.setdefault(id(variable), []).append(value)

    def of(self, variable: Any) -> list[Any]:
        """The values of `variable`, oldest first."""
        return self._values.get(id(variable), [])

    def variables(self) -> dict[int, Any]:
        """The variables that were read, by their identity."""
        return self._variables
