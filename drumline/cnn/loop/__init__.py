"""The loop over steps: timing, lines, checkpoints, evaluation."""
