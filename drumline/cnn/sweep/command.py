"""``drumline cnn sweep --models=... --devices=1,2 --modes=... FLAGS``."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from drumline._extras import MissingExtraError
from drumline.cnn import flags as cnn_flags
from drumline.cnn.sweep import page, picture
from drumline.cnn.sweep.cases import MODES, Results, cases_of, run_all

_COPIED_BYTES = 64 * 2**20


def main(arguments: Sequence[str]) -> int:
    """Run a sweep.

    Args:
        arguments: behind ``sweep``; those that are not its own are flags of every case.

    Returns:
        The exit status: 1 if a case failed.
    """
    parser = argparse.ArgumentParser(
        prog="drumline cnn sweep",
        allow_abbrev=False,
        description="Run models, devices and modes, each in a process of its own, and write a "
        "page. Run again, it continues. Other flags are those of drumline cnn, for every case.",
    )
    parser.add_argument("--models", default="resnet50,inception3,vgg16,alexnet")
    parser.add_argument("--devices", default="1,2", help="as 1,2,4,8")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--out", type=Path, default=Path("cnn-sweep"), help="a folder")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for a case")
    given, rest = parser.parse_known_args(arguments)
    console = Console()
    models = _names(given.models)
    try:
        devices = sorted({int(each) for each in _names(given.devices)})
    except ValueError:
        parser.error(f"--devices={given.devices}: write numbers, as 1,2,4")
    modes = _names(given.modes)
    if not models or not devices or min(devices) < 1:
        parser.error("name a model, and one device or more")
    for mode in modes:
        if mode not in MODES:
            parser.error(f"--modes={given.modes}: a sweep is of one host: {', '.join(MODES)}")
    datasets, multiply_adds = _checked(parser, models, rest)
    given.out.mkdir(parents=True, exist_ok=True)
    cases = cases_of(models, devices, modes, rest, datasets)
    results = []
    try:
        with ended_with_its_case(), Progress(console=console) as progress:
            task = progress.add_task("cases", total=len(cases))
            for result, kept in run_all(cases, Results(given.out), given.limit):
                speed = result.images_per_second
                what = f"{speed:,.1f} images/s" if speed else f"failed: {result.error}"
                line = f"{result.case.key}: {what}{' (from before)' if kept else ''}"
                progress.console.print(line, markup=False, highlight=False)
                results.append(result)
                progress.advance(task)
    except KeyboardInterrupt:
        console.print("Interrupted: run the same command to continue.")
        return 130
    machine = measured_machine()
    rows = page.rows_of(results, machine, multiply_adds)
    failed = [result for result in results if result.images_per_second is None]
    drawn: str | None = "sweep.png"
    try:
        picture.draw(rows, machine, given.out / "sweep.png")
    except MissingExtraError as error:
        drawn = None
        console.print(f"No picture: {error}", markup=False)
    text = page.markdown(rows, failed, machine, drawn)
    (given.out / "sweep.md").write_text(text, encoding="utf-8")
    found = json.dumps(page.to_json(rows, failed, machine), indent=1)
    (given.out / "sweep.json").write_text(found + "\n", encoding="utf-8")
    console.print(f"{given.out / 'sweep.md'}", highlight=False)
    return int(bool(failed))


@contextlib.contextmanager
def ended_with_its_case() -> Iterator[None]:
    """Let SIGTERM end a sweep as Ctrl-C does, with the case that runs.

    It would continue by itself otherwise, beside the cases of the sweep that continues this one.
    """

    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _checked(
    parser: argparse.ArgumentParser, models: Sequence[str], rest: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """The flags of each model's dataset, and its multiply-adds.

    Where no flag names a dataset, a model that is not ImageNet's gets its own. An unknown model or
    flag ends the command.
    """
    import jax

    from drumline.cnn import models as known
    from drumline.cnn.program import dataset_of

    try:
        parsed = cnn_flags.parse(rest)
        asked = dataset_of(parsed)
        is_free = not (parsed.data_name or parsed.data_dir)
        of_models = {}
        for model in models:
            those = [name for name in known.MODELS if model in known.MODELS[name]]
            is_other = is_free and those and asked not in those
            of_models[model] = known.find(model, those[0] if is_other else asked).dataset
    except ValueError as error:
        parser.error(str(error))
    with jax.default_device(jax.devices("cpu")[0]):
        multiply_adds = {
            model: known.multiply_adds(known.build(model, dataset=dataset))
            for model, dataset in of_models.items()
        }
    flags = {
        model: [f"--data_name={dataset}"]
        for model, dataset in of_models.items()
        if dataset != asked
    }
    return flags, multiply_adds


def measured_machine() -> page.Machine:
    """Measure what a device of this process reaches in a matrix product and in a copy."""
    import jax
    import jax.numpy as jnp

    from drumline.profiler.hardware import peak_flops

    (device, *_) = jax.local_devices()
    source = jax.device_put(jnp.zeros(_COPIED_BYTES // 4, jnp.float32), device)
    copied = jax.jit(jnp.negative)
    copied(source).block_until_ready()
    times = []
    for _ in range(10):
        began = time.perf_counter()
        copied(source).block_until_ready()
        times.append(time.perf_counter() - began)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("drumline", "jax")]
    return page.Machine(
        device.device_kind if device.platform != "cpu" else _processors(),
        peak_flops(device, "float32"),
        2 * _COPIED_BYTES / min(times),
        device.platform == "cpu",
        f"{', '.join(versions)}, {datetime.date.today().isoformat()}",
    )


def _processors() -> str:
    """The name of this machine's processor, and how many of its cores this process may use."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    name = next(names, "") or platform.processor() or "this machine's CPU"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} core{'s' if cores != 1 else ''}"
