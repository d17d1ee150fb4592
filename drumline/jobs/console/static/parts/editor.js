// A field for YAML with numbered lines, colours, and each problem at its line.

import { fill, h } from "../dom.js";

const TOKEN = /(#.*$)|("(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)|([A-Za-z_][\w-]*)(?=\s*:(?:\s|$))|\b(true|false|null|\d+(?:\.\d+)?(?:[KMGT]i?B|[smhd])?)\b|([{}[\],:]|^\s*-)/g;

function line(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    if (found.index < at) continue;
    if (found.index > at) parts.push(text.slice(at, found.index));
    const kind = ["comment", "string", "key", "number", "mark"][found.slice(1).findIndex((each) => each !== undefined)];
    parts.push(h("span", { class: `y-${kind}` }, found[0]));
    at = found.index + found[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

/** The lines of a YAML text, coloured. */
export function highlighted(text) {
  return text.replace(/\n$/, "").split("\n").map((each, i, all) => [...line(each), i < all.length - 1 ? "\n" : ""]).flat();
}

/** A field in which a job file is written. */
export class Editor {
  /** @param onInput called with the text when a person has changed it */
  constructor(onInput) {
    this.field = h("textarea", { spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-label": "The job file, as YAML", "aria-describedby": "problems", rows: 18 });
    this.back = h("div", { class: "back", "aria-hidden": "true" });
    this.element = h("div", { class: "editor" }, this.back, this.field);
    this.problems = [];
    this.field.addEventListener("input", () => { this.draw(); onInput(this.field.value); });
    this.field.addEventListener("scroll", () => { this.back.scrollTop = this.field.scrollTop; this.back.scrollLeft = this.field.scrollLeft; });
    this.field.addEventListener("keydown", (event) => {
      // Tab leaves the field, as everywhere; two blanks are what an indentation takes.
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        const { selectionStart: at, value } = this.field;
        const now = value.slice(value.lastIndexOf("\n", at - 1) + 1, at);
        const indent = /^\s*(- )?/.exec(now)[0].replace("- ", "  ") + (/:\s*$/.test(now) ? "  " : "");
        if (indent) {
          event.preventDefault();
          this.field.setRangeText(`\n${indent}`, at, this.field.selectionEnd, "end");
          this.field.dispatchEvent(new Event("input"));
        }
      }
    });
  }

  get text() {
    return this.field.value;
  }

  set text(value) {
    if (this.field.value === value) return;
    this.field.value = value;
    this.draw();
  }

  /** Show problems: [{line, text}]. */
  show(problems) {
    this.problems = problems;
    this.draw();
  }

  /** Put the cursor into a line. */
  goTo(number) {
    const lines = this.field.value.split("\n");
    const from = lines.slice(0, number - 1).reduce((sum, each) => sum + each.length + 1, 0);
    this.field.focus();
    this.field.setSelectionRange(from, from + (lines[number - 1] ?? "").length);
  }

  draw() {
    const at = new Map();
    for (const each of this.problems) if (each.line && !at.has(each.line)) at.set(each.line, each.text);
    fill(this.back, this.field.value.split("\n").map((text, i) => {
      const problem = at.get(i + 1);
      return h("div", { class: problem ? "bad" : "" }, h("i", {}, String(i + 1)), h("span", {}, ...line(text), "\u200b"), problem ? h("em", {}, problem) : null);
    }));
    this.back.scrollTop = this.field.scrollTop;
    this.back.scrollLeft = this.field.scrollLeft;
    this.field.setAttribute("aria-invalid", String(this.problems.length > 0));
  }
}
