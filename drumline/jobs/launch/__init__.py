"""``drumline launch``: the processes of one job, started, watched, blamed and restarted."""
