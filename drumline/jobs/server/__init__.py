"""The server of a team: workspaces with members, over HTTP.

`workspace_routes.py` are the routes of one workspace, which the console serves, too. Starlette and
uvicorn come with the extra ``console``.
"""
