"""How large decoded images may be."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """What an image may become before decoding it is refused.

    A few hundred bytes can claim to be, or truly become, gigabytes of pixels.

    Attributes:
        max_pixels: height times width, of all frames of an animation together.
        max_bytes: of the decoded image.
        max_expansion: decoded bytes for each byte of contents, for images of more than 1 MiB.
    """

    max_pixels: int = 1 << 27
    max_bytes: int = 1 << 29
    max_expansion: int = 2000

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 63:
                raise ValueError(f"Limits: {field.name} must be a positive integer, got {value!r}")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The three numbers, in order."""
        return self.max_pixels, self.max_bytes, self.max_expansion


_current = Limits()


def get_limits() -> Limits:
    """The limits of decoders from now on."""
    return _current


def set_limits(limits: Limits) -> None:
    """Sets the limits of decoders that are called, or traced in a ``map``, from now on.

    ``dl.image.set_limits(dl.image.Limits(max_pixels=10_000_000))``.

    Raises:
        TypeError: they are no ``Limits``.
    """
    global _current
    if not isinstance(limits, Limits):
        raise TypeError(f"set_limits takes a dl.image.Limits, got {limits!r:.60}")
    _current = limits
