"""Values of dense variables, as new as the worker's last exchange."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.distribute.parameter_server.layout import Layout

_NEVER = -1


class DenseValues:
    """The last value of every variable that this worker reads whole, with the parts' versions."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._pieces: dict[str, np.ndarray] = {}
        self._whole: dict[str, Any] = {}

    def version(self, part: str) -> int:
        """The version that is here of a part; -1 if none is."""
        return self._versions.get(part, _NEVER)

    def update(self, key: str, part: str, version: int, value: np.ndarray) -> None:
        """Note a newer value of a part, unless a still newer one came before."""
        if version <= self.version(part):
            return
        self._versions[part] = version
        self._pieces[part] = value
        self._whole.pop(key, None)

    def value(self, layout: Layout) -> Any:
        """The value of a variable, whole."""
        whole = self._whole.get(layout.key)
        if whole is None:
            pieces = [self._pieces[layout.part_name(part)] for part in layout.parts]
            whole = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            self._whole[layout.key] = whole
        return whole
