// The metrics of one job or of two as charts: what belongs together shares one.

import { fill, h, loading } from "../dom.js";
import { Chart } from "./chart.js";

const SAMPLED = /^(cpu|memory|gpu|gpu_memory)\//;

/** Whether a metric is a sample of what a process uses, and no metric of the training's own. */
export const isUsage = (tag) => SAMPLED.test(tag);

/** The chart that a series belongs to, and its own name in it: "epoch_loss", "train". */
export function placed(tag) {
  const parts = tag.split("/");
  const last = parts.pop();
  const kind = last.replace(/^(val|validation|test|train)_/, "");
  const run = parts.filter((part) => !["logs", "log", "work", "summaries", "tensorboard"].includes(part)).join("/");
  return [kind, last === kind ? run : `${run ? `${run}/` : ""}${last.slice(0, last.length - kind.length - 1)}`];
}

const ORDER = [/loss/, /acc/, /auc|precision|recall|f1/, /error|mae|mse/, /learning_rate|lr/];
const rank = (kind) => { const at = ORDER.findIndex((each) => each.test(kind)); return at < 0 ? ORDER.length : at; };

/** Charts that keep their place as new values come. */
export class Charts {
  /** @param nothing what to say while there are none */
  constructor(nothing) {
    this.charts = new Map();
    this.jobs = [];
    this.options = { log: false, smooth: 0, axis: "step" };
    this.smooth = h("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: 0, "aria-label": "Smoothing", oninput: () => this.set({ smooth: Number(this.smooth.value) }) });
    this.log = h("input", { type: "checkbox", onchange: () => this.set({ log: this.log.checked }) });
    this.axis = h("select", { "aria-label": "Horizontal axis", onchange: () => this.set({ axis: this.axis.value }) },
      h("option", { value: "step" }, "by step"), h("option", { value: "time" }, "by time"));
    this.tools = h("div", { class: "tools", hidden: true }, h("label", { class: "check" }, "Smooth", this.smooth), h("label", { class: "check" }, this.log, "Log"), this.axis);
    this.grid = h("div", { class: "charts" });
    this.nothing = h("p", { class: "nothing", hidden: true }, nothing);
    this.waiting = h("div", { class: "waiting" }, loading(4));
    this.element = h("div", {}, this.waiting, this.nothing, this.grid);
  }

  end() {
    for (const chart of this.charts.values()) chart.end();
  }

  set(options) {
    this.options = { ...this.options, ...options };
    this.show(this.jobs);
  }

  /** Show the metrics of jobs: [{name, series: {tag: {step, time, value}}}]. */
  show(jobs) {
    this.jobs = jobs;
    const groups = new Map();
    jobs.forEach((job, number) => {
      for (const [tag, points] of Object.entries(job.series ?? {})) {
        if (isUsage(tag)) continue;
        const [kind, run] = placed(tag);
        if (!groups.has(kind)) groups.set(kind, []);
        const label = [jobs.length > 1 ? job.name : "", run || (jobs.length > 1 ? "" : kind)].filter(Boolean).join(" ");
        groups.get(kind).push({ label, number, run, ...points });
      }
    });
    const kinds = [...groups.keys()].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
    for (const kind of kinds) {
      const runs = [...new Set(groups.get(kind).map((each) => each.run))];
      // One job: a colour for each run. Two: a colour for each job, and runs after the first dashed.
      const series = groups.get(kind).map((each) => (jobs.length > 1
        ? { ...each, colour: each.number % 6, dashed: runs.indexOf(each.run) > 0 }
        : { ...each, colour: runs.indexOf(each.run) % 6 }));
      if (!this.charts.has(kind)) this.charts.set(kind, new Chart(kind.replaceAll("_", " ")));
      this.charts.get(kind).set(series, this.options);
    }
    for (const kind of [...this.charts.keys()]) {
      if (groups.has(kind)) continue;
      this.charts.get(kind).end();
      this.charts.delete(kind);
    }
    const elements = kinds.map((kind) => this.charts.get(kind).element);
    if (elements.some((element, i) => this.grid.children[i] !== element) || this.grid.children.length !== elements.length) fill(this.grid, elements);
    this.waiting.remove();
    this.nothing.hidden = kinds.length > 0;
    this.tools.hidden = !kinds.length;
  }
}
