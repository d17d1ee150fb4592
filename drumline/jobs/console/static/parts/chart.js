// Curves, drawn as SVG: one chart for each metric, its series by colour, values where one points.

import { figure, fill, h, span, svg } from "../dom.js";

const HEIGHT = 210;
const EDGE = { left: 50, right: 12, top: 10, bottom: 26 };

/** Round numbers between two, some `wanted` of them. */
export function ticks(low, high, wanted) {
  const raw = (high - low) / wanted;
  if (!(raw > 0) || !Number.isFinite(raw)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((each) => each * power >= raw * 0.999) * power;
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

/** Exponential smoothing that begins without a bias, as in Kingma and Ba's Adam. */
export function smoothed(values, weight) {
  if (!weight) return values;
  let mean = 0, scale = 0;
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    scale = weight * scale + (1 - weight);
    return mean / scale;
  });
}

/** A chart of some series over steps or time. */
export class Chart {
  /** @param title what it shows */
  constructor(title) {
    this.title = title;
    this.series = [];
    this.options = { log: false, smooth: 0, axis: "step" };
    this.hidden = new Set();
    this.legend = h("ul", { class: "legend" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.plot = svg("svg", { class: "plot", role: "img", tabindex: 0 });
    this.plot.addEventListener("pointermove", (event) => this.point(event.clientX - this.plot.getBoundingClientRect().left));
    this.plot.addEventListener("pointerleave", () => this.leave());
    this.plot.addEventListener("blur", () => this.leave());
    this.plot.addEventListener("keydown", (event) => this.keys(event));
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, title), h("div", { class: "frame" }, this.plot, this.tip), this.legend);
    this.observer = new ResizeObserver(() => this.later());
    this.observer.observe(this.plot);
  }

  end() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /**
   * Show series.
   *
   * @param series [{label, colour, dashed, step: [], time: [], value: []}]
   * @param options {log, smooth, axis: "step" or "time"}
   */
  set(series, options) {
    this.series = series;
    this.options = options;
    this.later();
  }

  later() {
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!width) return;
    this.showLegend();
    const { log, smooth, axis } = this.options;
    const drawn = this.lines = this.series.filter((each) => !this.hidden.has(each.label)).map((each) => {
      const began = each.time.find(Number.isFinite) ?? 0;
      const xs = axis === "time" ? each.time.map((time) => time - began) : each.step;
      return { ...each, xs, ys: smoothed(each.value, smooth), raw: each.value };
    });
    const usable = (y) => Number.isFinite(y) && (!log || y > 0);
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
    for (const line of drawn) {
      for (let i = 0; i < line.xs.length; i++) {
        const x = line.xs[i], y = line.ys[i];
        if (!Number.isFinite(x) || !usable(y)) continue;
        x0 = Math.min(x0, x); x1 = Math.max(x1, x);
        y0 = Math.min(y0, y); y1 = Math.max(y1, y);
      }
    }
    this.plot.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.plot.setAttribute("aria-label", this.said());
    if (x0 === Infinity) {
      this.scale = null;
      fill(this.plot, svg("text", { x: width / 2, y: HEIGHT / 2, class: "none" }, log ? "no values above 0" : "no values"));
      return;
    }
    if (x1 === x0) x1 = x0 + 1;
    if (log) { y0 = Math.log10(y0); y1 = Math.log10(y1); }
    const room = (y1 - y0) * 0.06 || Math.abs(y1) * 0.1 || 1;
    // Losses and shares look as they are when 0 is in sight; where it is far off, it is not.
    y0 = !log && y0 >= 0 && y0 < (y1 - y0) * 0.6 ? 0 : y0 - room;
    y1 += room;
    const X = (x) => EDGE.left + ((x - x0) / (x1 - x0)) * (width - EDGE.left - EDGE.right);
    const Y = (y) => EDGE.top + ((y1 - (log ? Math.log10(y) : y)) / (y1 - y0)) * (HEIGHT - EDGE.top - EDGE.bottom);
    this.scale = { x0, x1, X, Y, width };
    const parts = [];
    const levels = log ? logTicks(y0, y1) : ticks(y0, y1, 5);
    const small = levels.some((level) => level !== 0 && Math.abs(level) < 1e-3);
    for (const level of levels) {
      const y = Y(level);
      parts.push(svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y, y2: y }),
        svg("text", { class: "tick", x: EDGE.left - 8, y: y + 3.5, "text-anchor": "end" }, level && small ? Number(level.toPrecision(4)).toExponential() : figure(level)));
    }
    for (const at of ticks(x0, x1, Math.max(2, Math.floor(width / 90)))) {
      const x = X(at);
      // One in the corner would be cut off.
      const anchor = x > width - 30 ? "end" : x < EDGE.left + 8 ? "start" : "middle";
      parts.push(svg("text", { class: "tick", x, y: HEIGHT - 7, "text-anchor": anchor }, axis === "time" ? span(at) : shortNumber(at)));
    }
    for (const line of drawn) {
      if (smooth) parts.push(curve(line.xs, line.raw, X, Y, usable, `line raw c${line.colour}`));
      parts.push(curve(line.xs, line.ys, X, Y, usable, `line c${line.colour}${line.dashed ? " dashed" : ""}`));
    }
    this.cursor = svg("g", { class: "cursor" });
    fill(this.plot, ...parts, this.cursor);
    if (this.at !== undefined) this.showAt(this.at);
  }

  showLegend() {
    const key = JSON.stringify([this.series.map((each) => [each.label, each.colour, each.dashed, each.value.at(-1)]), [...this.hidden]]);
    if (key === this.legendKey) return;
    this.legendKey = key;
    const focused = [...this.legend.querySelectorAll("button")].indexOf(document.activeElement);
    fill(this.legend, this.series.map((each) => h("li", {},
      h("button", { type: "button", "aria-pressed": String(!this.hidden.has(each.label)), title: "Show or hide", onclick: () => {
        if (!this.hidden.delete(each.label)) this.hidden.add(each.label);
        this.later();
      } },
        svg("svg", { class: `key c${each.colour}${each.dashed ? " dashed" : ""}`, viewBox: "0 0 16 8", "aria-hidden": "true" }, svg("path", { d: "M1 4h14" })),
        h("span", {}, each.label), h("b", {}, each.value.length ? figure(each.value.at(-1)) : "–")))));
    if (focused >= 0) this.legend.querySelectorAll("button")[focused]?.focus();
  }

  said() {
    const told = this.series.map((each) => {
      const values = each.value.filter(Number.isFinite);
      if (!values.length) return `${each.label}: no values`;
      const least = values.reduce((a, b) => Math.min(a, b)), most = values.reduce((a, b) => Math.max(a, b));
      return `${each.label}: ${figure(values.at(-1))} at step ${each.step.at(-1)}, between ${figure(least)} and ${figure(most)}`;
    });
    return `${this.title}. ${told.join("; ")}. Arrow keys move along it.`;
  }

  point(x) {
    if (!this.scale) return;
    const { x0, x1, width } = this.scale;
    this.showAt(x0 + ((x - EDGE.left) / (width - EDGE.left - EDGE.right)) * (x1 - x0));
  }

  leave() {
    this.at = undefined;
    this.tip.hidden = true;
    this.cursor?.replaceChildren();
  }

  keys(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.leave();
    if (!step || !this.scale) return;
    event.preventDefault();
    const xs = this.lines[0].xs;
    const now = this.at === undefined ? (step > 0 ? -1 : xs.length) : nearest(xs, this.at);
    this.showAt(xs[Math.min(xs.length - 1, Math.max(0, now + step * (event.shiftKey ? 10 : 1)))]);
  }

  showAt(x) {
    this.at = x;
    const { X, Y, width } = this.scale;
    const marks = [], rows = [];
    let shown = null;
    for (const line of this.lines) {
      if (!line.xs.length) continue;
      const i = nearest(line.xs, x);
      if (shown === null) shown = line.xs[i];
      if (Number.isFinite(line.ys[i]) && (!this.options.log || line.ys[i] > 0)) {
        marks.push(svg("circle", { class: `at c${line.colour}`, cx: X(line.xs[i]), cy: Y(line.ys[i]), r: 3.5 }));
      }
      rows.push(h("li", { class: `c${line.colour}` }, h("span", {}, line.label), h("b", {}, figure(line.raw[i]))));
    }
    if (shown === null) return;
    const at = X(shown);
    fill(this.cursor, svg("line", { x1: at, x2: at, y1: EDGE.top, y2: HEIGHT - EDGE.bottom }), ...marks);
    fill(this.tip, h("p", {}, this.options.axis === "time" ? span(shown) : `step ${shortNumber(shown)}`), h("ul", {}, rows));
    this.tip.hidden = false;
    const right = at < width / 2;
    this.tip.style.setProperty("left", right ? `${at + 12}px` : "auto");
    this.tip.style.setProperty("right", right ? "auto" : `${width - at + 12}px`);
  }
}

function curve(xs, ys, X, Y, usable, classes) {
  let d = "", pen = "M";
  let single = null, run = 0;
  const dots = [];
  const close = () => { if (run === 1) dots.push(single); run = 0; };
  for (let i = 0; i < xs.length; i++) {
    if (!usable(ys[i]) || !Number.isFinite(xs[i])) { close(); pen = "M"; continue; }
    // A job that went on from a checkpoint has steps twice: its line goes back, not through.
    if (i && xs[i] < xs[i - 1]) { close(); pen = "M"; }
    const x = X(xs[i]).toFixed(1), y = Y(ys[i]).toFixed(1);
    d += `${pen}${x} ${y}`;
    pen = "L";
    single = [x, y];
    run++;
  }
  close();
  for (const [x, y] of dots) d += `M${x} ${y}h.01`;
  return svg("path", { class: classes, d });
}

function nearest(xs, x) {
  let best = 0, off = Infinity;
  for (let i = 0; i < xs.length; i++) {
    const here = Math.abs(xs[i] - x);
    if (here <= off) { off = here; best = i; }
  }
  return best;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.ceil(low); power <= high; power++) found.push(10 ** power);
  return found.length > 1 ? found : ticks(10 ** low, 10 ** high, 4).filter((each) => each > 0);
}

function shortNumber(value) {
  if (Math.abs(value) >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
  if (Math.abs(value) >= 1e4) return `${Number((value / 1e3).toPrecision(4))}k`;
  return String(Number(value.toPrecision(6)));
}

/** A small line of the last values, which says nothing to a screen reader. */
export function sparkline(values, most) {
  const shown = values.slice(-60);
  const top = most ?? 1.25 * Math.max(...shown, 1e-9);
  const points = shown.map((value, i) => `${(i / Math.max(1, shown.length - 1)) * 80} ${(21 - (Math.min(value, top) / top) * 19).toFixed(1)}`);
  const line = points.length ? `M${points.join("L")}` : "";
  return svg("svg", { class: "spark", viewBox: "0 0 80 22", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "area", d: line ? `${line}V22H0Z` : "" }), svg("path", { d: line }));
}
