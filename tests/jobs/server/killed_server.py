"""A server that kills itself as soon as it has come to a step of a submission.

``python killed_server.py FOLDER PORT STEP``; the step is one of `STEPS`, or ``-`` for none.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse

from drumline.jobs.engines.local import attempt
from drumline.jobs.server.app import TeamServer, team_app
from drumline.jobs.server.identity import TeamMembers
from drumline.jobs.server.serving import listen, serve
from drumline.jobs.server.uploads import CodeUploads
from drumline.jobs.service.workspace_service import WorkspaceService
from drumline.jobs.store.database import Store


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _around(
    owner: Any, name: str, before: bool = False, when: Callable[..., bool] = lambda *_, **__: True
) -> None:
    original = getattr(owner, name)

    def wrapped(*arguments: Any, **more: Any) -> Any:
        dies = when(*arguments, **more)
        if before and dies:
            _die()
        found = original(*arguments, **more)
        if dies:
            _die()
        return found

    setattr(owner, name, wrapped)


def _renamed_to(name: str) -> Callable[..., bool]:
    return lambda path, target: name in pathlib.Path(target).name


def _within_the_answer(key: str) -> None:
    """Die when the headers of an answer with a key are sent, and nothing of its body."""
    answering = JSONResponse.__call__

    async def cut(self: JSONResponse, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.body" and key in json.loads(self.body):
                _die()
            await send(message)

        await answering(self, scope, receive, sending)

    JSONResponse.__call__ = cut  # type: ignore[method-assign]


STEPS: dict[str, Callable[[], None]] = {
    "an upload begins": lambda: _around(CodeUploads, "_make_room"),
    "an upload is unpacked": lambda: _around(
        pathlib.Path, "rename", before=True, when=_renamed_to("+")
    ),
    "an upload is there": lambda: _around(pathlib.Path, "rename", when=_renamed_to("+")),
    "an upload's answer has begun": lambda: _within_the_answer("upload"),
    "a job is asked for": lambda: _around(WorkspaceService, "submit", before=True),
    "it is written down": lambda: _around(Store, "submit"),
    "its folder is there": lambda: _around(
        attempt, "write", when=lambda path, value: path.name == "environment.json"
    ),
    "its code is moved": lambda: _around(pathlib.Path, "rename", when=_renamed_to("source")),
    "it is about to be queued": lambda: _around(Store, "queue", before=True),
    "it is queued": lambda: _around(Store, "queue"),
    "it is about to be answered": lambda: _around(
        TeamMembers, "record", when=lambda *arguments: "submit" in arguments
    ),
    "its answer has begun": lambda: _within_the_answer("id"),
}


def main(folder: str, port: str, step: str) -> None:
    if step != "-":
        STEPS[step]()
    with listen("127.0.0.1", int(port)) as listening:
        team = TeamServer(pathlib.Path(folder))
        team.start()
        serve(team_app(team), listening)
        team.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
