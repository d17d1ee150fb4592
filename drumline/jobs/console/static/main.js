// The shell of the console: who we are, which workspace, which page.

import { me, signIn, signOut, useWorkspace } from "./api.js";
import { ago, confirmed, failure, fill, h, icon, loading, moment, svg } from "./dom.js";
import * as live from "./live.js";

const PAGES = {
  jobs: ["Jobs", "jobs", () => import("./pages/jobs.js")],
  job: [null, "jobs", () => import("./pages/job.js")],
  compare: [null, "jobs", () => import("./pages/compare.js")],
  new: [null, "jobs", () => import("./pages/new.js")],
  code: ["Code", "code", () => import("./pages/saved.js")],
  data: ["Data", "data", () => import("./pages/saved.js")],
  secrets: ["Secrets", "secrets", () => import("./pages/saved.js")],
  engines: ["Engines", "engines", () => import("./pages/saved.js")],
  members: ["Members", "members", () => import("./pages/members.js")],
};

const THEMES = [["auto", "As the system"], ["light", "Light"], ["dark", "Dark"]];
let self = null;
let page = null;
let turn = 0;
const main = h("main", { id: "main", tabindex: -1 });

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  localStorage.setItem("drumline-theme", name);
}

function themeButton() {
  const now = () => localStorage.getItem("drumline-theme") ?? "auto";
  const button = h("button", { class: "quiet", type: "button", onclick() {
    const next = THEMES[(THEMES.findIndex(([name]) => name === now()) + 1) % THEMES.length][0];
    theme(next);
    show();
  } });
  const show = () => {
    const [name, label] = THEMES.find(([each]) => each === now()) ?? THEMES[0];
    button.title = `Colours: ${label.toLowerCase()}`;
    button.setAttribute("aria-label", button.title);
    fill(button, icon({ auto: "auto", light: "sun", dark: "moon" }[name]));
  };
  show();
  return button;
}

function mark() {
  return svg("svg", { class: "mark", viewBox: "0 0 32 32", "aria-hidden": "true" },
    svg("rect", { width: 32, height: 32, rx: 8 }), svg("path", { d: "M9 20v-5M14 23V12M19 20V9M24 17v-4" }));
}

function shell() {
  const names = self.workspaces;
  const here = () => decodeURIComponent(location.hash.split("/")[1] ?? names[0]);
  const link = ([key, [label, drawing]]) => h("a", { href: `#/${encodeURIComponent(here())}/${key}`, "data-page": key }, icon(drawing), h("span", {}, label));
  const chooser = names.length > 1
    ? h("select", { "aria-label": "Workspace", onchange: (event) => { location.hash = `#/${encodeURIComponent(event.target.value)}/jobs`; } },
      names.map((name) => h("option", { value: name, selected: name === here() }, name)))
    : h("span", { class: "workspace", title: "The workspace" }, names[0] ?? "");
  const shown = Object.entries(PAGES).filter(([key, [label]]) => label && (key !== "members" || self.member));
  const side = h("div", { class: "side" },
    h("a", { class: "brand", href: `#/${encodeURIComponent(here())}/jobs`, "aria-label": "drumline, jobs" }, mark(), h("b", {}, "drumline")),
    h("div", { class: "chooser" }, chooser),
    h("nav", { "aria-label": "Pages" }, shown.map(link)),
    h("span", { class: "grow" }),
    h("div", { class: "foot" },
      h("span", { class: "live", role: "status" }, h("i"), h("span", {}, "connecting")),
      themeButton(),
      h("button", { class: "quiet", type: "button", title: "Keys", "aria-label": "Keys of this page", onclick: keysHelp }, h("kbd", {}, "?")),
      self.member ? h("button", { class: "quiet", type: "button", title: `Sign out ${self.member}`, "aria-label": `Sign out ${self.member}`, onclick: leave }, icon("leave")) : null));
  fill(document.body, h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "To the page"), side, main);
  window.addEventListener("live", ({ detail }) => {
    side.querySelector(".live span").textContent = detail === "live" ? "live" : "connection lost";
  });
}

async function leave() {
  if (!await confirmed("Sign out?", "This browser then needs the token again.", "Sign out", "primary")) return;
  await signOut();
  signedOut();
}

function keysHelp() {
  const dialog = h("dialog", { "aria-label": "Keys", onclose: () => dialog.remove() }, h("h2", {}, "Keys"),
    h("dl", { class: "keys" }, [["/", "search jobs; in a job, its log"], ["n, N", "next and previous match in a log that is searched"], ["n", "new job"], ["j, k", "next and previous job in the list"], ["Enter", "open it"], ["g", "back to the list of jobs"], ["Home, End", "beginning and end of a log"], ["← →", "along a curve; between tabs"]]
      .flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])),
    h("div", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

async function route() {
  const token = /^#token=(.+)$/.exec(location.hash);
  if (token) {
    // Out of sight and out of the history before anything else.
    history.replaceState(null, "", location.pathname);
    return start(decodeURIComponent(token[1]));
  }
  if (!self) return null;
  const [, workspace, name = "jobs", ...rest] = (location.hash.split("?")[0]).split("/").map(decodeURIComponent);
  if (!workspace || !self.workspaces.includes(workspace)) {
    location.replace(`#/${encodeURIComponent(self.workspaces[0])}/jobs`);
    return null;
  }
  const key = name === "jobs" && rest.length ? "job" : name;
  const entry = PAGES[key];
  if (!entry) { location.replace(`#/${encodeURIComponent(workspace)}/jobs`); return null; }
  const mine = ++turn;
  page?.end?.();
  live.stop();
  page = null;
  useWorkspace(workspace);
  const role = self.roles?.[workspace] ?? self.role;
  document.documentElement.dataset.role = role;
  for (const each of document.querySelectorAll("[data-page]")) {
    const on = each.dataset.page === entry[1] || each.dataset.page === key;
    each.toggleAttribute("aria-current", on);
    if (on) each.setAttribute("aria-current", "page");
    each.href = `#/${encodeURIComponent(workspace)}/${each.dataset.page}`;
  }
  fill(main, h("div", { class: "page" }, loading(6)));
  try {
    const { open } = await entry[2]();
    if (mine !== turn) return null;
    const parameters = new URLSearchParams(location.hash.split("?")[1] ?? "");
    page = open({ main, key, rest, parameters, self, role, base: `#/${encodeURIComponent(workspace)}` });
    // The mark at the foot says whether the server is there, on every page.
    if (!live.following()) live.follow({}, {});
    document.title = `${entry[0] ?? rest[0] ?? "New job"} · drumline`;
    main.scrollTop = 0;
  } catch (error) {
    fill(main, h("div", { class: "page" }, failure(error, route)));
  }
  return null;
}

async function start(token) {
  try {
    if (token) await signIn(token);
    self = await me();
    if (!self.workspaces.length) throw new Error("You are a member of no workspace.");
    shell();
    route();
  } catch (error) {
    if (error.status === 401 || token) signedOut(token ? error.message : "");
    else fill(document.body, h("div", { class: "door" }, failure(error, () => start(token))));
  }
}

function signedOut(message = "") {
  if (document.querySelector(".door form")) return;
  live.stop();
  page?.end?.();
  page = self = null;
  const field = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  fill(document.body, h("main", { class: "door" },
    h("form", { class: "card", onsubmit(event) { event.preventDefault(); fill(document.body); start(field.value.trim()); } },
      h("div", { class: "brand" }, mark(), h("b", {}, "drumline")),
      message ? h("p", { class: "notice bad", role: "alert" }, message) : null,
      h("label", { for: "token" }, "Token"), field,
      h("p", { class: "hint" }, "That of a member; of a console of your own it is in the address that ", h("code", {}, "drumline console"), " prints."),
      h("button", { class: "primary", type: "submit" }, "Sign in"))));
  field.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !self || document.querySelector("dialog[open]")) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (page?.key?.(event)) { event.preventDefault(); return; }
  const base = `#/${location.hash.split("/")[1]}`;
  const action = { "?": keysHelp, n: () => { location.hash = `${base}/new`; }, g: () => { location.hash = `${base}/jobs`; } }[event.key];
  if (action) { event.preventDefault(); action(); }
});

window.addEventListener("hashchange", route);
window.addEventListener("signed-out", () => signedOut("The session has ended: it was revoked, or the server was started again."));
// Times that say how long ago go on.
setInterval(() => {
  for (const each of document.querySelectorAll("time[data-ago]")) {
    each.textContent = ago(Number(each.dataset.ago));
    each.title = moment(Number(each.dataset.ago));
  }
}, 20000);
theme(localStorage.getItem("drumline-theme") ?? "auto");
if (location.hash.startsWith("#token=")) route(); else start();
