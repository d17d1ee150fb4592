"""Elements by position where operations run as streams: for ``index`` and global shuffles.

``prefetch`` has its thread, ``batch`` and ``repeat`` their stages as long as elements come in
order; these rules say where in the input an element is that is asked for by its position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass
