"""The command line of jobs.

`jobs.py` submits, watches and cancels; `sources.py` saves code, data and engines of a workspace;
`data_service.py` is ``drumline data-service``. Heavy modules are imported by the commands that
need them.
"""
