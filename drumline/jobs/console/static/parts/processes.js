// What each process of a job uses, with a line of how that went lately.

import { byRole, bytes, fill, h, state } from "../dom.js";
import { sparkline } from "./chart.js";

const QUANTITIES = [
  ["cpu", "CPU", (value) => `${value < 10 ? value.toFixed(2) : value.toFixed(1)} cores`, null],
  ["memory", "Memory", bytes, null],
  ["gpu", "GPU", (value) => `${Math.round(100 * value)} %`, 1],
  ["gpu_memory", "GPU memory", bytes, null],
];

/** A table of processes. */
export class Processes {
  constructor() {
    this.body = h("div", { class: "scroll" });
    this.note = h("span", { class: "dim" });
    this.element = h("section", { class: "card processes", "aria-label": "Processes" }, h("header", {}, h("h2", {}, "Processes"), this.note), this.body);
    this.job = null;
    this.series = {};
  }

  setJob(job) {
    this.job = job;
    this.show();
  }

  setSeries(series) {
    this.series = series;
    this.show();
  }

  show() {
    const states = new Map((this.job?.processes ?? []).map((each) => [each.name, each]));
    const sampled = Object.keys(this.series).filter((tag) => tag.startsWith("cpu/") || tag.startsWith("memory/")).map((tag) => tag.slice(tag.indexOf("/") + 1));
    const names = [...new Set([...states.keys(), ...sampled])].sort(byRole);
    if (!names.length) {
      fill(this.body, h("p", { class: "nothing" }, this.job?.state === "queued" ? "They begin when there is room." : "Nothing is known of its processes."));
      return;
    }
    const used = QUANTITIES.filter(([key]) => names.some((name) => this.series[`${key}/${name}`]?.value.length));
    const ended = this.job?.ended;
    this.note.textContent = ended ? "as they were at the end" : "";
    const cell = (name, [key, label, written, most]) => {
      const values = this.series[`${key}/${name}`]?.value ?? [];
      return h("td", { "data-label": label, class: values.length ? "" : "unused" }, values.length ? h("div", { class: "use" }, sparkline(values, most), h("span", {}, written(values.at(-1)))) : h("span", { class: "dim" }, "–"));
    };
    const shown = names.slice(0, 200);
    fill(this.body, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Process"), h("th", { scope: "col" }, "State"), used.map(([, label]) => h("th", { scope: "col" }, label)))),
      h("tbody", {}, shown.map((name) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, states.get(name)?.state ? state(states.get(name).state) : h("span", { class: "dim" }, "–")), used.map((each) => cell(name, each)))))),
      names.length > shown.length ? h("p", { class: "nothing" }, `and ${names.length - shown.length} more`) : null);
  }
}
