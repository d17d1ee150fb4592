"""Sound: decoding WAV files, as ``tf.audio``."""

from drumline.audio.wav import decode_wav

__all__ = ["decode_wav"]
