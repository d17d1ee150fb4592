"""The start of the command ``drumline``.

It is a package of its own because importing anything from ``drumline`` runs ``drumline/__init__``
first. That finds this module loaded and leaves JAX and Keras to the commands that need them.
"""

from __future__ import annotations


def run() -> None:
    """Run the command, with the arguments of this process."""
    import sys

    from drumline.cli import command_line

    command_line(sys.argv[1:])(prog_name="drumline")
