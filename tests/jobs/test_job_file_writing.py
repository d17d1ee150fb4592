"""Jobs as text, from which the same jobs are read."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from drumline.jobs.file.model import Code, Job, JobData, JobRole
from drumline.jobs.file.reading import make_job, read_job
from drumline.jobs.file.values import parse_yaml
from drumline.jobs.file.writing import fields_of, to_yaml

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
ROLES = st.builds(
    JobRole,
    count=st.integers(1, 1000),
    cpus=st.sampled_from([0.5, 1.0, 2.25, 4096.0]),
    memory=st.integers(0, 10**12),
    gpus=st.integers(0, 64),
    image=st.sampled_from(["", "drumline/train:0.1"]),
)
TIMES = st.none() | st.integers(1, 10**6).map(float) | st.sampled_from([0.25, 90.5])
CODES = st.sampled_from(
    [
        Code(folder="/tmp"),
        Code(folder="/tmp", at="/root/code"),
        Code(git="https://e.com/r.git", commit="main", user="ada", token="T", at="/root/code"),
    ]
)


@given(
    st.builds(
        Job,
        name=st.from_regex(r"[a-z0-9]{1,40}", fullmatch=True),
        command=st.lists(WORDS, min_size=1, max_size=4).map(tuple),
        code=CODES,
        roles=st.fixed_dictionaries({"workers": ROLES}, optional={"ps": ROLES}),
        env=st.dictionaries(st.from_regex(r"E_[a-z]{1,5}", fullmatch=True), st.just("") | WORDS),
        secrets=st.sampled_from([(), ("A", "B")]),
        priority=st.integers(1, 9),
        restarts=st.integers(0, 1000),
        timeout=TIMES,
        log_limit=st.none() | st.integers(4096, 10**12),
        hang_after=TIMES,
        engine=st.sampled_from(["local", "ssh:a", "ssh:ada@a,10.0.0.2"]),
        data=st.sampled_from([(), (JobData("s3://a/b", "/mnt/x", True), JobData("/tmp", "/d"))]),
    )
)
def test_what_is_written_is_read_as_the_same_job(job: Job) -> None:
    assert read_job(parse_yaml(to_yaml(job), "job.yaml"), Path("/"), ("local",), {}) == job
    again = make_job(fields_of(job), Path("/"))
    assert dataclasses.replace(again, places={}) == dataclasses.replace(job, places={})
