// All jobs of a workspace, the newest first: by state, by search, as many as there are.

import { get } from "../api.js";
import { count, empty, failure, fill, h, icon, loading, span, state, timeAgo, toast, write } from "../dom.js";
import { follow } from "../live.js";
import { Rows } from "../parts/rows.js";

const ROW = 60;
const PAGE = 100;
const FILTERS = ["", "running", "queued", "failed", "succeeded", "cancelled"];
const OPEN = ["submitting", "queued", "starting", "running", "stopping", "lost"];

/** Show the page; see main.js for what it is given. */
export function open({ main, parameters, base, self }) {
  let jobs = [], counts = {}, more = false, busy = null, loaded = false, at = -1, missed = null;
  let chosen = parameters.get("state") ?? "", search = parameters.get("search") ?? "";
  const picked = new Set();
  const several = Boolean(self.member);

  const field = h("input", { type: "search", placeholder: "Search by name or number", "aria-label": "Search jobs", value: search, oninput() {
    clearTimeout(field.timer);
    field.timer = setTimeout(() => { search = field.value.trim(); at = -1; remember(); fetchFirst(true); }, 180);
  }, onkeydown(event) {
    if (event.key !== "Enter" && event.key !== "ArrowDown") return;
    event.preventDefault();
    move(1);
  } });
  const filters = h("div", { class: "filters", role: "group", "aria-label": "State" });
  const total = h("p", { class: "dim" });
  const compare = h("a", { class: "button", hidden: true }, icon("compare"), "Compare");
  const box = h("div", { class: "table", role: "table", "aria-label": "Jobs" });
  const head = h("div", { class: "head", role: "row" }, ["", "State", "Job", "Engine", several ? "By" : null, "Submitted", "Time"].filter((each) => each !== null)
    .map((each, i) => h("span", { role: "columnheader", class: ["", "", "", "engine", several ? "by" : "when", several ? "when" : "time", "time"][i] }, each)));
  box.append(head);
  box.classList.toggle("with-members", Boolean(several));
  const rows = new Rows(box, ROW, row, (_, last) => { if (more && last > jobs.length - 40) fetchMore(); });
  const body = h("div", { class: "below" });
  fill(main, h("div", { class: "page list" },
    h("header", { class: "title" }, h("div", {}, h("h1", {}, "Jobs"), total), h("span", { class: "grow" }), compare,
      h("a", { class: "button primary writes", href: `${base}/new` }, icon("plus"), "New job")),
    h("div", { class: "toolbar" }, h("div", { class: "search" }, icon("search"), field, h("kbd", { "aria-hidden": "true" }, "/")), filters),
    body));
  fill(body, loading(8));

  function remember() {
    const words = new URLSearchParams();
    if (chosen) words.set("state", chosen);
    if (search) words.set("search", search);
    history.replaceState(null, "", `${base}/jobs${words.size ? `?${words}` : ""}`);
  }

  function showFilters() {
    const sum = (names) => names.reduce((all, name) => all + (counts[name] ?? 0), 0);
    const all = Object.values(counts).reduce((a, b) => a + b, 0);
    write(total, all ? `${count(all)} in all, ${count(sum(OPEN))} of them not ended` : "");
    const shown = FILTERS.map((name) => [name, name ? counts[name] ?? 0 : all]);
    if (filters.children.length !== shown.length) {
      fill(filters, shown.map(([name]) => h("button", { type: "button", "data-state": name, onclick: () => { chosen = name; at = -1; remember(); showFilters(); fetchFirst(true); } },
        h("span", {}, name ? name[0].toUpperCase() + name.slice(1) : "All"), h("b", {}))));
    }
    shown.forEach(([name, many], i) => {
      const button = filters.children[i];
      button.setAttribute("aria-pressed", String(name === chosen));
      write(button.querySelector("b"), count(many));
    });
  }

  const asked = (before) => {
    const words = new URLSearchParams({ limit: PAGE });
    if (chosen) words.set("state", chosen);
    if (search) words.set("search", search);
    if (before) words.set("before", before);
    return `/jobs?${words}`;
  };

  async function fetchFirst(fresh = false) {
    busy?.abort();
    const mine = busy = new AbortController();
    clearTimeout(missed);
    if (fresh) box.setAttribute("aria-busy", "true");
    try {
      const found = await get(asked(), mine.signal);
      const oldest = found.jobs.at(-1)?.id ?? 0;
      // What was fetched by scrolling stays, unless another question was asked.
      const rest = fresh || !loaded ? [] : jobs.filter((job) => job.id < oldest);
      const before = jobs;
      jobs = found.jobs.concat(found.more ? rest : []);
      if (!rest.length) more = found.more;
      counts = found.counts;
      loaded = true;
      if (fresh) box.scrollTop = 0;
      showAll(fresh || before.length !== jobs.length || before.some((job, i) => JSON.stringify(job) !== JSON.stringify(jobs[i])));
    } catch (error) {
      if (error.name !== "AbortError" && error.status !== 401) fill(body, failure(error, () => fetchFirst(true)));
    } finally {
      if (busy === mine) { busy = null; box.removeAttribute("aria-busy"); }
    }
  }

  async function fetchMore() {
    if (busy) return;
    const mine = busy = new AbortController();
    try {
      const found = await get(asked(jobs.at(-1).id), mine.signal);
      jobs.push(...found.jobs);
      more = found.more;
      box.setAttribute("aria-rowcount", String(jobs.length + 1));
      rows.set(jobs.length, true);
    } catch (error) {
      if (error.name !== "AbortError") toast(error.message, "bad");
    } finally {
      if (busy === mine) busy = null;
    }
  }

  function showAll(changed = true) {
    showFilters();
    if (!jobs.length) {
      const all = Object.values(counts).reduce((a, b) => a + b, 0);
      fill(body, all ? empty("search", "No job matches", search ? `Nothing has “${search}” in its name or number.` : `No job is ${chosen}.`,
        h("button", { type: "button", onclick: () => { chosen = search = field.value = ""; remember(); fetchFirst(true); } }, "Show all jobs"))
        : empty("jobs", "No jobs yet", "A job is a command that runs on this machine or a cluster, with its code, data, logs and curves kept.",
          h("a", { class: "button primary", href: `${base}/new` }, icon("plus"), "New job"),
          h("span", { class: "or" }, "or ", h("code", {}, "drumline run -- python train.py"))));
      return;
    }
    if (!box.isConnected) fill(body, box);
    box.setAttribute("aria-rowcount", String(jobs.length + 1));
    rows.set(jobs.length, !changed);
  }

  function row(number) {
    const job = jobs[number];
    const ended = job.ended ?? Date.now() / 1000;
    const telling = job.reason && !["succeeded", "cancelled"].includes(job.state) ? job.reason.split("\n")[0] : "";
    return h("div", { class: `row${number === at ? " at" : ""}`, role: "row", "aria-rowindex": number + 2 },
      h("span", { role: "cell", class: "pick" }, h("input", { type: "checkbox", checked: picked.has(job.id), "aria-label": `Compare ${job.name}, job ${job.id}`, onchange: (event) => pick(job.id, event.target.checked) })),
      h("span", { role: "cell" }, state(job.state)),
      h("span", { role: "cell", class: "name" },
        h("a", { href: `${base}/jobs/${job.id}` }, h("b", {}, job.name), h("span", { class: "number" }, `#${job.id}`), job.restarts ? h("span", { class: "tag" }, `restart ${job.restarts}`) : null),
        h("span", { class: `why ${job.state === "failed" ? "bad" : ""}`, title: job.reason || null }, telling)),
      h("span", { role: "cell", class: "engine" }, job.engine),
      several ? h("span", { role: "cell", class: "by" }, job.by ?? "") : null,
      h("span", { role: "cell", class: "when" }, timeAgo(job.submitted)),
      h("span", { role: "cell", class: "time" }, job.started ? span(ended - job.started) : "–"));
  }

  function pick(id, on) {
    if (on) picked.add(id); else picked.delete(id);
    while (picked.size > 2) picked.delete(picked.values().next().value);
    compare.hidden = picked.size !== 2;
    compare.href = `${base}/compare/${[...picked].sort((a, b) => a - b).join("/")}`;
    for (const [number, element] of rows.drawn) element.querySelector("input").checked = picked.has(jobs[number].id);
  }

  function move(step) {
    if (!jobs.length) return;
    at = Math.min(jobs.length - 1, Math.max(0, at + step));
    const top = at * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    const shown = box.clientHeight - head.offsetHeight;
    if (top + ROW > box.scrollTop + shown) box.scrollTop = top + ROW - shown;
    rows.draw();
    for (const [number, element] of rows.drawn) element.classList.toggle("at", number === at);
    rows.drawn.get(at)?.querySelector("a").focus({ preventScroll: true });
  }

  const matches = (job) => !chosen || job.state === chosen;

  function take(change) {
    counts = change.counts ?? counts;
    showFilters();
    let again = false, moved = false;
    for (const job of change.jobs) {
      const number = jobs.findIndex((each) => each.id === job.id);
      if (number >= 0 && matches(job)) {
        jobs[number] = job;
        rows.refresh(number);
      } else if (number >= 0) {
        jobs.splice(number, 1);
        moved = true;
      } else if (matches(job)) {
        again = true;
      }
    }
    if (moved) showAll();
    // The server knows what matches; a burst of submissions is one question.
    if (again && !missed) missed = setTimeout(() => { missed = null; fetchFirst(); }, 300);
  }

  follow({ jobs: true }, { open: () => fetchFirst(), jobs: (change) => { if (loaded) take(change); } });
  // Where no stream comes through (a proxy that holds it back), the list still does.
  const fallback = setTimeout(() => { if (!loaded && !busy) fetchFirst(); }, 1500);
  const clock = setInterval(() => {
    for (const [number, element] of rows.drawn) {
      const job = jobs[number];
      if (job?.started && !job.ended) write(element.querySelector(".time"), span(Date.now() / 1000 - job.started));
    }
  }, 1000);

  return {
    key(event) {
      if (event.key === "/") { field.focus(); field.select(); return true; }
      const step = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) move(step);
      return Boolean(step);
    },
    end() {
      busy?.abort();
      clearTimeout(field.timer);
      clearTimeout(fallback);
      clearTimeout(missed);
      clearInterval(clock);
      rows.end();
    },
  };
}
