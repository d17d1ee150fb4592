"""Step profiles: where the time of a training goes. See ``docs/training/step_profiler.md``."""

from drumline.profiler.epoch_profile import EpochProfile, ProcessShare
from drumline.profiler.step_profile import StepProfile, profile_steps

__all__ = ["EpochProfile", "ProcessShare", "StepProfile", "profile_steps"]
