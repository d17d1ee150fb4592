"""Addresses of processes, and listening at one."""

from __future__ import annotations

import pytest

from drumline._addresses import listen, on_host_of, split


def test_addresses_are_split() -> None:
    assert split("10.0.0.1:2222") == ("10.0.0.1", 2222)
    assert split("host.example:1") == ("host.example", 1)
    assert split("[fd00::1]:65535") == ("fd00::1", 65535)


@pytest.mark.parametrize(
    "address",
    ["", "a", ":1", "a:", "a:0", "a:65536", "a:-1", "a:1.0", "a: 1", "a:1 ", "a:b:1", "::1:2222"]
    + [
        "[::1]",
        "[]:1",
        "[::1:2",
        "::1]:2",
        "fd00::2222",
        "http://a:1",
        "a:\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(ValueError, match="is not an address: write host:port"):
        split(address)


def test_hosts_are_compared_without_ports() -> None:
    others = ["a:1", "a:2", "b:1", "[::1]:1"]
    assert [on_host_of(each, others) for each in ("a:9", "[::1]:9", "c:1")] == [2, 1, 0]


def test_it_listens_at_one_address_only() -> None:
    with listen("127.0.0.2", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.2"
        with pytest.raises(OSError, match="in use"):
            listen(*listener.getsockname())
    with pytest.raises(OSError, match="assign"):
        listen("203.0.113.1", 2222)
