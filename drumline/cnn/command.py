"""The command: ``drumline cnn FLAGS``, ``python -m drumline.cnn FLAGS``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

INTERRUPTED = 130
"""128 and SIGINT, as shells report it."""


def _reuse_large_buffers() -> None:
    """Let XLA keep its memory from step to step, as the process is this program's own."""
    from drumline import _settings, config

    if _settings.LARGE_BUFFERS_VARIABLE not in os.environ:
        config.set_large_buffer_reuse(True)


def _let_devices_wait() -> None:
    """Let logical devices be as slow as they are: XLA would end the process after a minute."""
    from drumline.distribute.process_group import environment

    environment.let_cpu_devices_wait()


def _hide_accelerators() -> None:
    """Leave JAX the CPU alone: processes of several hosts bring all devices that JAX has."""
    import jax

    jax.config.update("jax_platforms", "cpu")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program with flags as tf_cnn_benchmarks takes them.

    Args:
        arguments: of the command line, without the program's name; by default this process's.

    Returns:
        The exit status: 0, 2 for flags that are wrong, 1 for a run that failed.
    """
    from drumline.cnn import flags

    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["sweep"]:
        from drumline.cnn.sweep import command as sweep

        return sweep.main(given[1:])
    if "--help" in given or "-help" in given or "--helpfull" in given:
        from drumline.cnn import models

        names = dict.fromkeys(name for named in models.MODELS.values() for name in named)
        print(flags.help_text(list(names)))
        return 0
    try:
        parsed = flags.parse(given)
        _reuse_large_buffers()
        _let_devices_wait()
        if parsed.device.lower() == "cpu":
            _hide_accelerators()
        from drumline.cnn.program import BenchmarkRun

        program = BenchmarkRun(parsed)
        for line in [*parsed.remarks, *program.remarks]:
            print(line, file=sys.stderr)
    except ValueError as error:
        print(f"drumline cnn: {error}", file=sys.stderr)
        return 2
    try:
        program.run()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        status = INTERRUPTED
    except Exception as error:
        if not _says_enough(error):
            raise
        advice = " Give a smaller --batch_size." if _is_of_memory(error) else ""
        print(f"drumline cnn: {error}{advice}", file=sys.stderr)
        status = 1
    else:
        return 0
    if program.has_servers:
        _leave_at_once(status)
    return status


def _leave_at_once(status: int) -> NoReturn:
    """End the process while threads still wait for workers within JAX.

    Python ends such threads by unwinding them, which C++ does not allow: the process would abort.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _says_enough(error: Exception) -> bool:
    """Whether an error says by itself what happened, so that no traceback is wanted.

    One that is not caught ends the other processes of a group as well.
    """
    from drumline.distribute.parameter_server import ParameterServerLostError
    from drumline.distribute.parameter_server.wire import TransportError
    from drumline.distribute.process_group.start import joined

    said = (OSError, ValueError, ParameterServerLostError, TransportError)
    return (isinstance(error, said) or _is_of_memory(error)) and joined() is None


def _is_of_memory(error: Exception) -> bool:
    """Whether devices had too little memory."""
    import jax

    words = ("out of memory", "resource_exhausted")
    return isinstance(error, jax.errors.JaxRuntimeError) and any(
        word in str(error).lower() for word in words
    )
