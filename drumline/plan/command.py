"""The command ``drumline plan``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, NoReturn

import typer

_USAGE_ERROR = 2
_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_OUTPUT = "Output"
_CHANGES = "Planned otherwise than the script says"


def plan(
    script: Annotated[Path, typer.Argument(help="The training script.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Its own arguments.", show_default=False)
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="HARDWARE",
            help="Such as tpu-v5e-256, tpu-v5e-2x256 (two slices), tpu-v6e-16, gpu-h100-64, "
            "cpu-4x2.",
        ),
    ] = "tpu-v5e-8",
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Rows of the global batch.", show_default="the script decides"),
    ] = None,
    largest_batch: Annotated[
        bool,
        typer.Option(
            "--largest-batch",
            help="Search for the largest batch that fits: compiles up to 8 times.",
        ),
    ] = False,
    suggest: Annotated[
        bool,
        typer.Option(
            "--suggest",
            help="Plan what might be changed, too: compiles once for each. Without it formulas "
            "say what they can.",
        ),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="optimizer|parameters",
            help="Plan as if the script's strategies were made with `shard=`.",
            rich_help_panel=_CHANGES,
        ),
    ] = None,
    dtype_policy: Annotated[
        str | None,
        typer.Option(
            "--dtype-policy",
            metavar="POLICY",
            help="As if the script began with keras.config.set_dtype_policy: mixed_bfloat16.",
            rich_help_panel=_CHANGES,
        ),
    ] = None,
    rematerialize: Annotated[
        bool,
        typer.Option(
            "--rematerialize",
            help="As if each layer of the models were computed again for its gradient.",
            rich_help_panel=_CHANGES,
        ),
    ] = False,
    measure_input: Annotated[
        bool,
        typer.Option(
            "--input/--no-input", help="Measure how many rows a second the input makes here."
        ),
    ] = True,
    epoch_rows: Annotated[
        int | None, typer.Option(min=1, help="Rows of an epoch, to plan its time and cost.")
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(min=0, help="The price of a chip and hour, in any currency, for the cost."),
    ] = None,
    measured: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHIPS=RATE",
            help="What a chip was measured to do among so many, in any unit; twice or more often. "
            "The loss that it shows beside the model is assumed for larger groups.",
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Write the plan as JSON.", rich_help_panel=_OUTPUT),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write it as Markdown.", rich_help_panel=_OUTPUT),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option("--png", help="Write it as a picture.", rich_help_panel=_OUTPUT),
    ] = None,
) -> None:
    """Say what a training script would take on hardware that is not here.

    The script runs unchanged, on this machine's CPU, up to its first step of training, which is
    compiled for the hardware and not run: does it fit, where do time and memory go, how does it
    scale. Times are at best; every number says how it was got.

    Example: drumline plan --on tpu-v5e-256 --batch 8192 train.py --epochs 3

    Exit code: 0 with a plan, also of a step that does not fit; 1 if the script comes to no step
    that can be planned; 2 if it cannot be planned as asked; 130 after Ctrl-C.
    """
    from rich.console import Console

    from drumline._extras import MissingExtraError, require_extra
    from drumline.plan.hardware import UnknownHardwareError, group_of
    from drumline.plan.targets import CompilerMissingError, prepare_environment, require_compiler

    rates = _rates(measured or [])
    if shard not in (None, "optimizer", "parameters"):
        _end(f"--shard {shard}: write optimizer or parameters.", _USAGE_ERROR)
    try:
        group = group_of(on)
        require_compiler(group)
        if not script.is_file():
            _end(f"There is no script {script}.", _USAGE_ERROR)
        for path in (json, markdown, png):
            if path is not None and not path.resolve().parent.is_dir():
                _end(f"{path}: there is no directory {path.parent}.", _USAGE_ERROR)
        if png is not None:
            require_extra("matplotlib", "profile", "The picture of a plan")
    except (UnknownHardwareError, CompilerMissingError, MissingExtraError) as error:
        _end(str(error), _USAGE_ERROR)
    prepare_environment(group)

    try:
        from drumline.distribute.step.compiled_step import NotPlannedError
        from drumline.plan import report
        from drumline.plan.changes.variant import Variant
        from drumline.plan.plan import ScriptError, plan_script

        console = Console()
        try:
            made = plan_script(
                script,
                arguments or [],
                group,
                rows=batch,
                price=price,
                rows_of_epoch=epoch_rows,
                measured=rates,
                search=largest_batch,
                variant=Variant(shard, dtype_policy, rematerialize),
                suggest=suggest,
                measure_input=measure_input,
                say=lambda text: console.print(text, style="dim", markup=False, highlight=False),
            )
        except CompilerMissingError as error:
            _end(str(error), _USAGE_ERROR)
        except (NotPlannedError, ScriptError) as error:
            _end(str(error), 1)
        page = report.sections(made)
        report.print_report(page, console)
        try:
            if json is not None:
                json.write_text(report.as_json(made))
            if markdown is not None:
                markdown.write_text(report.markdown(page))
            if png is not None:
                report.write_picture(made, png)
        except OSError as error:
            _end(f"The plan could not be written: {error}", 1)
    except KeyboardInterrupt:
        _end("Interrupted: nothing was planned.", _INTERRUPTED)


def _rates(given: list[str]) -> dict[int, float]:
    rates = {}
    for each in given:
        chips, _, rate = each.partition("=")
        try:
            rates[int(chips)] = float(rate)
        except ValueError:
            _end(f"--measured {each}: write CHIPS=RATE, as 256=120.", _USAGE_ERROR)
    if rates and (len(rates) < 2 or min(rates) < 1 or not 0 < min(rates.values()) < math.inf):
        _end("--measured takes positive rates of two or more numbers of chips.", _USAGE_ERROR)
    return rates


def _end(message: str, code: int) -> NoReturn:
    typer.echo(f"drumline plan: {message}", err=True)
    raise typer.Exit(code)
