"""What every test relies on: Keras on JAX, four CPU devices, repeatable examples."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("MPLBACKEND", "Agg")

import jax
import pytest
from hypothesis import HealthCheck, settings

from drumline.config.jax_internals import write_cache_from_every_process
from tests import process_state

CPU_DEVICES = 4
COMPILED = pytest.StashKey[str]()
SLOW = frozenset((Path(__file__).parent / "slow_tests.txt").read_text().splitlines())

jax.config.update("jax_num_cpu_devices", CPU_DEVICES)

settings.register_profile(
    "drumline",
    derandomize=True,
    max_examples=15,
    deadline=None,  # the first example of many tests compiles
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("brief", settings.get_profile("drumline"), max_examples=10)
settings.register_profile("thorough", settings.get_profile("drumline"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "drumline"))


def _give_children_default_signals() -> None:
    """Let tests send signals to the processes they start, whatever started the tests.

    nohup ignores SIGHUP, a script's ``&`` SIGINT, and what is ignored stays so in all that is
    started from there. A handler that does nothing keeps the signal from ending this process, and
    is not inherited: what is started has the default again.
    """
    for name in ("SIGINT", "SIGHUP", "SIGTERM", "SIGQUIT"):
        signum = getattr(signal, name)
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, lambda number, frame: None)


def pytest_configure(config: pytest.Config) -> None:
    """Compile once what many tests of a run compile: that was a third of what they took.

    Programs are the same where all that XLA is given is the same. Processes that tests start have
    no such cache; those that tests are about have their own.
    """
    _give_children_default_signals()
    folder: str | None = getattr(config, "workerinput", {}).get("compiled")
    if folder is None:
        made = tempfile.TemporaryDirectory(prefix="drumline-compiled-")
        config.add_cleanup(made.cleanup)
        config.stash[COMPILED] = folder = made.name
    write_cache_from_every_process()  # threads and processes of a run never read half an entry
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses among them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid in SLOW or item.nodeid.partition("[")[0] in SLOW:
            item.add_marker(pytest.mark.thorough)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_configure_node(node: Any) -> None:
    node.workerinput["compiled"] = node.config.stash[COMPILED]


@pytest.fixture(scope="session", autouse=True)
def real_freeze() -> Iterator[Callable[[], None]]:
    """``gc.freeze``, which does nothing meanwhile: what one test leaves, the next ones collect."""
    freeze = gc.freeze
    freeze()  # modules stay: to look through them is most of what a collection costs
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gc, "freeze", lambda: None)
        yield freeze


@pytest.fixture(scope="module", autouse=True)
def process_as_before() -> Iterator[None]:
    """What the tests of a file leave to those of the next one; see `tests.process_state`."""
    before = process_state.state()
    yield
    left = process_state.changes(before, process_state.state())
    assert not left, "the tests of this file left the process as it was not: " + "; ".join(left)


@pytest.fixture(scope="module")
def quick_compilation() -> Iterator[None]:
    """Spend no time on making programs fast that run a few milliseconds."""
    with process_state.compiling_quickly():
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository, or the one `DRUMLINE_SHARED` names."""
    root = Path(__file__).resolve().parents[1]
    shared = Path(os.environ.get("DRUMLINE_SHARED", root.parent / "shared"))
    data = shared / "data"
    if not data.is_dir():
        pytest.skip(f"no real data in {data}; set DRUMLINE_SHARED to the folder that holds data/")
    return data
