"""Planning for hardware that is not there: steps that are compiled for it, and never run.

These are the parts below `drumline plan`: strategies over devices that are not there
(`planned_strategy.py`), what is known of the hardware (`hardware.py`), what a compiled program says
(`program_text.py`), a step's time with how each number was got (`estimate.py`), and its report
(`report.py`).
"""
