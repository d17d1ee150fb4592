"""Choosing Keras's JAX backend, with JAX's CPU backend available for the input pipeline.

Where they are installed, ``import keras`` imports matplotlib.pyplot for `keras.visualization` and
scikit-learn for `keras.wrappers`: a third of what it takes, in every process of a job, for what few
programs use. These packages are loaded when something is first asked of them, by the standard
library's own `importlib.util.LazyLoader`, and are then what they always are.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader, find_spec
from pathlib import Path
from types import ModuleType

from drumline._changes import note, set_variable
from drumline._lazy import jax, jax_is_loaded

_WHEN_USED = frozenset({"keras.src.visualization", "keras.visualization", "keras.wrappers"})


@contextlib.contextmanager
def importing_keras() -> Iterator[None]:
    """While Keras is imported: it gets its JAX backend, and leaves those packages for later."""
    _set_variable()
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:
    """Finds the packages that wait, as the usual finder does, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _WHEN_USED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


_VARIABLE = "KERAS_BACKEND"


def select_keras_backend() -> None:
    """Have Keras run on JAX if it is not imported yet, else check that it does.

    Warns when ``KERAS_BACKEND`` or a deliberate choice in Keras's own ``keras.json`` says another
    backend. Keras writes ``"tensorflow"`` into that file by itself when it is first imported, so
    this value is no choice of the user's and passes in silence.

    Raises:
        ImportError: if Keras was imported earlier with another backend.
    """
    if "keras" in sys.modules:
        require_jax_backend()
        return
    chosen = os.environ.get(_VARIABLE)
    if chosen and chosen != "jax":
        _warn_overruled(f"the environment variable {_VARIABLE}={chosen}", f"set {_VARIABLE}=jax")
    configured = _configured_backend()
    if not chosen and configured not in (None, "jax", "tensorflow"):
        _warn_overruled(f'"backend": "{configured}" in {_keras_config_path()}', 'write "jax" there')
    _set_variable()


def jax_has_started() -> bool:
    """Whether this process has initialised JAX's backends, after which devices are fixed."""
    if not jax_is_loaded():
        return False
    from drumline import _jax_start

    return _jax_start.jax_has_started()


def may_have_accelerators() -> bool:
    """Whether JAX may find other devices than the CPU when it starts: it has a plugin for some."""
    platforms = _jax_platforms()
    if platforms is not None and set(platforms.split(",")) == {"cpu"}:
        return False
    from importlib.metadata import entry_points  # which takes long to import

    if entry_points(group="jax_plugins") or find_spec("libtpu") is not None:
        return True
    return find_spec("jax_plugins") is not None  # a namespace package, in which plugins are


def _set_variable() -> None:
    set_variable(_VARIABLE, "jax", "drumline runs Keras on JAX", "no setting")


def keep_cpu_platform() -> None:
    """Add the CPU to an accelerator-only list of JAX platforms, as in ``JAX_PLATFORMS=cuda``.

    The first platform of the list stays JAX's default. Once JAX has started this does nothing:
    its platforms are fixed then.
    """
    platforms = _jax_platforms()
    if platforms and "cpu" not in platforms.split(",") and not jax_has_started():
        jax.config.update("jax_platforms", f"{platforms},cpu")
        note(
            "JAX",
            f'jax.config.jax_platforms="{platforms},cpu"',
            "the input pipeline computes on the CPU; the first platform stays the default",
            "leave JAX_PLATFORMS unset, or add cpu to it",
        )
        _accelerators_asked_for.append(platforms)


def cpu_device() -> jax.Device:
    """The first CPU device of this process, on which the input pipeline computes.

    Raises:
        RuntimeError: if JAX started without its CPU backend, or was set to use an accelerator
            only and found none; the message says what to set.
    """
    keep_cpu_platform()
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError as error:
        platforms = _jax_platforms()
        if not platforms or "cpu" in platforms.split(","):
            raise
        raise RuntimeError(
            f"drumline's input pipeline computes on the CPU, but JAX started with the platforms "
            f'{platforms!r} only. Set JAX_PLATFORMS="{platforms},cpu" (the first stays the '
            f"default), or import drumline before the first JAX computation."
        ) from error
    if _accelerators_asked_for and jax.local_devices()[0] == device:
        asked = _accelerators_asked_for[0]
        raise RuntimeError(
            f"JAX is set to use the platforms {asked!r} only, and found no such device here. "
            f"To run on the CPU, set JAX_PLATFORMS=cpu or leave it unset."
        )
    return device


_accelerators_asked_for: list[str] = []


def _jax_platforms() -> str | None:
    platforms: str | None = jax.config.values["jax_platforms"]
    return platforms


def require_jax_backend() -> None:
    """Check that Keras, which is imported, runs on JAX.

    Raises:
        ImportError: if it does not.
    """
    import keras

    backend = keras.config.backend()
    if backend != "jax":
        raise ImportError(
            f"drumline runs Keras on JAX, but Keras was imported before drumline with the "
            f"{backend!r} backend, which cannot be changed any more. Import drumline before "
            f"keras, or set the environment variable {_VARIABLE}=jax."
        )


def _warn_overruled(what: str, remedy: str) -> None:
    warnings.warn(
        f"drumline runs Keras on JAX and overrules {what}; {remedy} to silence this warning.",
        UserWarning,
        stacklevel=5,
    )


def keras_home() -> Path:
    """Return the directory of Keras's configuration and downloads."""
    home = os.environ.get("KERAS_HOME")
    return Path(home) if home else Path.home() / ".keras"


def _keras_config_path() -> Path:
    return keras_home() / "keras.json"


def _configured_backend() -> str | None:
    try:
        config = json.loads(_keras_config_path().read_text())
    except (OSError, ValueError):  # Keras itself takes an absent or unreadable file for empty
        return None
    backend = config.get("backend") if isinstance(config, dict) else None
    return backend if isinstance(backend, str) else None
