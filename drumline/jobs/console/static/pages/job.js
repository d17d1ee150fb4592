// One job on one page: why it waits or failed, its curves, processes, logs, events, checkpoints.

import { get, send } from "../api.js";
import { bytes, confirmed, copyButton, empty, failure, fill, h, icon, loading, moment, span, state, timeAgo, toast, write } from "../dom.js";
import { follow } from "../live.js";
import { highlighted } from "../parts/editor.js";
import { LogView } from "../parts/log.js";
import { Charts } from "../parts/metrics.js";
import { Processes } from "../parts/processes.js";
import { fromJob } from "../parts/yaml.js";

const ENDED = ["succeeded", "failed", "cancelled"];

/** Show the page; see main.js for what it is given. */
export function open({ main, rest, base }) {
  const id = Number(rest[0]);
  let job = null, series = {}, watched = null, ended = false, events = [], last = 0;

  const title = h("h1");
  const pill = h("span");
  const number = h("span", { class: "number" });
  const again = h("button", { type: "button", class: "writes", title: "Submit it again with the same code", onclick: rerun }, icon("again"), "Run again");
  const cancel = h("button", { type: "button", class: "danger writes", onclick: stopIt }, icon("stop"), "Cancel");
  const compare = h("button", { type: "button", onclick: chooseOther }, icon("compare"), "Compare");
  const why = h("div", { class: "why-box", "aria-live": "polite" });
  const facts = h("dl", { class: "facts" });
  const charts = new Charts("No curves: scalars of TensorBoard event files and of CSV logs that it writes below its working folder are drawn here, while it runs.");
  const processes = new Processes();
  const logs = new LogView(id, (what) => { watched = what; listen(); });
  const timeline = h("ol", { class: "timeline" });
  const kept = h("div");
  const yaml = h("pre", { class: "yaml", tabindex: 0, "aria-label": "The job file" });
  const page = h("div", { class: "page job" },
    h("nav", { class: "crumbs", "aria-label": "Where" }, h("a", { href: `${base}/jobs` }, icon("back"), "Jobs")),
    h("header", { class: "title" }, h("div", { class: "heading" }, title, number, pill), h("span", { class: "grow" }), compare, again, cancel),
    why, facts,
    h("section", { class: "card", "aria-label": "Curves" }, h("header", {}, h("h2", {}, "Curves"), h("span", { class: "grow" }), charts.tools), charts.element),
    processes.element,
    logs.element,
    h("div", { class: "columns" },
      h("section", { class: "card", "aria-label": "Events" }, h("header", {}, h("h2", {}, "Events")), timeline),
      h("div", {},
        h("section", { class: "card", "aria-label": "Checkpoints" }, h("header", {}, h("h2", {}, "Checkpoints")), kept),
        h("section", { class: "card", "aria-label": "Job file" }, h("header", {}, h("h2", {}, "Job file"), h("span", { class: "grow" }), copyButton(() => yaml.textContent, "Copy the job file")), yaml))));

  async function load() {
    fill(main, h("div", { class: "page" }, loading(6)));
    try {
      const found = await get(`/jobs/${id}`);
      fill(main, page);
      // Who failed first has said why.
      logs.prefer(/^(\S+) failed first/.exec(found.why || found.reason || "")?.[1] ?? null);
      show(found);
      document.title = `${job.name} #${id} · drumline`;
      listen();
      loadLogs();
      loadKept();
    } catch (error) {
      if (error.status === 401) return;
      fill(main, h("div", { class: "page" }, error.status === 404
        ? empty("jobs", `There is no job ${rest[0]}`, "It may be one of another workspace.", h("a", { class: "button", href: `${base}/jobs` }, "All jobs"))
        : failure(error, load)));
    }
  }

  function show(now) {
    const before = job;
    job = now;
    write(title, job.name);
    write(number, `#${job.id}`);
    if (before?.state !== job.state) fill(pill, state(job.state, "large"));
    cancel.hidden = ENDED.includes(job.state);
    cancel.disabled = job.state === "stopping";
    again.hidden = !ENDED.includes(job.state);
    showWhy();
    if (JSON.stringify(before) !== JSON.stringify(job)) showFacts();
    processes.setJob(job);
    if (yaml.textContent !== job.spec) fill(yaml, highlighted(job.spec ?? ""));
    if (before && before.attempts?.length !== job.attempts?.length) { loadLogs(); logs.restart(); }
    if (before && before.state !== job.state) { loadLogs(); loadKept(); }
  }

  function showWhy() {
    const text = job.why || job.reason || "";
    const kind = { failed: "bad", queued: "wait", starting: "wait", stopping: "wait", lost: "bad" }[job.state] ?? "plain";
    const key = `${kind} ${text}`;
    if (why.dataset.key === key) return;
    why.dataset.key = key;
    if (!text || ["succeeded", "running"].includes(job.state)) { fill(why); return; }
    const [first, ...more] = text.split("\n");
    fill(why, h("div", { class: `notice ${kind}` },
      h("div", {}, h("strong", {}, { failed: "Failed", queued: "Waits", lost: "Out of reach", cancelled: "Cancelled", stopping: "Is being stopped" }[job.state] ?? job.state), h("p", {}, first)),
      more.some((line) => line.trim()) ? h("pre", { tabindex: 0 }, more.join("\n").trim()) : null));
  }

  function showFacts() {
    const fact = (name, ...value) => (value.some(Boolean) ? h("div", {}, h("dt", {}, name), h("dd", {}, ...value)) : null);
    const end = job.ended ?? Date.now() / 1000;
    const attempts = job.attempts?.length ?? 0;
    const { command, code, data } = fromJob(job.job);
    const place = job.job.code.git ? `${job.job.code.git} at ${(job.job.code.commit ?? "").slice(0, 12)}` : `a copy of ${job.job.code.folder}`;
    fill(facts,
      h("div", { class: "short" },
        fact("Engine", job.engine === "local" ? "this machine" : job.engine),
        fact("Priority", String(job.priority)),
        job.by ? fact("By", job.by) : null,
        fact("Submitted", timeAgo(job.submitted)),
        job.started ? fact("Started", timeAgo(job.started)) : null,
        job.started ? h("div", {}, h("dt", {}, job.ended ? "Took" : "Runs for"), h("dd", { "data-clock": "" }, span(end - job.started))) : null,
        attempts > 1 || job.restarts ? fact("Starts", `${Math.max(attempts, 1)}${job.restarts ? `, ${job.restarts} after a failure` : ""}`) : null),
      h("div", {}, h("dt", {}, "Command"), h("dd", { class: "mono" }, h("code", { title: command }, command), copyButton(command, "Copy the command"))),
      h("div", {}, h("dt", {}, "Processes"), h("dd", { class: "list" }, job.roles.map((each) => h("span", {}, each)))),
      code ? h("div", {}, h("dt", {}, "Code"), h("dd", {}, h("code", {}, place))) : null,
      data.length ? h("div", {}, h("dt", {}, "Data"), h("dd", { class: "list" }, data.map((each) => h("code", {}, each.at ? `${each.from} ${each.write ? "⇄" : "→"} ${each.at}` : each.from)))) : null);
  }

  async function loadLogs() {
    try {
      logs.setNames((await get(`/jobs/${id}/logs`)).logs);
    } catch (error) {
      logs.hint(error.message);
    }
  }

  async function loadKept() {
    try {
      const { checkpoints } = await get(`/jobs/${id}/checkpoints`);
      if (!checkpoints.length) {
        fill(kept, h("p", { class: "nothing" }, "None in its working folder so far."));
        return;
      }
      fill(kept, h("ul", { class: "files" }, checkpoints.map((each) => h("li", {}, h("code", { title: each.path }, each.path), h("span", {}, bytes(each.size)), timeAgo(each.time)))));
    } catch (error) {
      fill(kept, failure(error, loadKept));
    }
  }

  function addEvents(more) {
    const fresh = more.filter((each) => each.number > last);
    if (!fresh.length) return;
    last = fresh.at(-1).number;
    events = events.concat(fresh).slice(-500);
    let day = null;
    fill(timeline, events.map((each) => {
      const date = new Date(each.time * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
      const head = date !== day ? h("li", { class: "day" }, date) : null;
      day = date;
      return [head, h("li", { class: `e-${each.kind}` },
        h("time", { datetime: new Date(each.time * 1000).toISOString(), title: moment(each.time) }, new Date(each.time * 1000).toLocaleTimeString("en-GB")),
        h("div", {}, h("b", {}, each.kind), each.text && each.text !== each.kind ? h("p", {}, each.text) : null))];
    }).flat());
  }

  function addMetrics(change) {
    for (const [tag, points] of Object.entries(change.series)) {
      if (points.replace || !series[tag]) series[tag] = { step: points.step, time: points.time, value: points.value };
      else for (const key of ["step", "time", "value"]) series[tag][key].push(...points[key]);
      // A page that is open for days keeps every other point of what has become too fine to be seen.
      if (series[tag].step.length > 2400) for (const key of ["step", "time", "value"]) series[tag][key] = series[tag][key].filter((_, i, all) => i % 2 === 0 || i === all.length - 1);
    }
    charts.show([{ name: job?.name ?? "", series }]);
    processes.setSeries(series);
  }

  function listen() {
    if (ended || !job) return;
    follow({ job: id, events: last, log: watched }, {
      job: show,
      events: ({ events: more }) => addEvents(more),
      log: (text) => logs.push(text),
      logs: (change) => logs.setNames(change.logs),
      metrics: addMetrics,
    });
  }

  async function rerun() {
    again.disabled = true;
    try {
      const { id: fresh } = await send(`/jobs/${id}/rerun`);
      location.hash = `${base}/jobs/${fresh}`;
    } catch (error) {
      toast(error.message, "bad");
      again.disabled = false;
    }
  }

  async function stopIt() {
    if (!await confirmed(`Cancel ${job.name}?`, job.state === "queued" ? "It has not begun." : "Its processes are asked to end, and given time to save.", "Cancel the job")) return;
    try {
      await send(`/jobs/${id}/cancel`);
      toast("It is being stopped.");
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  async function chooseOther() {
    const list = h("ul", { class: "choices" });
    const field = h("input", { type: "search", placeholder: "Search jobs", "aria-label": "Search jobs", oninput: () => { clearTimeout(field.timer); field.timer = setTimeout(find, 180); } });
    const dialog = h("dialog", { class: "choose", "aria-label": "Compare with another job", onclose: () => dialog.remove() }, h("h2", {}, `Compare ${job.name} with`), field, list,
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Back")));
    async function find() {
      try {
        const { jobs } = await get(`/jobs?limit=30&search=${encodeURIComponent(field.value.trim())}`);
        fill(list, jobs.filter((each) => each.id !== id).map((each) => h("li", {}, h("a", { href: `${base}/compare/${id}/${each.id}`, onclick: () => dialog.close() }, h("b", {}, each.name), h("span", { class: "number" }, `#${each.id}`), state(each.state), timeAgo(each.submitted)))));
        if (!list.children.length) fill(list, h("li", { class: "nothing" }, "No other job matches."));
      } catch (error) {
        fill(list, h("li", {}, failure(error)));
      }
    }
    document.body.append(dialog);
    dialog.showModal();
    find();
  }

  const clock = setInterval(() => {
    const place = facts.querySelector("[data-clock]");
    if (place && job?.started && !job.ended) write(place, span(Date.now() / 1000 - job.started));
  }, 1000);
  load();
  return {
    key(event) {
      if (event.key === "/") { logs.find.open(); return true; }
      if (logs.find.active && event.key.toLowerCase() === "n") { logs.find.go(event.key === "N"); return true; }
      if (logs.find.active && event.key === "Escape") { logs.find.close(); return true; }
      return false;
    },
    end() {
      ended = true;
      clearInterval(clock);
      charts.end();
      logs.end();
    },
  };
}

