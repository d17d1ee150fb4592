"""The commands for what jobs run and read: ``drumline code`` and ``drumline data``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drumline.jobs.commands.jobs import refusals

if TYPE_CHECKING:
    from drumline.jobs.sources.saved import SavedKind

code_app = typer.Typer(help="Code that job files name: `code: NAME`.", no_args_is_help=True)
data_app = typer.Typer(
    help="Data that job files name: `data: [{from: NAME, at: PATH}]`.", no_args_is_help=True
)
_Name = Annotated[str, typer.Argument(help="Lower case letters, digits and hyphens.")]
_At = Annotated[
    str | None, typer.Option(help="The absolute path at which jobs see it.", show_default=False)
]


@code_app.command("add")
def add_code(
    name: _Name,
    source: Annotated[str, typer.Argument(help="A folder, or the address of a git repository.")],
    commit: Annotated[str | None, typer.Option(help="A branch, a tag or a commit.")] = None,
    user: Annotated[str | None, typer.Option(help="For git over HTTP.")] = None,
    token: Annotated[
        str | None, typer.Option(help="The name of the secret with the password or token.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The name of the secret with the private key, for SSH.")
    ] = None,
    at: _At = None,
) -> None:
    """Save code by a name. A branch becomes a commit when a job is submitted, not now.

    Example: drumline code add digits https://git.example.com/ada/digits.git --commit main
    --user ada --token GIT_TOKEN
    """
    is_git = bool(commit or user or token or key) or "://" in source or "@" in source
    fields = {"git" if is_git else "folder": source, "commit": commit, "user": user}
    _add("code", name, {**fields, "token": token, "key": key, "at": at})


@code_app.command("list")
def list_code() -> None:
    """List the code that is saved."""
    with refusals():
        for name, text in _listed("code"):
            typer.echo(f"{name}  {text}")


@code_app.command("remove")
def remove_code(name: _Name) -> None:
    """Forget code. Jobs that were submitted with it keep their copy."""
    _remove("code", name)


@data_app.command("add")
def add_data(
    name: _Name,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM", help="A folder, or an address: nfs://, s3://, gs://, hf://, dataset://"
        ),
    ],
    at: _At = None,
    write: Annotated[bool, typer.Option("--write", help="Jobs may write there.")] = False,
) -> None:
    """Save data by a name.

    Example: drumline data add digits nfs://nas/digits --at /mnt/digits
    """
    _add("data", name, {"from": source, "at": at, "write": write or None})


@data_app.command("list")
def list_data() -> None:
    """List the data that are saved, and what there is to choose from.

    That is folders where data usually are, shares that are mounted here, the claims of the
    workspace's Kubernetes clusters, and the buckets that the credentials in the environment can
    list. What cannot be looked at is said with its reason.
    """
    with refusals():
        from drumline.jobs.sources.available import available

        for name, text in _listed("data"):
            typer.echo(f"{name}  {text}")
        for address, text in itertools.chain(available(), _claims()):
            typer.echo(f"  {address}  ({text})" if address else f"  {text}")


@data_app.command("remove")
def remove_data(name: _Name) -> None:
    """Forget data by their name; the data themselves stay."""
    _remove("data", name)


def _claims() -> Iterator[tuple[str, str]]:
    from drumline.jobs.engines.registry import Engines
    from drumline.jobs.store.workspace import current

    for name, engine in Engines(current()).items():
        for address, text in engine.claims():
            yield address, f"{text}; for engine: {name}"


def _add(kind: SavedKind, name: str, fields: dict[str, Any]) -> None:
    with refusals():
        from drumline.jobs.service.chosen import chosen

        chosen().save(kind, name, fields, Path.cwd())
        typer.echo(f"{name} is saved; a job file has it by {kind}: {_use(kind, name, fields)}")


def _use(kind: SavedKind, name: str, fields: dict[str, Any]) -> str:
    if kind == "code":
        return name
    return f"[{name}]" if fields["at"] else f"[{{from: {name}, at: PATH}}]"


def _listed(kind: SavedKind) -> list[tuple[str, str]]:
    from drumline.jobs.service.chosen import chosen
    from drumline.jobs.sources.saved import described

    found = chosen().saved(kind)[kind]
    return [(each.pop("name"), described(each)) for each in found]


def _remove(kind: SavedKind, name: str) -> None:
    with refusals():
        from drumline.jobs.service.chosen import chosen

        chosen().remove_saved(kind, name)
        typer.echo(f"{name} is removed.")


def register(app: typer.Typer) -> None:
    """Add the commands to `drumline`."""
    app.add_typer(code_app, name="code")
    app.add_typer(data_app, name="data")
