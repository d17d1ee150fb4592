"""Notices of clouds, from a metadata service of our own."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import drumline as dl
from drumline.distribute.cluster_resolver import cloud_notices
from drumline.distribute.process_group.preemption import Preemption
from tests.distribute.cluster_resolver.metadata_service import Answer, Service

GCE = "/computeMetadata/v1/instance"


def test_google_preempts_and_maintains(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", service.address.removeprefix("http://"))
    watch = dl.train.gce_termination_watcher()
    service.answers[f"{GCE}/preempted"] = (200, "FALSE\n")
    service.answers[f"{GCE}/maintenance-event"] = (200, "NONE")
    assert not watch()
    assert {headers["metadata-flavor"] for _, _, headers in service.asked} == {"Google"}
    service.answers[f"{GCE}/maintenance-event"] = (200, "MIGRATE_ON_HOST_MAINTENANCE")
    assert not watch()
    service.answers[f"{GCE}/maintenance-event"] = (200, "TERMINATE_ON_HOST_MAINTENANCE")
    assert watch()
    service.answers[f"{GCE}/maintenance-event"] = (503, "later")
    assert not watch()
    service.answers[f"{GCE}/preempted"] = (200, "TRUE")
    assert watch()


AWS = "/latest/meta-data/spot/instance-action"
NOTICE = json.dumps({"action": "terminate", "time": "2030-01-01T00:00:00Z"})


def test_aws_gives_a_token_and_takes_spot_instances(service: Service) -> None:
    service.answers["/latest/api/token"] = (200, "first")
    service.needs = {"x-aws-ec2-metadata-token": "first"}
    watch = dl.train.aws_termination_watcher(service.address)
    assert not watch() and not watch()
    assert [method for method, _, _ in service.asked] == ["PUT", "GET", "GET"], "one token"
    assert service.asked[0][2]["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
    service.answers["/latest/api/token"] = (200, "second")
    service.needs = {"x-aws-ec2-metadata-token": "second"}
    service.answers[AWS] = (200, NOTICE)
    assert watch(), "a token that is too old is replaced"
    for text in ('{"action": "none"}', "[]", "{", "[" * 100_000):
        service.answers[AWS] = (200, text)
        assert not watch()


def test_aws_without_tokens(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # which is not asked
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.address + "/")
    service.answers["/latest/api/token"] = (403, "")
    service.answers[AWS] = (200, NOTICE)
    assert dl.train.aws_termination_watcher()()


def test_azure_evicts_this_machine(service: Service) -> None:
    schedule = "/metadata/scheduledevents?api-version=2020-07-01"

    def events(*found: dict[str, Any]) -> Answer:
        return 200, json.dumps({"DocumentIncarnation": 1, "Events": list(found)})

    name = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
    watch = dl.train.azure_termination_watcher(service.address)
    assert not watch(), "nothing is there yet"
    service.answers[name] = (200, "node_3")
    service.answers[schedule] = events()
    assert not watch()
    assert {headers["metadata"] for _, _, headers in service.asked} == {"true"}
    service.answers[schedule] = events({"EventType": "Preempt", "Resources": ["node_4"]})
    assert not watch()
    reboot = {"EventType": "Reboot", "Resources": ["node_3"]}
    service.answers[schedule] = events(reboot, {"EventType": "Preempt"})
    assert not watch()
    assert dl.train.azure_termination_watcher(service.address, ["Reboot"])()
    service.answers[schedule] = events(reboot, {"EventType": "Preempt", "Resources": ["node_3"]})
    assert watch()
    with pytest.raises(ValueError, match=r"\['Storm'\] are none of Freeze, Preempt"):
        dl.train.azure_termination_watcher(events=["Storm"])


WATCHERS: list[Callable[..., Callable[[], bool]]] = [
    dl.train.gce_termination_watcher,
    dl.train.aws_termination_watcher,
    dl.train.azure_termination_watcher,
]


@pytest.mark.parametrize("made", WATCHERS)
def test_without_a_service_nothing_is_noticed(
    made: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_notices, "_TIMEOUT_SECONDS", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        caplog.at_level(logging.INFO, "drumline"),
    ):
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        watch = made(address)
        assert not watch() and not watch()
    with caplog.at_level(logging.INFO, "drumline"):
        watch = made(address)  # nothing listens there now
        assert not watch() and not watch()
    assert caplog.text.count("does not answer") == 2, "each says so once"
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_strange_answers_are_no_notice(caplog: pytest.LogCaptureFixture) -> None:
    def answer(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(b"nonsense\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,), daemon=True)
        thread.start()
        for made in WATCHERS:
            assert not made(f"http://127.0.0.1:{server.getsockname()[1]}")()


def test_a_notice_stops_a_training(service: Service, tmp_path: Path) -> None:
    service.answers[AWS] = (200, NOTICE)
    preemption = Preemption(dl.train.aws_termination_watcher(service.address))
    try:
        while not preemption.stops_here():
            time.sleep(0.01)
        assert preemption.reason is not None and "termination watcher" in preemption.reason
    finally:
        preemption.close()
