"""The console's pages in Chromium: what they show, by mouse, by keyboard and on a telephone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.jobs.console.fabricated import many, workspace
from tests.jobs.console.serving import TOKEN, Console, console

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    Open = Callable[..., Page]


def test_token_leaves_the_address(served: Console, open_page: Open) -> None:
    page = open_page(served)
    page.wait_for_selector(".row")
    assert TOKEN not in page.url
    assert TOKEN not in page.content()
    page.reload()
    page.wait_for_selector(".row")  # The cookie is enough.
    assert not page.context.cookies()[0]["value"].count(TOKEN)


def test_without_a_token_one_is_asked_for(served: Console, open_page: Open) -> None:
    page = open_page(served, expected=("401",))
    page.context.clear_cookies()
    page.goto(f"{served.url}/")
    page.reload()
    page.fill("#token", "not-the-token-of-it")
    page.press("#token", "Enter")
    page.wait_for_selector("[role=alert] >> text=not the token")
    page.fill("#token", TOKEN)
    page.press("#token", "Enter")
    page.wait_for_selector(".row")


def test_jobs_with_their_states_and_reasons(served: Console, open_page: Open) -> None:
    page = open_page(served)
    row = page.locator(".row", has_text="bert-finetune-large")
    row.wait_for()
    assert "queued" in row.inner_text()
    assert "waits for 4 gpus; 1 of 8 is free" in row.inner_text()
    failed = page.locator(".row", has_text="unet-pets-augmented")
    assert "worker:1 failed first" in failed.inner_text()
    page.click("[data-state=failed]")
    page.wait_for_selector(".row >> text=unet-pets-augmented")
    page.wait_for_selector(".row:has-text('succeeded')", state="detached")
    assert set(page.locator(".row .state").all_inner_texts()) == {"failed"}
    page.fill("input[type=search]", "no-such-name")
    page.wait_for_selector("text=No job matches")
    page.click("text=Show all jobs")
    page.wait_for_selector(".row >> text=digits-nightly")


def test_list_by_keyboard(served: Console, open_page: Open) -> None:
    page = open_page(served)
    page.wait_for_selector(".row")
    page.keyboard.press("/")
    page.keyboard.type("vit-cifar")
    page.wait_for_selector(".row >> text=digits-nightly", state="detached")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1 >> text=vit-cifar-distributed")
    page.keyboard.press("g")
    page.wait_for_selector("h1 >> text=Jobs")
    page.keyboard.press("n")
    page.wait_for_selector("h1 >> text=New job")
    page.keyboard.press("?")  # The focus is nowhere: help comes up.
    page.wait_for_selector("dialog[open] >> text=search jobs")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")


def test_one_job_on_one_page(served: Console, open_page: Open) -> None:
    page = open_page(served, "jobs/30")
    page.wait_for_selector("h1 >> text=vit-cifar-distributed")
    page.wait_for_selector(".chart path.line")
    titles = page.locator("figcaption").all_inner_texts()
    assert [title.lower() for title in titles] == [
        *("batch loss", "epoch loss", "epoch accuracy", "learning rate"),
    ]
    wanted = served.api("/jobs/30/metrics")["series"]["logs/validation/epoch_loss"]["value"][-1]
    legend = page.locator(".chart", has_text="epoch loss").locator(".legend").inner_text()
    shown = re.search(r"validation\s+([\d.]+)", legend)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(wanted, rel=1e-3)
    names = [f"worker:{i}" for i in range(3)] + ["ps:0", "evaluator:0"]
    processes = page.locator(".processes")
    assert processes.locator("tbody th").all_inner_texts() == names
    assert page.locator("[role=tab]").all_inner_texts() == [*names, "job"]
    page.wait_for_selector(".processes >> text=14.2 GiB")
    for text in ("worker:2", "ps:0", "evaluator:0", "cores", "GPU memory"):
        assert text in processes.inner_text()
    assert "ckpt-22.safetensors" in page.locator("[aria-label=Checkpoints]").inner_text()
    assert "read only" in page.locator("[aria-label=Events]").inner_text()
    assert "command: python train.py" in page.locator("pre.yaml").inner_text()


def test_values_where_one_points_and_by_arrow_keys(served: Console, open_page: Open) -> None:
    page = open_page(served, "jobs/30")
    plot = page.locator(".chart", has_text="epoch loss").locator(".plot")
    plot.wait_for()
    page.wait_for_selector(".chart path.line")
    plot.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    tip = page.locator(".chart", has_text="epoch loss").locator(".tip")
    assert "step 1" in tip.inner_text()
    value = served.api("/jobs/30/metrics")["series"]["logs/train/epoch_loss"]["value"][1]
    assert f"{value:.4g}" in tip.inner_text()
    label = plot.get_attribute("aria-label") or ""
    assert "at step 22" in label
    page.keyboard.press("Escape")
    assert tip.is_hidden()


def test_why_a_job_failed(served: Console, open_page: Open) -> None:
    page = open_page(served, "jobs/27")
    page.wait_for_selector(".notice.bad >> text=worker:1 failed first, 0.4 s before worker:0")
    assert "ValueError: masks must have one channel" in page.locator(".notice pre").inner_text()
    # The log of the one who failed first is shown, and nothing is said of curves but that.
    page.wait_for_selector("[role=tab][aria-selected=true] >> text=worker:1")
    page.wait_for_selector(".terminal >> text=masks must have one channel")
    page.wait_for_selector("[aria-label=Curves] >> text=No curves")
    assert page.locator("text=Run again").is_visible()
    assert page.locator("button:has-text('Cancel')").is_hidden()


def test_two_jobs_in_one_chart(served: Console, open_page: Open) -> None:
    page = open_page(served)
    for name in ("resnet50-lr-0-4", "resnet50-lr-0-1"):
        page.locator(".row", has_text=name).locator("input").check()
    page.click("a:has-text('Compare')")
    page.wait_for_selector("h1 >> text=Comparison")
    chart = page.locator(".chart", has_text="epoch loss")
    chart.locator("path.line").nth(3).wait_for(state="attached")
    legend = chart.locator(".legend").inner_text()
    assert all(f"resnet50-lr-0-{i} {run}" in legend for i in (4, 1) for run in ("train", "valid"))
    differs = page.locator(".differences").inner_text()
    assert "--rate 0.4" in differs and "--rate 0.1" in differs
    assert "imagenet" not in differs


def test_job_that_is_not_there(served: Console, open_page: Open) -> None:
    page = open_page(served, "jobs/999", expected=("404",))
    page.wait_for_selector("text=There is no job 999")


def test_form_and_file_follow_each_other(served: Console, open_page: Open) -> None:
    page = open_page(served, "new")
    yaml = page.locator("textarea[aria-label*=YAML]")
    page.wait_for_selector(".fine")
    page.fill("#field-name", "digits")
    page.fill("#field-command", "python train.py --epochs 12")
    page.fill("[aria-label='Workers: CPUs']", "0.5")
    page.fill("[aria-label='Workers: Count']", "2")
    assert yaml.input_value() == (
        "name: digits\ncode: .\ncommand: python train.py --epochs 12\n"
        "workers: {count: 2, cpus: 0.5}\n"
    )
    page.click("[data-form=advanced]")
    page.fill("[aria-label='Parameter servers: Count']", "1")
    page.click("text=Add variables")
    page.fill("[aria-label='Variables 1: NAME']", "BATCH")
    page.fill("[aria-label='Variables 1: value']", "64")
    assert 'ps: 1\nenv:\n  BATCH: "64"\n' in yaml.input_value()
    page.wait_for_selector(".fine")
    yaml.fill(
        "name: other\ncode: .\ncommand: [python, 'a b.py']\nworkers: {count: 3, memory: 16GiB}\n"
        "evaluator: true\ntimeout: 90m\n"
    )
    page.wait_for_selector(".fine")
    yaml.blur()
    _until(page, "#field-name", "other")
    assert page.input_value("#field-command") == "python 'a b.py'"
    assert page.input_value("[aria-label='Workers: Count']") == "3"
    assert page.input_value("[aria-label='Workers: Memory']") == "16GiB"
    assert page.locator("[aria-label=Evaluator]").is_checked()
    assert page.input_value("#field-timeout") == "90m"


def _until(page: Page, field: str, value: str) -> None:
    from playwright.sync_api import expect

    expect(page.locator(field)).to_have_value(value, timeout=120_000)


def test_each_problem_at_its_line(served: Console, open_page: Open) -> None:
    page = open_page(served, "new", expected=("400",))
    page.wait_for_selector(".fine")
    yaml = page.locator("textarea[aria-label*=YAML]")
    yaml.fill("name: Digits\ncode: .\ncommand: python train.py\nworkers: {count: 2, cpus: -1}\n")
    page.wait_for_selector(".back .bad")
    assert [int(each) for each in page.locator(".back .bad i").all_inner_texts()] == [1, 4]
    assert "must be a number above 0" in page.locator(".back .bad em").nth(1).inner_text()
    page.click("text=Line 4")
    selected = yaml.evaluate("field => field.value.slice(field.selectionStart, field.selectionEnd)")
    assert selected == "workers: {count: 2, cpus: -1}"
    assert "lower case" in page.locator("[data-field=name] .error").inner_text()
    page.click("text=Submit job")
    page.wait_for_selector(".toast >> text=was not submitted")
    assert served.api("/jobs")["counts"] == served.api("/jobs")["counts"]
    yaml.fill("command: [python\n")
    page.wait_for_selector(".problems >> text=this is not YAML")


def test_code_data_secrets_engines(served: Console, open_page: Open) -> None:
    page = open_page(served, "secrets", expected=("400",))
    page.wait_for_selector(".things >> text=HF_TOKEN")
    page.click("text=Add secret")
    page.fill("dialog [name=name]", "NEW_TOKEN")
    page.fill("dialog [name=value]", "a-value-that-is-secret")
    page.click("dialog >> text=Save")
    page.wait_for_selector(".things >> text=NEW_TOKEN")
    assert (served.home / "secrets" / "NEW_TOKEN").read_text() == "a-value-that-is-secret"
    assert "a-value-that-is-secret" not in page.content()
    page.click("[aria-label='Remove NEW_TOKEN']")
    page.click("dialog >> text=Remove >> nth=1")
    page.wait_for_selector(".things >> text=NEW_TOKEN", state="detached")
    page.click("[data-page=data]")
    page.wait_for_selector(".things >> text=s3://team/out")
    page.click("text=Add data")
    page.fill("dialog [name=name]", "Bad Name")
    page.fill("dialog [name=from]", "/tmp")
    page.click("dialog >> text=Save")
    page.wait_for_selector("dialog [role=alert] >> text=lower case")
    page.keyboard.press("Escape")
    page.click("[data-page=engines]")
    page.wait_for_selector(".things >> text=lab-slurm")
    page.wait_for_selector(".things >> text=ssh · hosts: node1, node2")
    own = page.locator(".things li", has_text="this machine").inner_text()
    assert re.search(r"this machine · [\d.]+ cpus, \d+ GiB", own), own
    page.click("[aria-label='Remove lab-hosts']")
    page.click("dialog >> text=Remove >> nth=1")
    page.wait_for_selector(".things >> text=lab-hosts", state="detached")
    assert not (served.home / "engines" / "lab-hosts.json").exists()
    page.click("[data-page=code]")
    page.wait_for_selector(".things >> text=vit-cifar.git")


def test_empty_workspace(tmp_path: Path, open_page: Open) -> None:
    with console(tmp_path / "home", tmp_path) as served:
        page = open_page(served)
        page.wait_for_selector("text=No jobs yet")
        page.click(".empty >> text=New job")
        page.wait_for_selector("h1 >> text=New job")
        page.context.close()


@pytest.mark.parametrize("path", ["jobs", "jobs/30", "jobs/27", "compare/28/29", "new", "data"])
def test_telephone(served: Console, open_page: Open, path: str) -> None:
    size = {"width": 360, "height": 740}
    page = open_page(served, path, viewport=size, color_scheme="dark", has_touch=True)
    page.wait_for_selector("main h1")
    page.wait_for_selector(".loading", state="detached") if path != "jobs/27" else None
    wide = page.evaluate("document.documentElement.scrollWidth")
    inner = page.evaluate("document.querySelector('main').scrollWidth")
    assert wide <= 360 and inner <= 360


def test_names_for_those_who_do_not_see(served: Console, open_page: Open) -> None:
    for path in ("jobs", "jobs/30", "new", "secrets"):
        page = open_page(served, path)
        page.wait_for_selector("main h1")
        if path == "jobs/30":
            page.wait_for_selector(".terminal .line")
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('button,a[href],input,select,textarea')]
            .filter(e => e.offsetParent && !(e.ariaLabel || e.textContent.trim() || e.title
              || e.labels?.length)).map(e => e.outerHTML.slice(0, 120))"""
        )
        assert nameless == []
        roles = page.evaluate("[...document.querySelectorAll('[role]')].map(e => e.role)")
        wanted = {"jobs": "table", "jobs/30": "tabpanel", "new": "tablist"}.get(path, "status")
        assert wanted in roles


def test_motion_is_reduced_when_asked(served: Console, open_page: Open) -> None:
    page = open_page(served, "jobs/30", reduced_motion="reduce")
    arc = page.locator(".s-running .arc").first
    arc.wait_for(state="attached")
    assert arc.evaluate("e => getComputedStyle(e).animationName") == "none"


def test_revoked_session_ends_the_page(served: Console, open_page: Open) -> None:
    page = open_page(served, expected=("401",))
    page.wait_for_selector(".row")
    page.context.clear_cookies()
    page.click("[data-state=failed]")
    page.wait_for_selector("text=The session has ended")


def test_ten_thousand_jobs(tmp_path: Path, open_page: Open) -> None:
    store = workspace(tmp_path / "home")
    many(store, 10_000)
    store.close()
    with console(tmp_path / "home", tmp_path) as served:
        page = open_page(served)
        page.wait_for_selector(".row")
        assert "10,0" in page.locator(".title").inner_text()
        for count in range(101, 902, 100):  # with the head; each page of the list has 100
            page.wait_for_selector(f".table[aria-rowcount='{count}']")
            page.locator(".table").evaluate("box => { box.scrollTop = box.scrollHeight }")
        assert page.locator(".row").count() < 80
        page.fill("input[type=search]", "sweep-3-lr-9994")
        page.wait_for_selector(".row >> text=sweep-3-lr-9994")
        page.context.close()
