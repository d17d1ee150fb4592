"""Where jobs run. `engine.py` is what the supervisor needs of each; `local/` is this machine."""
