// Text that is looked for in a log, of which the browser holds only a part: the server looks for it.

import { searchLog } from "../api.js";
import { count, h, icon } from "../dom.js";

const PAUSE = 250;
const AT_ONCE = 1000;
const MOST = 5000;
const LONGEST = 200;

/** The field of a log, and the lines that have what is in it. */
export class LogFind {
  /** @param view the `LogView` */
  constructor(view) {
    this.view = view;
    this.text = "";
    this.field = h("input", { type: "search", placeholder: "Search this log", "aria-label": "Search this log", maxlength: LONGEST, spellcheck: "false", autocomplete: "off",
      oninput: () => { clearTimeout(this.timer); this.timer = setTimeout(() => this.begin(), PAUSE); },
      onkeydown: (event) => this.keys(event) });
    this.said = h("span", { class: "said", role: "status" });
    const button = (name, drawing, act) => h("button", { class: "quiet small", type: "button", title: name, "aria-label": name, onclick: act }, icon(drawing));
    this.element = h("div", { class: "find", hidden: true, role: "search" }, icon("search"), this.field, this.said,
      button("Previous match", "up", () => this.go(true)), button("Next match", "down", () => this.go(false)), button("End the search", "close", () => this.close()));
    this.reset();
  }

  /** Whether something is looked for. */
  get active() {
    return this.text !== "";
  }

  /** Show the field, and write into it. */
  open() {
    this.element.hidden = false;
    this.field.focus();
    this.field.select();
  }

  /** End it: nothing is marked any more. */
  close() {
    this.element.hidden = true;
    this.field.value = "";
    this.begin();
    this.view.box.focus();
  }

  end() {
    clearTimeout(this.timer);
    clearTimeout(this.later);
    this.asking?.abort();
    this.counting?.abort();
  }

  /** Begin again: another log is shown. */
  restart() {
    this.reset();
    if (this.active) this.count();
  }

  /** Look for what is in the field from where one is. */
  begin() {
    clearTimeout(this.timer);
    const text = this.field.value;
    if (text === this.text) return;
    this.text = text;
    this.reset();
    this.view.mark(text ? new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu") : null);
    if (!text) return;
    const { at, ended } = this.view.place();
    this.go(ended, at, false);
    this.count();
  }

  reset() {
    this.end();
    this.at = null;
    this.lines = [];
    this.counted = 0;
    this.whole = false;
    this.note = "";
    this.say();
  }

  /** More was written. */
  grown() {
    if (!this.active || !this.whole) return;
    clearTimeout(this.later);
    this.later = setTimeout(() => this.count(), 1000);
  }

  /**
   * Show the next match, or the one before.
   *
   * @param back the one before
   * @param from the byte from which on one looks; without it, the match that is shown
   * @param aligned whether a line begins there
   */
  async go(back, from = null, aligned = true) {
    if (this.field.value !== this.text) { this.begin(); return; }
    if (!this.active) return;
    const start = from ?? (this.at ? this.at[back ? 0 : 1] : this.view.place().at);
    const mine = this.ask("asking");
    let at = start, over = false;
    this.note = "";
    try {
      for (;;) {
        const found = await this.search({ from: at, back: Number(back), aligned: Number(aligned) }, mine);
        if (mine.aborted) return;
        if (found.lines.length) {
          this.at = found.lines[0];
          this.note = over ? (back ? "from the end" : "from the beginning") : "";
          this.say();
          await this.view.jump(this.at[0]);
          return;
        }
        const reached = back ? found.from : found.to;
        if (reached === at || reached === (back ? 0 : found.size)) {
          if (over) { this.at = null; this.note = "no match"; this.say(); return; }
          // Once around: what is before the place at which it began, too.
          over = true;
          at = back ? found.size : 0;
        } else at = reached;
        aligned = true;
        this.note = `looking … ${Math.round((100 * at) / Math.max(1, found.size))} %`;
        this.say();
      }
    } catch (error) {
      this.failed(error);
    }
  }

  /** Count all lines that match, up to some thousand, beside what else is done. */
  async count() {
    const mine = this.ask("counting");
    this.whole = false;
    try {
      while (this.lines.length < MOST) {
        const found = await this.search({ from: this.counted, limit: AT_ONCE }, mine);
        if (mine.aborted) return;
        const last = this.lines.at(-1) ?? -1;
        for (const [line] of found.lines) if (line > last) this.lines.push(line);
        const done = found.to === this.counted || found.to >= found.size;
        this.counted = found.to;
        if (done) { this.whole = true; break; }
        this.say();
      }
      this.say();
    } catch (error) {
      this.failed(error);
    }
  }

  search(words, signal) {
    return searchLog(this.view.job, this.view.name, { text: this.text, ...words }, signal);
  }

  ask(kind) {
    this[kind]?.abort();
    this[kind] = new AbortController();
    return this[kind].signal;
  }

  failed(error) {
    if (error.name === "AbortError") return;
    this.note = error.message;
    this.say();
  }

  /** How many there are, and which of them is shown. */
  say() {
    if (!this.active) { this.said.textContent = ""; return; }
    const many = this.lines.length;
    const all = `${count(many)}${this.whole ? "" : many >= MOST ? "+" : " …"}`;
    const index = this.at ? this.lines.indexOf(this.at[0]) : -1;
    const place = index >= 0 ? `${count(index + 1)} of ${all}` : many || !this.whole ? `${all} ${many === 1 ? "line" : "lines"}` : "";
    this.said.textContent = [place, this.note || (this.whole && !many ? "no match" : "")].filter(Boolean).join(", ");
    this.element.classList.toggle("none", this.whole && !many);
  }

  keys(event) {
    if (event.key === "Enter") { event.preventDefault(); this.go(event.shiftKey); }
    if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); this.close(); }
  }
}
