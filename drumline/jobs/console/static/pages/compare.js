// Two jobs beside each other: their curves in the same charts, and what differs between them.

import { get } from "../api.js";
import { empty, failure, fill, h, icon, loading, span, state, timeAgo } from "../dom.js";
import { Charts } from "../parts/metrics.js";

/** Show the page; see main.js for what it is given. */
export function open({ main, rest, base }) {
  const charts = new Charts("No curves: neither has written scalars that are drawn here: TensorBoard event files or CSV logs below the working folder.");
  let ended = false, timer = null;

  async function load() {
    try {
      const jobs = await Promise.all(rest.slice(0, 2).map((id) => get(`/jobs/${Number(id)}`)));
      const metrics = await Promise.all(jobs.map((job) => get(`/jobs/${job.id}/metrics`)));
      if (ended) return;
      show(jobs);
      charts.show(jobs.map((job, i) => ({ name: jobs[0].name === jobs[1].name ? `#${job.id}` : job.name, series: metrics[i].series })));
      if (jobs.some((job) => !job.ended)) timer = setTimeout(refresh, 4000, jobs);
    } catch (error) {
      if (error.status !== 401) fill(main, h("div", { class: "page" }, error.status === 404 ? empty("compare", "One of them is not there", error.message, h("a", { class: "button", href: `${base}/jobs` }, "All jobs")) : failure(error, load)));
    }
  }

  async function refresh(jobs) {
    try {
      jobs = await Promise.all(jobs.map((job) => get(`/jobs/${job.id}`)));
      showPair(jobs);
      const metrics = await Promise.all(jobs.map((job) => get(`/jobs/${job.id}/metrics`)));
      if (ended) return;
      charts.show(jobs.map((job, i) => ({ name: jobs[0].name === jobs[1].name ? `#${job.id}` : job.name, series: metrics[i].series })));
    } catch { /* the next one may work */ }
    if (!ended && jobs.some((job) => !job.ended)) timer = setTimeout(refresh, 4000, jobs);
  }

  const pair = h("div", { class: "pair" });

  function showPair(jobs) {
    fill(pair, jobs.map((job, i) => h("a", { class: `card c${i}`, href: `${base}/jobs/${job.id}` },
      h("div", { class: "heading" }, h("i"), h("b", {}, job.name), h("span", { class: "number" }, `#${job.id}`), state(job.state)),
      h("p", { class: "dim" }, job.started ? `${span((job.ended ?? Date.now() / 1000) - job.started)}, submitted ` : "submitted ", timeAgo(job.submitted)))));
  }

  function show(jobs) {
    document.title = `${jobs[0].name} and ${jobs[1].name} · drumline`;
    showPair(jobs);
    const rows = differences(jobs.map((job) => job.spec ?? ""));
    fill(main, h("div", { class: "page compare" },
      h("nav", { class: "crumbs", "aria-label": "Where" }, h("a", { href: `${base}/jobs` }, icon("back"), "Jobs")),
      h("header", { class: "title" }, h("h1", {}, "Comparison")),
      pair,
      h("section", { class: "card", "aria-label": "Curves" }, h("header", {}, h("h2", {}, "Curves"), h("span", { class: "grow" }), charts.tools), charts.element),
      h("section", { class: "card", "aria-label": "What differs" }, h("header", {}, h("h2", {}, "What differs in their files")),
        rows.length ? h("div", { class: "scroll" }, h("table", { class: "differences" },
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Key"), jobs.map((job) => h("th", { scope: "col" }, `${job.name} #${job.id}`)))),
          h("tbody", {}, rows.map(([key, values]) => h("tr", {}, h("th", { scope: "row" }, key), values.map((value, i) => h("td", { "data-label": `${jobs[i].name} #${jobs[i].id}` }, value === null ? h("span", { class: "dim" }, "–") : h("code", {}, value))))))))
          : h("p", { class: "nothing" }, "Nothing: they were submitted alike."))));
  }

  fill(main, h("div", { class: "page" }, loading(6)));
  load();
  return { end() { ended = true; clearTimeout(timer); charts.end(); } };
}

/** The keys in which job files differ, with the text of each: our own YAML, so by its lines. */
function differences(files) {
  const parts = files.map((file) => {
    const found = new Map();
    let key = null;
    for (const line of file.split("\n")) {
      const start = /^([a-z_]+):\s*(.*)$/.exec(line);
      if (start) { key = start[1]; found.set(key, start[2]); }
      else if (key && line.trim() && !line.startsWith("#")) found.set(key, [found.get(key), line.replace(/^ {2}/, "")].filter(Boolean).join("\n"));
    }
    return found;
  });
  const keys = [...new Set(parts.flatMap((part) => [...part.keys()]))];
  return keys.map((key) => [key, parts.map((part) => part.get(key) ?? null)]).filter(([, [a, b]]) => a !== b);
}
