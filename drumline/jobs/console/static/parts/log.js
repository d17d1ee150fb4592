// Logs of a job's processes: the end of each, followed; the rest fetched as one scrolls to it.

import { logBytes, path } from "../api.js";
import { byRole, bytes, fill, h, icon } from "../dom.js";
import { LogBuffer } from "./buffer.js";
import { LogFind } from "./find.js";
import { Rows } from "./rows.js";
import { render, wrappedRows } from "./terminal.js";

const ROW = 20;
const FETCHED = 256 << 10;
const NEAR = 200;
const WRAP = "drumline-wrap";

/** The logs of one job, of which one is shown. */
export class LogView {
  /**
   * @param job its number
   * @param onChoose called with "7/worker:0@1234" when that is what is to be followed, or null
   */
  constructor(job, onChoose) {
    this.job = job;
    this.onChoose = onChoose;
    this.name = null;
    this.preferred = null;
    this.names = [];
    this.size = 0;
    this.buffer = new LogBuffer();
    this.asking = null;
    this.following = true;
    this.wrapping = localStorage.getItem(WRAP) !== "no";
    this.columns = 80;
    this.searched = null;
    this.current = null;
    this.window = null;
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Processes" });
    this.tabs.addEventListener("keydown", (event) => this.walk(event));
    this.box = h("div", { class: "terminal", role: "tabpanel", tabindex: 0, "aria-label": "Log", id: "log-panel" });
    this.box.addEventListener("keydown", (event) => this.keys(event));
    this.rows = new Rows(this.box, ROW, (number) => this.makeLine(number), () => this.scrolled(), () => this.fit());
    this.where = h("span", { class: "where" });
    this.follow = h("input", { type: "checkbox", checked: true, onchange: () => this.setFollowing(this.follow.checked, true) });
    this.wrap = h("input", { type: "checkbox", checked: this.wrapping, onchange: () => this.setWrapping(this.wrap.checked) });
    this.find = new LogFind(this);
    this.raw = h("a", { class: "button quiet small", download: "", title: "Download the whole log", "aria-label": "Download the whole log" }, icon("download"));
    const button = (name, drawing, act) => h("button", { class: "quiet small", type: "button", title: name, "aria-label": name, onclick: act }, icon(drawing));
    this.element = h("section", { class: "card log", "aria-label": "Logs" },
      h("header", {}, h("h2", {}, "Logs"), this.tabs, h("span", { class: "grow" }),
        h("div", { class: "acts" }, this.where,
          button("Search this log", "search", () => this.find.open()),
          button("To the beginning of the log", "start", () => this.toStart()), button("To the end of the log", "end", () => this.toEnd()), this.raw,
          h("label", { class: "check" }, this.wrap, "Wrap"), h("label", { class: "check" }, this.follow, "Follow"))),
      this.find.element, this.box);
    this.box.classList.toggle("wrapped", this.wrapping);
    this.hint();
  }

  end() {
    this.asking?.abort();
    this.find.end();
    this.rows.end();
  }

  /** Say whose log is of most interest, before it is known which there are. */
  prefer(name) {
    this.preferred = name;
  }

  /** Say which logs there are: [{name, size}]. */
  setNames(logs) {
    const names = logs.map((log) => log.name).sort(byRole);
    if (names.join("\n") === this.names.join("\n")) return;
    this.names = names;
    fill(this.tabs, names.map((name) => h("button", { type: "button", role: "tab", id: `log-${name}`, "aria-controls": "log-panel", "aria-selected": String(name === this.name), tabindex: name === this.name ? 0 : -1, onclick: () => this.choose(name) }, name)));
    if (!names.includes(this.name)) {
      const first = names.includes(this.preferred) ? this.preferred : names[0];
      if (first) this.choose(first); else this.hint();
    }
  }

  /** Show the log of a process, from its end. */
  choose(name) {
    this.name = name;
    for (const tab of this.tabs.children) {
      const on = tab.textContent === name;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
    }
    this.raw.href = path(`/jobs/${this.job}/logs/${encodeURIComponent(name)}/whole`);
    this.raw.download = `${this.job}-${name.replaceAll(/[^\w.-]/g, "-")}.log`;
    this.find.restart();
    this.toEnd();
  }

  async fetch(from, limit) {
    this.asking?.abort();
    const asking = this.asking = new AbortController();
    this.box.setAttribute("aria-busy", "true");
    try {
      const found = await logBytes(this.job, this.name, from, limit, asking.signal);
      if (asking.signal.aborted) return null;
      this.size = found.size;
      return found;
    } catch (error) {
      if (error.name !== "AbortError") this.hint(error.message);
      return null;
    } finally {
      if (this.asking === asking) {
        this.asking = null;
        this.box.removeAttribute("aria-busy");
      }
    }
  }

  /** Show the end, and follow it. */
  async toEnd() {
    const found = await this.fetch(-FETCHED, FETCHED);
    if (!found) return;
    const { text, from } = wholeLines(found.bytes, found.from);
    this.buffer.clear(from);
    this.buffer.append(text, found.from + found.bytes.length);
    this.current = null;
    this.draw();
    this.setFollowing(true);
    this.hint();
    this.onChoose(`${this.job}/${this.name}@${this.buffer.to}`);
  }

  /** Show the beginning. */
  async toStart() {
    this.setFollowing(false);
    const found = await this.fetch(0, FETCHED);
    if (!found) return;
    this.buffer.clear(0);
    this.addAfter(found);
    this.current = null;
    this.draw();
    this.box.scrollTop = 0;
  }

  /** Show the line that begins at a byte. */
  async jump(at) {
    this.setFollowing(false);
    let line = this.numberOf(at);
    if (line === null) {
      const start = Math.max(0, at - FETCHED / 2);
      const found = await this.fetch(start, FETCHED);
      if (!found || at < found.from || at > found.from + found.bytes.length) return;
      const here = at - found.from;
      const first = found.from === 0 ? 0 : Math.min(here, found.bytes.indexOf(10) + 1);
      this.buffer.clear(found.from + first);
      this.buffer.append(new TextDecoder().decode(found.bytes.subarray(first, here)), at);
      line = this.buffer.count;
      this.addAfter({ bytes: found.bytes.subarray(here), from: at, size: found.size });
      this.window = { from: this.buffer.from, to: this.buffer.to, bytes: found.bytes.subarray(first) };
    }
    this.current = line;
    this.hint();
    this.draw();
    this.box.scrollTop = this.rows.top(line) - this.box.clientHeight / 3;
    this.lastTop = this.box.scrollTop;
  }

  /** The number of the line at a byte, if it is one of those around the last jump. */
  numberOf(at) {
    const known = this.window;
    if (!known || this.buffer.from !== known.from || at < known.from || at >= Math.min(known.to, this.buffer.to)) return null;
    let line = 0;
    for (let i = known.bytes.indexOf(10); i >= 0 && i < at - known.from; i = known.bytes.indexOf(10, i + 1)) line++;
    return line;
  }

  /** Roughly at which byte one is, and whether that is the end. */
  place() {
    if (this.following) return { at: this.size, ended: true };
    let [number] = this.rows.sight();
    for (const piece of this.buffer.pieces) {
      if (number < piece.lines.length) {
        const before = new TextEncoder().encode(piece.lines.slice(0, number).join("\n")).length + (number ? 1 : 0);
        return { at: Math.min(piece.to, piece.from + before), ended: false };
      }
      number -= piece.lines.length;
    }
    return { at: this.buffer.to, ended: false };
  }

  /** Mark what matches a regular expression, or nothing. */
  mark(searched) {
    this.searched = searched;
    this.current = null;
    this.draw();
  }

  /** Draw all lines again, or those that are new. */
  draw(kept = false) {
    this.rows.set(this.buffer.count, kept, this.wrapping ? (number) => wrappedRows(this.buffer.line(number), this.columns) : null);
  }

  /** See how many characters fit beside each other; the first line in sight stays. */
  fit() {
    const probe = h("span", { class: "probe" }, "0".repeat(100));
    this.box.append(probe);
    const width = probe.getBoundingClientRect().width / 100;
    probe.remove();
    const columns = width ? Math.max(10, Math.floor((this.box.clientWidth - 32) / width + 0.01)) : this.columns;
    if (columns === this.columns) return;
    this.columns = columns;
    if (this.wrapping) this.again();
  }

  again() {
    const [first] = this.rows.sight();
    this.draw();
    if (this.following) this.stick(); else this.box.scrollTop = this.lastTop = this.rows.top(first);
  }

  setWrapping(on) {
    this.wrapping = on;
    localStorage.setItem(WRAP, on ? "yes" : "no");
    this.box.classList.toggle("wrapped", on);
    this.again();
  }

  addAfter(found) {
    let end = found.bytes.length;
    // What is fetched may end within a line, and within a character.
    if (found.from + end < found.size) end = found.bytes.lastIndexOf(10, end) + 1 || end;
    return this.buffer.append(new TextDecoder().decode(found.bytes.subarray(0, end)), found.from + end);
  }

  /** Take what was written just now: {text, from, to}. */
  push({ name, text, from, to, size }) {
    if (name !== this.name) return;
    this.size = Math.max(size ?? to, to);
    if (this.size < this.buffer.to || (from < this.buffer.to && to > this.buffer.to) || from > this.buffer.to) {
      // Another start has emptied it, or more was written than anybody reads.
      if (this.following || this.size < this.buffer.to) this.toEnd();
    } else if (from === this.buffer.to && (this.following || !this.detached)) {
      const before = this.buffer.count;
      const dropped = this.buffer.append(text, to);
      if (dropped) this.forget(dropped);
      this.draw(!dropped);
      if (!dropped && before) this.rows.refresh(before - 1);
      this.hint();
      if (this.following) this.stick();
    }
    this.find.grown();
    this.scrolled();
  }

  /** So many lines at the beginning are not held any more; what is in sight stays there. */
  forget(dropped) {
    if (!this.following) this.box.scrollTop -= this.rows.top(dropped);
    if (this.current !== null) this.current -= dropped;
  }

  /** Begin the log again: another start of the job writes it. */
  restart() {
    if (this.name) this.toEnd();
  }

  get detached() {
    return this.buffer.to < this.size;
  }

  stick() {
    this.sticking = true;
    this.box.scrollTop = this.box.scrollHeight;
    requestAnimationFrame(() => { this.box.scrollTop = this.box.scrollHeight; this.sticking = false; });
  }

  setFollowing(on, asked = false) {
    this.following = on;
    this.follow.checked = on;
    if (!on) return;
    if (asked && this.detached) this.toEnd(); else this.stick();
  }

  async scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const atEnd = scrollTop + clientHeight >= scrollHeight - ROW;
    if (!this.sticking && !this.asking) {
      if (this.following && !atEnd && scrollTop < (this.lastTop ?? 0)) this.setFollowing(false);
      else if (!this.following && atEnd && !this.detached && this.name && scrollTop > (this.lastTop ?? 0)) this.setFollowing(true);
      else if (this.following && !atEnd) this.stick();  // What was drawn is higher than was guessed.
    }
    this.lastTop = scrollTop;
    this.say();
    if (this.asking || !this.name) return;
    if (scrollTop < NEAR && this.buffer.from > 0) await this.earlier();
    else if (!this.following && this.detached && scrollTop + clientHeight > scrollHeight - NEAR) await this.later();
  }

  async earlier() {
    const to = this.buffer.from;
    const start = Math.max(0, to - FETCHED);
    const found = await this.fetch(start, to - start);
    if (!found || this.buffer.from !== to) return;
    const { text, from } = wholeLines(found.bytes, found.from);
    const before = this.buffer.count;
    const added = this.buffer.prepend(text, from === to ? start : from);
    if (this.buffer.count !== before + added) this.following = this.follow.checked = false;
    if (this.current !== null) this.current += added;
    this.draw();
    this.box.scrollTop += this.rows.top(added);
    this.lastTop = this.box.scrollTop;
  }

  async later() {
    const from = this.buffer.to;
    const found = await this.fetch(from, FETCHED);
    if (!found || this.buffer.to !== from) return;
    const dropped = this.addAfter(found);
    if (dropped) this.forget(dropped);
    this.draw(!dropped);
    this.lastTop = this.box.scrollTop;
    if (!this.detached) this.onChoose(`${this.job}/${this.name}@${this.buffer.to}`);
  }

  say() {
    const [first] = this.rows.sight();
    if (this.size <= FETCHED) this.where.textContent = this.name && this.size ? bytes(this.size) : "";
    else {
      const share = this.buffer.count ? first / this.buffer.count : 1;
      const at = this.following ? this.size : this.buffer.from + share * (this.buffer.to - this.buffer.from);
      this.where.textContent = `${Math.round((100 * at) / this.size)} % of ${bytes(this.size)}`;
    }
  }

  hint(text = null) {
    this.note?.remove();
    this.note = null;
    const said = text ?? (this.buffer.count ? null : this.name ? "Nothing was written yet." : "There are no logs yet: they begin when its processes do.");
    if (said) this.box.append(this.note = h("p", { class: "note" }, said));
  }

  makeLine(number) {
    return h("div", { class: number === this.current ? "line here" : "line" }, ...render(this.buffer.line(number), this.searched));
  }

  keys(event) {
    if (event.key === "Home") { event.preventDefault(); this.toStart(); }
    if (event.key === "End") { event.preventDefault(); this.toEnd(); }
  }

  walk(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !this.names.length) return;
    event.preventDefault();
    const next = this.names[(this.names.indexOf(this.name) + step + this.names.length) % this.names.length];
    this.choose(next);
    this.tabs.children[this.names.indexOf(next)].focus();
  }
}

/** The text of what begins anywhere, from its first whole line on; all of it at byte 0. */
function wholeLines(bytes, from) {
  const first = from === 0 ? 0 : bytes.indexOf(10) + 1;
  return { text: new TextDecoder().decode(bytes.subarray(first)), from: from + first };
}
