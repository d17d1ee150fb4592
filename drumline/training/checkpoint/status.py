"""What came of restoring a checkpoint."""

from __future__ import annotations

from drumline.training.checkpoint.restoration import Restoration, some


class CheckpointStatus:
    """What `Checkpoint.restore` returns, as TensorFlow's load status.

    Args:
        restoration: what is under way; None if there was no checkpoint to restore.
    """

    def __init__(self, restoration: Restoration | None) -> None:
        self._restoration = restoration

    def assert_existing_objects_matched(self) -> CheckpointStatus:
        """Require that every variable and iterator there is now was restored.

        Raises:
            AssertionError: naming those that have no value in the checkpoint.
        """
        missing = self._required().missing
        if missing:
            raise AssertionError(
                f"The checkpoint has no value for {some(missing)}. It was saved from other objects."
            )
        return self

    def assert_consumed(self) -> CheckpointStatus:
        """Require that, moreover, every value of the checkpoint was used.

        Values of a layer or an optimizer that is not built yet are not: build it first, or call
        `assert_existing_objects_matched`.

        Raises:
            AssertionError: naming what was not restored or not used.
        """
        self.assert_existing_objects_matched()
        unused = sorted(self._required().leftover.paths)
        if unused:
            raise AssertionError(
                f"Values of the checkpoint were not used: {some(unused)}. There is no object for "
                "them, or it is not built yet: build it, or call expect_partial()."
            )
        return self

    def expect_partial(self) -> CheckpointStatus:
        """Log no warning about values of the checkpoint that nothing uses."""
        if self._restoration is not None:
            self._restoration.leftover.expected = True
        return self

    def _required(self) -> Restoration:
        if self._restoration is None:
            raise AssertionError("No checkpoint was given (None), so nothing was restored.")
        return self._restoration
