"""The two hosts that tests of several machines run on."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.network_namespaces import two_hosts

_ANSWER = "import socket,sys; s=socket.create_server((sys.argv[1], 4000)); print('up', flush=True)"
_ANSWER += "; c=s.accept()[0]; c.sendall(b'hello'); c.close(); import time; time.sleep(60)"
_ASK = "import socket,sys; print(socket.create_connection((sys.argv[1], 4000), 5).recv(9).decode())"


def test_two_hosts_reach_each_other_over_the_cable_only() -> None:
    with two_hosts() as hosts:
        server = hosts.run(
            0,
            [sys.executable, "-c", _ANSWER, hosts.addresses[0]],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None and server.stdout.readline() == "up\n"
        assert hosts.pids(0) == [server.pid] and hosts.pids(1) == []
        ask = [sys.executable, "-c", _ASK, hosts.addresses[0]]
        hosts.link_down(1)
        cut = hosts.run(1, ask, stderr=subprocess.PIPE, text=True)
        assert "Network is unreachable" in cut.communicate(timeout=30)[1]
        hosts.link_up(1)
        client = hosts.run(1, ask, stdout=subprocess.PIPE, text=True)
        assert client.communicate(timeout=30)[0] == "hello\n"
        names = hosts.names
    assert server.wait(timeout=10) < 0, "what still runs at the end is killed"
    server.stdout.close()
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert not any(name in left for name in names)
    assert str(os.getpid()) in names[0]
