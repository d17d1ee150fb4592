"""The command ``drumline``. Heavy modules are imported by the commands that need them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import CommandInfo

from drumline.checkpoints.command import app as checkpoint
from drumline.jobs.commands import console as job_console
from drumline.jobs.commands import jobs
from drumline.jobs.commands import server as job_server
from drumline.jobs.commands import sources as job_sources
from drumline.jobs.commands.data_service import app as data_service
from drumline.jobs.launch.command import launch
from drumline.plan.command import plan

_SETTINGS: dict[str, Any] = {
    "help": "Training scripts written for one device, run on many.",
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
}
app = typer.Typer(**_SETTINGS)

_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


class DemoDataset(enum.StrEnum):
    """The datasets the demo can train on."""

    digits = "digits"
    mnist = "mnist"


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"drumline {version('drumline')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Training scripts written for one device, run on many."""


# What follows the first word that is no option belongs to the command that is launched.
app.command(context_settings={"allow_interspersed_args": False})(launch)
app.command(context_settings={"allow_interspersed_args": False})(plan)
jobs.register(app)
job_sources.register(app)
job_console.register(app)
job_server.register(app)
app.add_typer(data_service, name="data-service")
app.add_typer(checkpoint, name="checkpoint")

datasets = typer.Typer(
    help="Named datasets: which there are, what is in them, preparing and checking them.",
    no_args_is_help=True,
)
app.add_typer(datasets, name="datasets")

_Name = Annotated[str, typer.Argument(help="name, name/config or name/config:1.0.0")]
_DataDir = Annotated[
    Path | None, typer.Option(help="The directory with prepared datasets; see the documentation.")
]


@datasets.command("list")
def list_datasets(data_dir: _DataDir = None) -> None:
    """List the datasets that can be made, and those that are prepared."""
    from rich.console import Console

    from drumline.datasets.command import show_list

    show_list(data_dir, Console())


@datasets.command("info")
def show_dataset(name: _Name, data_dir: _DataDir = None) -> None:
    """Show splits, features, homepage and citation of a dataset."""
    from drumline.datasets.command import show_info

    _run_on_dataset(lambda console: show_info(name, data_dir, console))


@datasets.command("prepare")
def prepare_dataset(
    name: _Name,
    data_dir: _DataDir = None,
    manual_dir: Annotated[
        Path | None, typer.Option(help="The directory with files that cannot be downloaded.")
    ] = None,
    file_format: Annotated[str, typer.Option(help="tfrecord or array_record")] = "tfrecord",
) -> None:
    """Download a dataset and write the files that are read."""
    from drumline.datasets.command import prepare

    _run_on_dataset(lambda console: prepare(name, data_dir, manual_dir, file_format, console))


@datasets.command("verify")
def verify_dataset(name: _Name, data_dir: _DataDir = None) -> None:
    """Read and decode all examples of a prepared dataset."""
    from drumline.datasets.command import verify

    _run_on_dataset(lambda console: verify(name, data_dir, console))


def _run_on_dataset(action: Callable[[Any], None]) -> None:
    from rich.console import Console
    from rich.markup import escape

    from drumline.datasets.command import CommandError

    console = Console()
    try:
        action(console)
    except CommandError as error:
        console.print(f"[bold red]Failed:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        console.print("\nInterrupted; what was downloaded is continued the next time.")
        raise typer.Exit(_INTERRUPTED) from None


@app.command(
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    }
)
def cnn(context: typer.Context) -> None:
    """Measure how fast this machine trains networks of images: drumline cnn --help."""
    from drumline.cnn.command import main

    raise typer.Exit(main(context.args))


@app.command()
def demo(
    dataset: Annotated[
        DemoDataset, typer.Option(help="digits come with scikit-learn; mnist needs its IDX files.")
    ] = DemoDataset.digits,
    data_dir: Annotated[Path | None, typer.Option(help="The directory with mnist's files.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs of training; the default fits the dataset.")
    ] = None,
    replicas: Annotated[int, typer.Option(min=1, help="Local CPU devices to train on.")] = 2,
    output_dir: Annotated[
        Path, typer.Option(help="Where the model, the picture and the logs go.")
    ] = Path("demo-out"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights and data order.")] = 0,
) -> None:
    """Train a convnet on handwritten digits, on several devices and on one, and compare."""
    if data_dir is not None and dataset is DemoDataset.digits:
        raise typer.BadParameter(
            "digits come with scikit-learn and are read from no directory; leave it out, or add "
            "--dataset mnist.",
            param_hint="--data-dir",
        )

    from rich.console import Console
    from rich.markup import escape

    from drumline._extras import MissingExtraError, require_extra

    console = Console()
    try:
        require_extra("matplotlib", "demo", "The picture of the demo's loss curves")
    except MissingExtraError as error:
        console.print(f"[bold red]The demo cannot run:[/] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from error

    from drumline.demo.run import DemoError, run_demo
    from drumline.demo.settings import settings_for

    try:
        settings = settings_for(dataset.value, data_dir, epochs, replicas, output_dir, seed)
        run_demo(settings, console)
    except DemoError as error:
        console.print(
            f"[bold red]The demo failed:[/] {escape(str(error))}", highlight=False, soft_wrap=True
        )
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        console.print("\nInterrupted; what is in the output directory is incomplete.")
        raise typer.Exit(_INTERRUPTED) from None


def command_line(words: Sequence[str]) -> typer.Typer:
    """The command line with the one command that `words` begin with; with all if it has no such.

    Typer makes a parser of each command that there is, which takes as long as a short one runs.
    """
    name = words[0] if words else ""
    commands = [each for each in app.registered_commands if _name_of(each) == name]
    groups = [each for each in app.registered_groups if each.name == name]
    if not commands and not groups:
        return app
    alone = typer.Typer(**_SETTINGS)
    alone.callback()(main)
    alone.registered_commands, alone.registered_groups = commands, groups
    return alone


def _name_of(command: CommandInfo) -> str:
    if command.name is not None or command.callback is None:
        return command.name or ""
    return command.callback.__name__.replace("_", "-")
