"""``drumline cnn sweep --models=... --devices=1,2 --modes=... FLAGS``."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

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
    multiply_adds = _checked(parser, models, rest)
    given.out.mkdir(parents=True, exist_ok=True)
    cases = cases_of(models, devices, modes, rest)
    results = []
    try:
        with Progress(console=console) as progress:
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


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _checked(
    parser: argparse.ArgumentParser, models: Sequence[str], rest: Sequence[str]
) -> dict[str, int]:
    """The multiply-adds of each model; an unknown model or flag ends the command."""
    import jax

    from drumline.cnn import models as known

    try:
        parsed = cnn_flags.parse(rest)
        dataset = parsed.data_name or "imagenet"
        for model in models:
            known.find(model, dataset)
    except ValueError as error:
        parser.error(str(error))
    with jax.default_device(jax.devices("cpu")[0]):
        return {model: known.multiply_adds(known.build(model, dataset=dataset)) for model in models}


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
    return page.Machine(
        device.device_kind if device.platform != "cpu" else "this machine's CPU",
        peak_flops(device, "float32"),
        2 * _COPIED_BYTES / min(times),
        device.platform == "cpu",
    )
