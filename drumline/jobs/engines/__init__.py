"""Where jobs run.

`engine.py` is what the supervisor needs of each; `registry.py` the engines of a workspace, by
name; `launching.py` the command line that all start, `preparing.py` what is put in front of it for
data, `children.py` the programs that outlive a supervisor; `local/` is this machine, `slurm/` a
cluster.
"""
