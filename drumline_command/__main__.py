"""``python -m drumline_command`` is the command ``drumline``."""

from drumline_command import run

run()
