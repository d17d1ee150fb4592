"""`fit` that continues where another one stopped, in the middle of an epoch too.

`fit_run.py` has the moments of a `fit` at which something is saved or put back, `saver.py` what is
written and when, `input_position.py` and `callback_states.py` the parts that no checkpoint knew.
"""
