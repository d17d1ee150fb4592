"""Every object that is built passes the schemas of four versions, and rules that they lack."""

from __future__ import annotations

import base64
import copy
import dataclasses
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.jobs.engines.kubernetes.objects import (
    PART,
    CodeTooLarge,
    StartDescription,
    StartNames,
    code_parts,
    owned,
    start_objects,
    wants_set,
)
from drumline.jobs.engines.kubernetes.settings import (
    GANGS,
    KubernetesSettings,
    SettingError,
    read_settings,
)
from drumline.jobs.engines.launching import KILL_SECONDS
from drumline.jobs.file.model import Code, Job, JobData, JobRole
from tests.jobs.kubernetes.api_server import schema_problems
from tests.jobs.kubernetes.cluster import _expanded
from tests.jobs.kubernetes.rules import broken_rules

pytest.importorskip("kubernetes_validate", reason="the schemas are in kubernetes-validate")

VERSIONS = ("1.29", "1.34", "1.35", "1.36", "1.37")
"""The oldest that has all fields which are used, and four new ones."""
ALL = KubernetesSettings(
    "example.com/train:1",
    queue="team",
    gang="coscheduling",
    scheduler="scheduler-plugins",
    priority_class="low",
    work_claim="work",
    node_selector={"gpu": "a100", "example.com/zone": ""},
    tolerations=("gpu=true:NoSchedule", "dedicated:NoExecute", "spot"),
    pull_secrets=("registry",),
    service_account="train",
)
JOB = Job(
    name="wide-deep",
    command=("python", "train.py", "--price", "$(HOME) $$5"),
    roles={
        "chief": JobRole(1, 0.5, 2**30, 1),
        "workers": JobRole(2, 4, 16 * 2**30, 1),
        "ps": JobRole(1, 2, 8 * 2**30),
        "evaluator": JobRole(1),
    },
    env={"BATCH": "64", "PRICE": "$(HOME)"},
    secrets=("HF_TOKEN",),
    timeout=0.5,
)


def built(
    job: Job = JOB,
    settings: KubernetesSettings = ALL,
    code: list[str] | None = None,
    as_set: bool = False,
) -> list[dict[str, Any]]:
    start = StartDescription(
        job=job, number=123456, attempt=99,
        names=StartNames.of("123456/attempt-99", "0123abcd"), namespace="team",
        identity="0123abcd", secrets=dict.fromkeys(job.secrets, "sesame-value"),
        git_password="open-value", token="token-value", code=["eA=="] if code is None else code,
    )  # fmt: skip
    first, *rest = start_objects(start, settings, as_set)
    owner = {**first, "metadata": {**first["metadata"], "uid": "u"}}
    return [first, *(owned(each, owner) for each in rest)]


FETCHED = dataclasses.replace(
    JOB, code=Code(git="https://git.example.com/a.git", commit="0" * 40, user="ada", token="T")
)
CASES = {
    "all settings": built(),
    "plain": built(settings=KubernetesSettings("train")),
    "one process": built(Job("x", ("python", "a.py"))),
    "fetched": built(FETCHED, code=[]),
    "parts": built(code=["eA=="] * 3),
    "volcano": built(settings=dataclasses.replace(ALL, gang="volcano", scheduler="")),
    "set": built(as_set=True),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_every_object_is_valid(case: str, version: str) -> None:
    for body in CASES[case]:
        assert schema_problems(body, version) + broken_rules(body) == []


def spec_of(body: dict[str, Any]) -> Any:
    return body["spec"]["template"]["spec"]


MISTAKES = {
    "unknown field": lambda job: job["spec"].update(completion=3),
    "wrong type": lambda job: job["spec"].update(completions="two"),
    "missing field": lambda job: job["spec"].pop("template"),
    "negative parallelism": lambda job: job["spec"].update(parallelism=-1),
    "label too long": lambda job: job["metadata"]["labels"].update(x="y" * 64),
    "label of a pod": lambda job: job["spec"]["template"]["metadata"]["labels"].update(x="-"),
    "restartPolicy Always": lambda job: spec_of(job).update(restartPolicy="Always"),
    "mount without volume": lambda job: spec_of(job).update(volumes=[]),
    "variable twice": lambda job: spec_of(job)["containers"][0]["env"].append(
        spec_of(job)["containers"][0]["env"][0]
    ),
    "host name too long": lambda job: job["metadata"].update(name="n" * 62),
    "capital in a name": lambda job: job["metadata"].update(name="Digits"),
    "image": lambda job: spec_of(job)["containers"][0].update(image="a b"),
    "request of gpus": lambda job: spec_of(job)["containers"][0]["resources"]["limits"].clear(),
    "path of a mount": lambda job: spec_of(job)["containers"][0]["volumeMounts"][0].update(
        mountPath="x"
    ),
}


EXTENSION_MISTAKES = {
    "unknown field": lambda jobs, group: jobs["spec"].update(suspended=True),
    "wrong type": lambda jobs, group: jobs["spec"].update(suspend="yes"),
    "field of a replicated Job": lambda jobs, group: jobs["spec"]["replicatedJobs"][0].update(n=1),
    "field of a Job in it": lambda jobs, group: jobs["spec"]["replicatedJobs"][0]["template"][
        "spec"
    ].update(completion=1),
    "rule of a Job in it": lambda jobs, group: jobs["spec"]["replicatedJobs"][0]["template"][
        "spec"
    ].update(parallelism=-1),
    "a name twice": lambda jobs, group: jobs["spec"]["replicatedJobs"].append(
        jobs["spec"]["replicatedJobs"][0]
    ),
    "network": lambda jobs, group: jobs["spec"]["network"].update(enableDnsHostnames=False),
    "members": lambda jobs, group: group["spec"].update(minMember=0),
    "of another scheduler": lambda jobs, group: group["spec"].update(queue="team"),
    "version": lambda jobs, group: group.update(apiVersion="scheduling.x-k8s.io/v1"),
}


@pytest.mark.parametrize("mistake", EXTENSION_MISTAKES)
def test_mistakes_in_extensions_are_found(mistake: str) -> None:
    bodies = copy.deepcopy(built(as_set=True))
    jobs, group = (
        next(each for each in bodies if each["kind"] == kind) for kind in ("JobSet", "PodGroup")
    )
    EXTENSION_MISTAKES[mistake](jobs, group)
    assert schema_problems(jobs, "1.37") + schema_problems(group, "1.37")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found(mistake: str) -> None:
    job = copy.deepcopy(built()[0])
    MISTAKES[mistake](job)
    found = schema_problems(job, "1.37")
    assert found or broken_rules(job)


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True)
SIZES = st.builds(
    JobRole,
    st.integers(1, 1000),
    st.floats(0.001, 4096),
    st.integers(0, 2**40),
    st.integers(0, 64),
    st.sampled_from(["", "example.com/other:2"]),
)
JOBS = st.builds(
    Job,
    name=NAMES,
    command=st.lists(st.text("a$()-{} é", max_size=9), min_size=1, max_size=3).map(tuple),
    roles=st.builds(
        lambda workers, ps, alone: {"workers": workers} | ps | dict.fromkeys(alone, JobRole()),
        SIZES,
        st.one_of(st.just({}), SIZES.map(lambda size: {"ps": size})),
        st.sets(st.sampled_from(["chief", "evaluator"])),
    ),
    code=st.sampled_from([Code(), Code(at="/root/code"), FETCHED.code]),
    data=st.lists(
        st.builds(
            lambda source, at, write: JobData(source, f"/mnt/{at}", write),
            st.sampled_from(["pvc://sets", "pvc://sets/a/b", "nfs://nas/x/y", "s3://b/c",
                             "dataset://mnist"]),
            NAMES, st.booleans(),
        ),
        max_size=3, unique_by=lambda each: each.at,
    ).map(tuple),
    env=st.dictionaries(st.from_regex(r"[A-Z_][A-Z_]{0,5}", fullmatch=True), st.text(max_size=9)),
    secrets=st.sets(st.sampled_from(["TOKEN_1", "x1"])).map(tuple),
    timeout=st.one_of(st.none(), st.floats(0.001, 1e7)),
    hang_after=st.sampled_from([None, 60.0]),
    log_limit=st.sampled_from([None, 10_000]),
)  # fmt: skip
SETTINGS = st.builds(
    KubernetesSettings,
    image=st.sampled_from(["train", "registry.example.com:5000/a/b@sha256:" + "0" * 64]),
    python=st.sampled_from(["python", "/opt/$venv/bin/python3"]),
    queue=st.sampled_from(["", "team"]),
    jobset=st.sampled_from(["", "never"]),
    gang=st.sampled_from(["", *GANGS]),
    scheduler=st.sampled_from(["", "scheduler-plugins"]),
    priority_class=st.sampled_from(["", "low"]),
    work_claim=st.sampled_from(["", "work"]),
    gpu=st.sampled_from(["nvidia.com/gpu", "amd.com/gpu"]),
    node_selector=st.sampled_from([{}, {"gpu": "a100", "example.com/zone": ""}]),
    tolerations=st.sets(st.sampled_from(ALL.tolerations)).map(tuple),
    pull_secrets=st.sampled_from([(), ("registry", "other")]),
    service_account=st.sampled_from(["", "train"]),
)


@given(JOBS, SETTINGS, st.integers(0, 3), st.sampled_from(VERSIONS))
@settings(deadline=None)
def test_every_job_is_valid(
    job: Job, options: KubernetesSettings, parts: int, version: str
) -> None:
    """With whatever options, under each version."""
    if job.code.git is None:
        parts += 1
    as_set = wants_set(job, options)
    bodies = built(job, options, ["eA=="] * parts, as_set)
    for body in bodies:
        assert schema_problems(body, version) + broken_rules(body) == []
    assert [body["kind"] for body in bodies].count("JobSet") == as_set
    # What is written is what the processes get: Kubernetes expands $(NAME).
    (container,) = spec_of(built(job, options)[0])["containers"]
    seen = {
        each["name"]: _expanded(each["value"], {"HOME": "/"})
        for each in container["env"] if "value" in each
    }  # fmt: skip
    assert {name: seen[name] for name in job.env} == job.env
    words = [_expanded(word, {"HOME": "/"}) for word in container["args"]]
    assert tuple(words[-len(job.command) :]) == job.command


def of_kind(bodies: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [body for body in bodies if body["kind"] == kind]


JOBS_OF_CASES = [job for bodies in CASES.values() for job in of_kind(bodies, "Job")]


def test_pods_find_each_other_by_the_service() -> None:
    """Before they are ready, as they look for each other to become so."""
    (service,) = of_kind(CASES["all settings"], "Service")
    spec = service["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    names = []
    for job in of_kind(CASES["all settings"], "Job"):
        labels = job["spec"]["template"]["metadata"]["labels"]
        assert spec["selector"].items() <= labels.items(), "it has pods of all roles"
        pod = spec_of(job)
        assert pod["subdomain"] == service["metadata"]["name"]
        _, host, rendezvous, *_ = pod["containers"][0]["args"]
        service_name = f"{service['metadata']['name']}.team.svc"
        assert host == f"{job['metadata']['name']}-{{index}}.{service_name}"
        names.append(f"{job['metadata']['name']}-0.{service_name}:{spec['ports'][0]['port']}")
        assert rendezvous == names[0], "the first pod of the first role"
    # Two starts of one job, and two workspaces, have other pods.
    assert len(spec["selector"]) == 1 and "-123456-99-0123abcd" in str(spec["selector"])


def test_each_process_has_a_rank_of_its_own() -> None:
    ranks = [
        int(spec_of(job)["containers"][0]["args"][0]) + index
        for job in of_kind(CASES["all settings"], "Job")
        for index in range(job["spec"]["completions"])
    ]
    assert ranks == list(range(5))


@pytest.mark.parametrize("job", JOBS_OF_CASES)
def test_nothing_is_started_again_by_the_cluster(job: dict[str, Any]) -> None:
    """The supervisor starts all of a job again, and pods have the time that launchers need."""
    assert job["spec"]["backoffLimitPerIndex"] == 0 and "backoffLimit" not in job["spec"]
    assert job["spec"]["parallelism"] == job["spec"]["completions"]
    pod = spec_of(job)
    assert pod["restartPolicy"] == "Never"
    # Launchers kill what does not end after this long, and say then who that was.
    assert pod["terminationGracePeriodSeconds"] >= KILL_SECONDS + 5
    assert pod["automountServiceAccountToken"] is ("serviceAccountName" in pod)


def test_each_object_goes_with_the_first() -> None:
    for bodies in CASES.values():
        first, *rest = bodies
        for body in rest:
            (owner,) = body["metadata"]["ownerReferences"]
            assert owner["uid"] == "u"
            assert (owner["apiVersion"], owner["kind"], owner["name"]) == (
                first["apiVersion"], first["kind"], first["metadata"]["name"]
            )  # fmt: skip
            assert body["metadata"]["namespace"] == first["metadata"]["namespace"]


def test_how_long_a_job_may_run() -> None:
    assert spec_of(built()[0])["activeDeadlineSeconds"] == 1, "at least, of half a second"
    late = dataclasses.replace(JOB, timeout=61.2)
    assert {spec_of(j)["activeDeadlineSeconds"] for j in of_kind(built(late), "Job")} == {62}
    never = dataclasses.replace(JOB, timeout=None)
    assert "activeDeadlineSeconds" not in spec_of(built(never)[0])


def test_queues_and_gangs() -> None:
    kueue = KubernetesSettings("train", queue="team")
    queue = "kueue.x-k8s.io/queue-name"
    for job in of_kind(built(settings=kueue), "Job"):
        assert (job["spec"]["suspend"], job["metadata"]["labels"][queue]) == (True, "team")
    for job in of_kind(CASES["plain"], "Job"):
        assert "suspend" not in job["spec"] and queue not in job["metadata"]["labels"]
    (jobs,) = of_kind(built(settings=kueue, as_set=True), "JobSet")
    assert (jobs["spec"]["suspend"], jobs["metadata"]["labels"][queue]) == (True, "team")
    for case in ("all settings", "volcano"):
        (group,) = of_kind(CASES[case], "PodGroup")
        assert group["spec"]["minMember"] == 5, "all processes, not all roles"


def test_what_pods_get() -> None:
    chief, _, ps, _ = (spec_of(job) for job in of_kind(built(
        settings=dataclasses.replace(ALL, gpu="amd.com/gpu")), "Job"))  # fmt: skip
    resources = chief["containers"][0]["resources"]
    assert resources["limits"] == {"memory": str(2**30), "amd.com/gpu": "1"}
    assert resources["requests"] == {"cpu": "500m", **resources["limits"]}
    assert ps["containers"][0]["resources"]["limits"] == {"memory": str(2**33)}
    env = {each["name"]: each for each in chief["containers"][0]["env"]}
    base = "drumline-123456-99-0123abcd"
    for name, key in (("HF_TOKEN",) * 2, ("DRUMLINE_RENDEZVOUS_TOKEN", "rendezvous-token")):
        assert env[name] == {
            "name": name, "valueFrom": {"secretKeyRef": {"name": base, "key": key}}
        }  # fmt: skip
    # Of two jobs in one claim neither has the other's files; starts of one job share them.
    mounts = {each["name"]: each for each in chief["containers"][0]["volumeMounts"]}
    assert mounts["work"]["subPath"] == "drumline/0123abcd/123456"


def test_what_is_not_written_cannot_be() -> None:
    data = (JobData("pvc://sets/in", "/mnt/in"), JobData("nfs://nas/out", "/mnt/out", True))
    pod = spec_of(built(dataclasses.replace(JOB, data=data))[0])
    mounts = {m["mountPath"]: m["readOnly"] for m in pod["containers"][0]["volumeMounts"]
              if m["mountPath"].startswith("/mnt")}  # fmt: skip
    assert mounts == {"/mnt/in": True, "/mnt/out": False}
    sources = {k: v for each in pod["volumes"] for k, v in each.items() if k != "name"}
    assert sources["persistentVolumeClaim"]["readOnly"] and not sources["nfs"]["readOnly"]


def test_values_of_secrets_are_in_the_secret_only() -> None:
    for case in CASES.values():
        for body in case:
            if body["kind"] != "Secret":
                assert "-value" not in json.dumps(body), body["kind"]
    (secret,) = [body for body in CASES["all settings"] if body["kind"] == "Secret"]
    assert secret["stringData"]["HF_TOKEN"] == "sesame-value"


def test_the_words_of_a_command_are_not_expanded() -> None:
    words = spec_of(built()[0])["containers"][0]["args"]
    assert [_expanded(word, {"HOME": "/root"}) for word in words][-4:] == list(JOB.command)


def test_the_archive_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_text("x")
    (tmp_path / "link").symlink_to("a/b.py")
    noise = b"".join(i.to_bytes(4, "big") for i in range(0, 2**31, 4001))
    (tmp_path / "noise").write_bytes(noise)
    parts = code_parts(tmp_path)
    assert len(parts) > 1 and all(len(base64.b64decode(part)) <= PART for part in parts)
    packed = io.BytesIO(b"".join(map(base64.b64decode, parts)))
    with tarfile.open(fileobj=packed) as files:
        files.extractall(tmp_path / "out", filter="tar")
    assert (tmp_path / "out" / "link").read_text() == "x"
    assert (tmp_path / "out" / "noise").read_bytes() == noise
    with pytest.raises(CodeTooLarge, match=r"noise \(2.0 MiB\).*git repository"):
        code_parts(tmp_path, largest=1000)


def test_settings(tmp_path: Path) -> None:
    given = ["image=a/b:1", "namespace=team", "node-selector=gpu=a100", "kubeconfig=~/k"]
    given += ["tolerations=gpu:NoSchedule", "tolerations=x=y"]
    read = read_settings(given, {})
    assert read == KubernetesSettings(
        "a/b:1", str(Path.home() / "k"), namespace="team", node_selector={"gpu": "a100"},
        tolerations=("gpu:NoSchedule", "x=y"),
    )  # fmt: skip
    assert KubernetesSettings.from_json(json.loads(json.dumps(dataclasses.asdict(read)))) == read
    assert read_settings(["image=a"], {"KUBECONFIG": "/k"}).kubeconfig == "/k"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["namespace=x"], "image is missing"),
        (["image=a b"], "no name of an image"),
        (["image=a", "namespace=A"], "no name of a namespace"),
        (["image=a", "nodeselector=x"], "known are .*node-selector"),
        (["image=a", "node-selector=gpu"], "LABEL=VALUE"),
        (["image=a", "tolerations=gpu:Never"], "NoSchedule"),
        (["image=a", "image=b"], "given twice"),
        (["image=a", "gang=yunikorn"], "known are coscheduling, volcano"),
        (["image=a", "jobset=always"], "known is never"),
        (["image=a", "scheduler=A B"], "scheduler"),
        (["image=a", "work-claim=../x"], "work-claim"),
    ],
)
def test_settings_that_cannot_be(words: list[str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        read_settings(words, {"KUBECONFIG": "/k"})
