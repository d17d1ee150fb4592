"""What stands for the gradient of a source that the target does not depend on."""

from __future__ import annotations

import enum


class UnconnectedGradients(enum.Enum):
    """As ``tf.UnconnectedGradients``.

    Attributes:
        NONE: the gradient is None.
        ZERO: it is an array of zeros, of the source's shape and dtype.
    """

    NONE = "none"
    ZERO = "zero"

    @classmethod
    def of(cls, choice: UnconnectedGradients | str) -> UnconnectedGradients:
        """The member that `choice` is or names.

        Raises:
            ValueError: if there is none.
        """
        try:
            return cls(choice)
        except ValueError:
            raise ValueError(
                f"unconnected_gradients must be 'none' or 'zero', not {choice!r}."
            ) from None
