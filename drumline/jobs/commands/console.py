"""The command ``drumline console``: the workspace's pages, on this machine."""

from __future__ import annotations

import importlib.util
import os
import secrets
import socket
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from drumline.jobs.commands.jobs import refusals

_PORT = 8470
_MISSING = 2
TOKEN_VARIABLE = "DRUMLINE_CONSOLE_TOKEN"


def console(
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="0 for a free one.", show_default=f"{_PORT}, or a free one"
        ),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open it in a browser.")
    ] = False,
) -> None:
    """Show the jobs of the workspace in a browser: their states, curves, processes and logs.

    It listens on this machine only, and prints an address with a token in it, which is another at
    each start unless DRUMLINE_CONSOLE_TOKEN has one. From a laptop, `ssh -L 8470:127.0.0.1:8470
    HOST` brings it there.
    """
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        typer.echo(f"The console needs {missing[0]}: pip install 'drumline[console]'", err=True)
        raise typer.Exit(_MISSING)
    with refusals():
        from drumline.jobs.console.app import OwnWorkspace, console_app
        from drumline.jobs.server.serving import serve
        from drumline.jobs.store.workspace import current, current_name

        token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(24)
        if len(token) < 16:
            raise ValueError(f"{TOKEN_VARIABLE} must have at least 16 characters")
        service = OwnWorkspace(current(), Path.cwd())
        listening = _listen(port)
        name = Path(current_name()).name or "default"
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/#token={token}"
        service.wake_if_open()
        typer.echo(f"The console of the workspace {name} is at\n\n  {address}\n\nCtrl-C ends it.")
        if open_browser:
            webbrowser.open(address)
        app = console_app(service, name, token)
        serve(app, listening, app.state.end)


def _listen(port: int | None) -> socket.socket:
    """A socket on loopback: at the port, or, if none is asked for, at a free one if need be."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", _PORT if port is None else port))
    except OSError as error:
        if port is not None:
            listening.close()
            raise ValueError(
                f"port {port} cannot be used: {error.strerror}. Choose another by --port; 0 is a "
                "free one."
            ) from None
        listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    return listening


def register(app: typer.Typer) -> None:
    """Add the command to `drumline`."""
    app.command()(console)
