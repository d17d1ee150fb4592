"""When the chief's program ends, so do the other tasks."""

import json
import os
import subprocess
import sys

from tests.distribute.parameter_server.clusters import TOKEN, Processes

CHIEF = """
import json, sys
import drumline as dl
spec = dl.train.ClusterSpec(json.loads(sys.argv[1]))
resolver = dl.distribute.cluster_resolver.SimpleClusterResolver(spec)
strategy = dl.distribute.ParameterServerStrategy(resolver)
coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
print(coordinator.schedule(lambda: 2).fetch())
"""


def test_the_tasks_end_with_the_chief():
    processes = Processes(workers=1, ps=1)
    try:
        done = subprocess.run(
            [sys.executable, "-c", CHIEF, json.dumps(processes.spec.as_dict())],
            env={**os.environ, "DRUMLINE_CLUSTER_TOKEN": TOKEN},
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == "2"
        assert processes.ended(30)
        assert [task.returncode for task in processes.tasks.values()] == [0, 0]
    finally:
        processes.close()
