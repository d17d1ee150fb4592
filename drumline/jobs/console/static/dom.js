// Elements, icons, and how times and amounts are written. Text from jobs becomes text nodes only.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: properties by name, "class", "aria-…" and "data-…" as attributes, on… as handlers. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  set(element, properties);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Make an element of SVG. */
export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  set(element, properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name === "value" || name === "checked" || name === "selected" || name === "indeterminate") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** Set the text of an element, if it is another one: what is selected in it stays so. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replace an element's children. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const ICONS = {
  jobs: "M4 5h12M4 10h12M4 15h8",
  code: "m7 6-4 4 4 4m6-8 4 4-4 4",
  data: "M4 6c0-1.4 2.7-2.5 6-2.5S16 4.6 16 6v8c0 1.4-2.7 2.5-6 2.5S4 15.4 4 14zM4 6c0 1.4 2.7 2.5 6 2.5S16 7.4 16 6M4 10c0 1.4 2.7 2.5 6 2.5s6-1.1 6-2.5",
  secrets: "M6 9V6.5a4 4 0 0 1 8 0V9M5 9h10v7H5zM10 12v1.5",
  engines: "M4 4h12v5H4zm0 7h12v5H4zm3-4.5h.01M7 13.5h.01",
  members: "M7.5 9a2.75 2.75 0 1 0 0-5.5 2.75 2.75 0 0 0 0 5.5ZM2.5 16.5c0-2.8 2.2-4.5 5-4.5s5 1.7 5 4.5M13 3.8a2.75 2.75 0 0 1 0 4.9m1.2 3.5c2 .5 3.3 2 3.3 4.3",
  plus: "M10 4v12M4 10h12",
  search: "M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11Zm4-1.5 4 4",
  close: "m5 5 10 10M15 5 5 15",
  back: "m12 4-6 6 6 6",
  again: "M15.5 8A6 6 0 1 0 16 11.5M16 4v4h-4",
  stop: "M5.5 5.5h9v9h-9z",
  compare: "M4 15V9m4 6V5m4 10v-4m4 4V7",
  copy: "M7 7V4h9v9h-3M4 7h9v9H4z",
  check: "m5 10.5 3.5 3.5L15 6.5",
  sun: "M10 13.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4ZM10 2.5v1.7m0 11.6v1.7M2.5 10h1.7m11.6 0h1.7M4.7 4.7l1.2 1.2m8.2 8.2 1.2 1.2m0-10.6-1.2 1.2m-8.2 8.2-1.2 1.2",
  moon: "M16 11.8A6.5 6.5 0 0 1 8.2 4a6.5 6.5 0 1 0 7.8 7.8Z",
  auto: "M10 16.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Zm0-13v13m.1-.1a6.5 6.5 0 0 0 0-12.8",
  start: "M10 16V6m-4.5 4L10 5.5l4.5 4M5 3.5h10",
  end: "M10 4v10m-4.5-4 4.5 4.5 4.5-4.5M5 16.5h10",
  up: "m5 12.5 5-5 5 5",
  down: "m5 7.5 5 5 5-5",
  wrap: "M4 5h12M4 10h9.5a2.5 2.5 0 0 1 0 5H10m1.5-2L9.5 15l2 2M4 15h2.5",
  download: "M4 12.5V16h12v-3.5M10 3.5V12m-3.5-3.5L10 12l3.5-3.5",
  trash: "M4 6h12M8 6V4h4v2M6 6l.7 10h6.6L14 6",
  leave: "M8 4H4v12h4m3-9 3 3-3 3m3-3H8",
};

/** Draw one of the icons, which says nothing to a screen reader. */
export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

const STATES = {
  submitting: ["M7 10h6", ""],
  queued: ["M10 6.5V10l2.2 1.6", "waits in the queue"],
  starting: ["", ""],
  running: ["", ""],
  stopping: ["M8 8h4v4H8z", ""],
  succeeded: ["m7 10.2 2.1 2.1L13.2 8", ""],
  failed: ["m7.7 7.7 4.6 4.6m0-4.6-4.6 4.6", ""],
  cancelled: ["M7.2 10h5.6", ""],
  lost: ["M8.3 8.4c.2-2.3 3.7-2 3.5.2-.1 1.2-1.8 1.3-1.8 2.7m0 1.7v.1", ""],
};

/** Show a state by shape, colour and word. */
export function state(name, size = "") {
  const circle = svg("circle", { cx: 10, cy: 10, r: 6.75, class: "ring" });
  const arc = ["running", "starting"].includes(name) ? svg("path", { d: "M10 3.25a6.75 6.75 0 0 1 6.75 6.75", class: "arc" }) : null;
  const mark = STATES[name]?.[0] ? svg("path", { d: STATES[name][0] }) : svg("circle", { cx: 10, cy: 10, r: 2.2, class: "dot" });
  return h("span", { class: `state ${size} s-${name}` },
    svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, circle, arc, mark), name);
}

/** Write a number of seconds: "4 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** Write how long ago something was. */
export function ago(time) {
  const s = Date.now() / 1000 - time;
  if (s < 45) return "just now";
  if (s < 3600) return `${Math.max(1, Math.round(s / 60))} min ago`;
  if (s < 86400) return `${Math.round(s / 3600)} h ago`;
  if (s < 7 * 86400) return `${Math.round(s / 86400)} d ago`;
  return new Date(time * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

/** Write a moment in full. */
export function moment(time) {
  return new Date(time * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

/** Make a <time> that says how long ago, and in full when pointed at. */
export function timeAgo(time) {
  return h("time", { datetime: new Date(time * 1000).toISOString(), title: moment(time), "data-ago": time }, ago(time));
}

const ROLES = ["chief", "worker", "ps", "evaluator"];

/** Order the names of processes: those that train first, the launcher's last. */
export function byRole(a, b) {
  const [first, second] = [a, b].map((name) => {
    const [, role, index, rest] = /^([^:.]*):?(\d*)(.*)$/.exec(name);
    return [ROLES.indexOf(role) < 0 ? ROLES.length : ROLES.indexOf(role), role, Number(index), rest];
  });
  for (let i = 0; i < 4; i++) {
    if (first[i] !== second[i]) return first[i] < second[i] ? -1 : 1;
  }
  return 0;
}

/** Write a number of bytes: "184 MiB". */
export function bytes(count) {
  for (const [power, unit] of [[30, "GiB"], [20, "MiB"], [10, "KiB"]]) {
    if (count >= 2 ** power) return `${(count / 2 ** power).toPrecision(3).replace(/\.0+$/, "")} ${unit}`;
  }
  return `${count} B`;
}

/** Write a value of a metric with as many digits as one reads. */
export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(2).replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

/** Write a whole number with separators. */
export const count = (number) => number.toLocaleString("en-GB");

/** Copy a text when pressed, and say so. */
export function copyButton(text, label) {
  const button = h("button", { class: "quiet small", type: "button", "aria-label": label, title: label, async onclick() {
    await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
    fill(button, icon("check"));
    setTimeout(() => fill(button, icon("copy")), 1500);
  } }, icon("copy"));
  return button;
}

/** Show that nothing is here yet, and what to do about it. */
export function empty(name, title, text, ...actions) {
  return h("div", { class: "empty" }, icon(name), h("h2", {}, title), h("p", {}, text), actions.length ? h("div", { class: "actions" }, ...actions) : null);
}

/** Show that something has failed. */
export function failure(error, retry) {
  return h("div", { class: "notice bad", role: "alert" }, h("p", {}, error.message ?? String(error)),
    retry ? h("button", { type: "button", onclick: retry }, "Try again") : null);
}

/** Show that something is being fetched: lines that fill in. */
export function loading(lines = 3) {
  return h("div", { class: "loading", role: "status", "aria-label": "Loading" }, Array.from({ length: lines }, () => h("i")));
}

let toasts;
/** Say something at the edge of the page for a while. */
export function toast(text, kind = "") {
  toasts ??= document.body.appendChild(h("div", { class: "toasts", role: "status", "aria-live": "polite" }));
  const box = h("div", { class: `toast ${kind}` }, text);
  toasts.append(box);
  setTimeout(() => box.remove(), 6000);
}

/** Ask a question whose answer does something; true if it was confirmed. */
export function confirmed(title, text, action, kind = "danger") {
  return new Promise((done) => {
    const dialog = h("dialog", { "aria-label": title, onclose() { done(dialog.returnValue === "yes"); dialog.remove(); } },
      h("h2", {}, title), h("p", {}, text),
      h("div", { class: "actions" },
        h("button", { type: "button", onclick: () => dialog.close("") }, "Back"),
        h("button", { type: "button", class: kind, onclick: () => dialog.close("yes") }, action)));
    document.body.append(dialog);
    dialog.showModal();
  });
}
