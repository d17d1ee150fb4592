"""Sequences of frames: sampling in time."""

from drumline.video.sampling import sample_linspace_sequence, sample_sequence

__all__ = ["sample_linspace_sequence", "sample_sequence"]
