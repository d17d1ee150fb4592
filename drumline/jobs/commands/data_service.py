"""The command ``drumline data-service``: nodes of the Ray cluster that ``distribute`` works on."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from typing import Annotated

import typer

app = typer.Typer(
    help="The machines whose CPUs run what comes before dataset.distribute().",
    no_args_is_help=True,
)

_ADDRESS = re.compile(r"--address='([^']+)'")
_TOKEN_ASKED = re.compile(r"token authentication is enabled|AuthenticationError", re.IGNORECASE)
_MISSING = 2


@app.command()
def start(
    address: Annotated[
        str | None,
        typer.Option(
            help="Join the cluster of this node, host:port.", show_default="start a new cluster"
        ),
    ] = None,
    num_cpus: Annotated[
        int | None,
        typer.Option(min=0, help="CPUs of this machine for workers.", show_default="all"),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of a new cluster; 0 for a free one.")
    ] = 6379,
) -> None:
    """Start a cluster on this machine, or have it join one, and print the cluster's address."""
    arguments = ["--head", f"--port={port}", "--include-dashboard=false"]
    if address is not None:
        arguments = [f"--address={address}"]
    if num_cpus is not None:
        arguments.append(f"--num-cpus={num_cpus}")
    output = _ray("start", "--disable-usage-stats", *arguments)
    found = _ADDRESS.search(output)
    where = address or (found[1] if found else None)
    if where is None:
        typer.echo(f"Ray did not say its address:\n{output}", err=True)
        raise typer.Exit(1)
    typer.echo(f"The cluster's address is {where}")
    typer.echo(f'  dataset.distribute(address="{where}")')
    typer.echo(f"  drumline data-service start --address {where}    on other machines")
    if _TOKEN_ASKED.search(output):
        typer.echo(
            "It asks for a token: set RAY_AUTH_MODE=token wherever the address is used, and copy "
            "~/.ray/auth_token of this machine to the others"
        )


@app.command()
def status(
    address: Annotated[
        str | None,
        typer.Option(help="Of a node, host:port.", show_default="the cluster on this machine"),
    ] = None,
) -> None:
    """Say which machines the cluster has, and how many of their CPUs are free."""
    _check_installed()
    # Ray takes seconds to load.
    from drumline.data.workers.service.ray_nodes import nodes

    try:
        found, free = nodes(address)
    except RuntimeError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    for node in found:
        typer.echo(f"{node.host}: {node.cpus:g} CPUs{'' if node.alive else ', lost'}")
    total = sum(node.cpus for node in found if node.alive)
    typer.echo(f"{free:g} of {total:g} CPUs are free")


@app.command()
def stop() -> None:
    """End all Ray processes of yours on this machine."""
    typer.echo(_ray("stop").strip().splitlines()[-1].rpartition(" -- ")[2])


def _ray(*arguments: str) -> str:
    """The output of a command of Ray's.

    Raises:
        typer.Exit: Ray is not installed, or it failed.
    """
    _check_installed()
    done = subprocess.run(
        [sys.executable, "-m", "ray.scripts.scripts", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        typer.echo(done.stdout, err=True)
        if _TOKEN_ASKED.search(done.stdout):
            typer.echo(
                "The cluster asks for a token: set RAY_AUTH_MODE=token, and copy ~/.ray/auth_token "
                "of the machine on which it was started",
                err=True,
            )
        raise typer.Exit(1)
    return done.stdout


def _check_installed() -> None:
    if importlib.util.find_spec("ray") is None:
        typer.echo("The data service needs Ray: pip install 'drumline[ray]'", err=True)
        raise typer.Exit(_MISSING)
