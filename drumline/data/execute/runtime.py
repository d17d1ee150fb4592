"""What the stages of a running dataset share."""

from __future__ import annotations

from drumline.data.execute.stage import Stage
from drumline.data.observe.observation import Observation
from drumline.data.options import Options


class Runtime:
    """The options that hold while a dataset runs, and who observes it.

    Args:
        options: of the dataset.
        observation: measures every stage; ``None`` measures nothing and costs nothing.
    """

    def __init__(self, options: Options | None = None, observation: Observation | None = None):
        self.options = options if options is not None else Options()
        statistics = self.options.experimental_statistics
        if observation is None and statistics is not None:
            observation = statistics.observation
        self.observation = observation

    def made(self, stage: Stage, name: str, trail: tuple[int, ...]) -> Stage:
        """The stage of the operation ``name``, measured if somebody observes."""
        if self.observation is None:
            return stage
        return self.observation.watch(stage, name, trail)
