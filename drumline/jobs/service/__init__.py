"""What people ask of a workspace: submitting, looking, cancelling; in its folder or by a server.

`workspace_service.py` does it in a folder, for the command line, for Python and for servers alike.
"""
