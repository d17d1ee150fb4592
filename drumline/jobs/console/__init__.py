"""The console: pages that show a workspace's jobs as they run, and submit new ones.

`pages.py` is what a browser loads and asks for, on any server; `stream.py` is what changes, and
`watching.py` finds it; `app.py` is the console of one workspace on this machine.
"""
