// A new job: a form in two sizes and the job file beside it, each of which follows the other.

import { get, send } from "../api.js";
import { copyButton, fill, h, icon, toast } from "../dom.js";
import { Editor } from "../parts/editor.js";
import { fromJob, toYaml } from "../parts/yaml.js";

const ROLES = [["chief", "Chief", true], ["workers", "Workers", false], ["ps", "Parameter servers", false], ["evaluator", "Evaluator", true]];
const SIZES = [["count", "Count", "number"], ["cpus", "CPUs", "text"], ["memory", "Memory", "text"], ["gpus", "GPUs", "number"], ["image", "Image", "text"]];
const START = { code: ".", command: "python train.py", workers: 1 };
const EXAMPLES = { cpus: "1", memory: "16GiB", gpus: "0", image: "this environment" };

/** Show the page; see main.js for what it is given. */
export function open({ main, parameters, self, base }) {
  // A team's server has no folders of the one who asks: code comes from git, or is saved there.
  const own = !self.member;
  let fields = own ? { ...START } : { ...START, code: { git: "https://" } }, known = { code: [], data: [], secrets: [], engines: [] };
  let form = localStorage.getItem("drumline-form") === "advanced" ? "advanced" : "general";
  let problems = [], checking = null, timer = null, valid = false, written = false;

  const editor = new Editor(() => { written = true; later(true); });
  const inputs = h("div", { class: "fields" });
  const said = h("div", { id: "problems", class: "problems", "aria-live": "polite" });
  const submit = h("button", { type: "submit", class: "primary" }, "Submit job");
  const tabs = h("div", { class: "switch", role: "tablist", "aria-label": "Form" }, [["general", "General"], ["advanced", "Advanced"]].map(([key, label]) =>
    h("button", { type: "button", role: "tab", "data-form": key, onclick: () => choose(key), onkeydown(event) {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      event.preventDefault();
      choose(form === "general" ? "advanced" : "general");
      tabs.querySelector(`[data-form=${form}]`).focus();
    } }, label)));
  const page = h("form", { class: "page new", novalidate: true, onsubmit(event) { event.preventDefault(); go(); } },
    h("nav", { class: "crumbs", "aria-label": "Where" }, h("a", { href: `${base}/jobs` }, icon("back"), "Jobs")),
    h("header", { class: "title" }, h("h1", {}, "New job"), h("span", { class: "grow" }), submit),
    h("div", { class: "two" },
      h("section", { class: "card form", "aria-label": "Form" }, h("header", {}, tabs, h("span", { class: "grow" }), h("p", { class: "hint" })), inputs),
      h("section", { class: "card file", "aria-label": "Job file" },
        h("header", {}, h("h2", {}, "job.yaml"), h("span", { class: "dim" }, "checked as you type"), h("span", { class: "grow" }), copyButton(() => editor.text, "Copy the job file")),
        editor.element, said)));

  function choose(key) {
    form = key;
    localStorage.setItem("drumline-form", key);
    draw();
  }

  function change(key, value) {
    if (value === "" || value === null || value === undefined) delete fields[key]; else fields[key] = value;
    editor.text = toYaml(fields);
    written = false;
    later(false);
  }

  const problemOf = (key) => problems.find(({ text }) => text === key || text.startsWith(`${key}:`) || text.startsWith(`${key}.`) || text.startsWith(`${key}[`));

  function field(key, label, hint, control) {
    const id = `field-${key.replaceAll(/\W/g, "-")}`;
    control.id = id;
    control.dataset.key = key;
    return h("div", { class: "field", "data-field": key }, h("label", { for: id }, label), control, hint ? h("p", { class: "hint" }, hint) : null, h("p", { class: "error", hidden: true }));
  }

  const text = (key, properties = {}) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", value: fields[key] ?? "", oninput: (event) => change(key, event.target.value.trim()), ...properties });
  const whole = (key, least, most, placeholder) => h("input", { type: "number", min: least, max: most, placeholder, value: fields[key] ?? "", oninput: (event) => change(key, event.target.value === "" ? "" : Number(event.target.value)) });

  function codeFields() {
    const code = fields.code ?? ".";
    const kind = typeof code === "object" ? (code.git ? "git" : "folder") : known.code.some(({ name }) => name === code) ? "saved" : "folder";
    const set = (part, value) => {
      const now = typeof fields.code === "object" ? { ...fields.code } : { git: "" };
      if (value) now[part] = value; else delete now[part];
      change("code", now);
    };
    const select = h("select", { onchange(event) {
      change("code", { git: { git: "https://" }, folder: ".", saved: known.code[0]?.name }[event.target.value]);
      draw();
    } }, own || kind === "folder" ? h("option", { value: "folder", selected: kind === "folder" }, "A folder of this machine") : "", h("option", { value: "git", selected: kind === "git" }, "A git repository"),
      known.code.length ? h("option", { value: "saved", selected: kind === "saved" }, "Saved code") : null);
    const part = (name, label, properties = {}) => h("label", {}, label, h("input", { type: "text", value: code[name] ?? "", autocomplete: "off", spellcheck: "false", oninput: (event) => set(name, event.target.value.trim()), ...properties }));
    const detail = kind === "git" ? h("div", { class: "parts" }, part("git", "Address", { placeholder: "https://git.example.com/ada/digits.git" }), part("commit", "Branch, tag or commit", { placeholder: "main" }), part("user", "User"), part("token", "Secret with the token", { list: "known-secrets" }))
      : kind === "saved" ? h("select", { "aria-label": "Saved code", onchange: (event) => change("code", event.target.value) }, known.code.map(({ name }) => h("option", { selected: name === code }, name)))
        : h("input", { type: "text", "aria-label": "Folder", value: typeof code === "object" ? code.folder ?? "" : code, spellcheck: "false", oninput: (event) => change("code", event.target.value.trim()) });
    const box = field("code", "Code", kind === "folder" ? "Copied when the job is submitted; what git ignores is left out." : own ? null : "A folder of your own machine is sent along by drumline run.", select);
    box.insertBefore(h("div", { class: "detail" }, detail), box.children[2]);
    return box;
  }

  const role = (key) => { const value = fields[key]; return value === true ? { count: 1 } : typeof value === "number" ? { count: value } : value ? { ...value, count: value.count ?? 1 } : null; };

  function setRole(key, part, value) {
    const now = role(key) ?? { count: 1 };
    if (value === "") delete now[part]; else now[part] = part === "count" || part === "gpus" ? Number(value) : part === "cpus" && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value;
    const size = Object.keys(now).filter((name) => name !== "count");
    change(key, size.length ? now : ["chief", "evaluator"].includes(key) ? true : now.count);
  }

  function roleTable(keys) {
    return h("div", { class: "scroll" }, h("table", { class: "roles" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Role"), SIZES.map(([, label]) => h("th", { scope: "col" }, label)))),
      h("tbody", {}, keys.map(([key, label, single]) => {
        const now = role(key);
        const control = ([part, name, type]) => h("td", { "data-label": name }, part === "count" && single
          ? h("input", { type: "checkbox", checked: Boolean(now), "aria-label": label, onchange: (event) => { change(key, event.target.checked ? true : ""); draw(); } })
          : h("input", { type, min: type === "number" ? 0 : null, "aria-label": `${label}: ${name}`, "data-key": `${key}.${part}`, disabled: !now && part !== "count", value: now?.[part] ?? "", placeholder: part === "count" ? (key === "workers" ? "1" : "0") : EXAMPLES[part], class: part,
            oninput(event) {
              const value = event.target.value.trim();
              if (part === "count" && (value === "" || value === "0")) change(key, "");
              else setRole(key, part, value);
              if (part === "count") for (const each of event.target.closest("tr").querySelectorAll("input")) if (each !== event.target) each.disabled = !role(key);
            } }));
        return h("tr", { "data-field": key }, h("th", { scope: "row" }, label), SIZES.map(control));
      }))));
  }

  function list(key, label, hint, columns, values, build) {
    const rows = values.map((value) => ({ ...value }));
    const body = h("div", { class: "items" });
    const update = () => change(key, build(rows.filter((row) => columns.some(([name]) => row[name]))));
    const show = () => fill(body, rows.map((row, i) => h("div", { class: "item" },
      columns.map(([name, what, type, more]) => (type === "checkbox"
        ? h("label", { class: "check" }, h("input", { type, checked: Boolean(row[name]), onchange(event) { row[name] = event.target.checked; update(); } }), what)
        : h("input", { type: "text", "aria-label": `${label} ${i + 1}: ${what}`, placeholder: what, value: row[name] ?? "", autocomplete: "off", spellcheck: "false", ...more, oninput(event) { row[name] = event.target.value.trim(); update(); } }))),
      h("button", { type: "button", class: "quiet small", "aria-label": `Remove ${label.toLowerCase()} ${i + 1}`, onclick() { rows.splice(i, 1); update(); show(); } }, icon("close")))),
    h("button", { type: "button", class: "quiet add", onclick() { rows.push({}); show(); body.querySelectorAll(".item").item(rows.length - 1).querySelector("input").focus(); } }, icon("plus"), `Add ${label.toLowerCase()}`));
    show();
    return h("div", { class: "field", "data-field": key, role: "group", "aria-label": label }, h("span", { class: "label" }, label), body, hint ? h("p", { class: "hint" }, hint) : null, h("p", { class: "error", hidden: true }));
  }

  function draw() {
    for (const tab of tabs.children) {
      const on = tab.dataset.form === form;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
    }
    page.querySelector(".form > header .hint").textContent = form === "general" ? "One kind of process." : "Roles, data, variables and limits.";
    const first = [
      field("command", "Command", "The same for every process; TF_CONFIG says which one it is.", h("textarea", { rows: 2, spellcheck: "false", value: fields.command ?? "", oninput: (event) => change("command", event.target.value.replaceAll("\n", " ").trim()) })),
      h("div", { class: "pair" }, field("name", "Name", null, text("name", { placeholder: "by the script" })),
        known.engines.length > 1 ? field("engine", "Engine", null, h("select", { onchange: (event) => change("engine", event.target.value === "local" ? "" : event.target.value) }, known.engines.map(({ name, kind }) => h("option", { value: name, selected: name === (fields.engine ?? "local") }, name === "local" ? "local – this machine" : `${name} – ${kind}`)))) : field("priority", "Priority", null, whole("priority", 1, 9, "5"))),
      codeFields(),
    ];
    const data = (Array.isArray(fields.data) ? fields.data : []).map((each) => (typeof each === "string" ? { from: each } : each));
    const lists = h("div", {}, h("datalist", { id: "known-data" }, known.data.map(({ name }) => h("option", { value: name }))), h("datalist", { id: "known-secrets" }, known.secrets.map((name) => h("option", { value: name }))));
    const dataField = list("data", "Data", "A folder, a saved name, or nfs://, pvc://, s3://, gs://, hf://, dataset://", [["from", "from", "text", { list: "known-data" }], ["at", "at /mnt/…"], ["write", "write", "checkbox"]], data, (rows) => (rows.length ? rows : ""));
    if (form === "general") {
      fill(inputs, first, h("div", { class: "field", "data-field": "workers", role: "group", "aria-label": "Processes" }, h("span", { class: "label" }, "Processes"), roleTable([ROLES[1]]), h("p", { class: "error", hidden: true })), dataField, lists);
    } else {
      fill(inputs, first, h("div", { class: "field", role: "group", "aria-label": "Roles" }, h("span", { class: "label" }, "Roles"), roleTable(ROLES), h("p", { class: "hint" }, "Sizes are of each process."), h("p", { class: "error", hidden: true })),
        dataField,
        list("env", "Variables", null, [["name", "NAME"], ["value", "value"]], Object.entries(fields.env ?? {}).map(([name, value]) => ({ name, value })), (rows) => (rows.length ? Object.fromEntries(rows.map(({ name, value }) => [name ?? "", value ?? ""])) : "")),
        list("secrets", "Secrets", "Their values become variables of its processes.", [["name", "NAME", "text", { list: "known-secrets" }]], (fields.secrets ?? []).map((name) => ({ name })), (rows) => (rows.length ? rows.map(({ name }) => name) : "")),
        h("div", { class: "pair" }, known.engines.length > 1 ? field("priority", "Priority", "1 to 9; the highest first.", whole("priority", 1, 9, "5")) : null, field("restarts", "Restarts", "After a failure.", whole("restarts", 0, 100, "0")),
          field("timeout", "Timeout", "Of one start.", text("timeout", { placeholder: "12h" })), field("hang_after", "Hung after", "Silent for so long.", text("hang_after", { placeholder: "30m" })), field("log_limit", "Log limit", "Of each process.", text("log_limit", { placeholder: "64MiB" }))), lists);
    }
    showProblems();
  }

  function later(fromFile) {
    valid = false;
    clearTimeout(timer);
    timer = setTimeout(() => check(fromFile), 220);
  }

  async function check(fromFile) {
    checking?.abort();
    const mine = checking = new AbortController();
    try {
      const found = await send("/jobs/check", { yaml: editor.text });
      if (mine.signal.aborted) return;
      problems = found.problems.sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
      valid = !problems.length;
      if (fromFile && found.job) {
        fields = fromJob(found.job);
        if (!page.querySelector(".form").contains(document.activeElement)) draw();
      }
      showProblems();
    } catch (error) {
      if (!mine.signal.aborted) { problems = error.problems ?? [{ line: error.line, text: error.message }]; showProblems(); }
    }
  }

  function showProblems() {
    editor.show(problems);
    fill(said, problems.length ? h("ul", {}, problems.map((each) => h("li", {}, each.line
      ? h("button", { type: "button", onclick: () => editor.goTo(each.line) }, `Line ${each.line}`) : h("b", {}, "Job"), h("span", {}, each.text))))
      : valid ? h("p", { class: "fine" }, icon("check"), "This job can be submitted.") : h("p", { class: "dim" }, "…"));
    for (const each of inputs.querySelectorAll("[data-field]")) {
      const problem = problemOf(each.dataset.field);
      each.classList.toggle("invalid", Boolean(problem));
      const place = each.querySelector(":scope > .error");
      if (place) { place.hidden = !problem; place.textContent = problem?.text ?? ""; }
    }
  }

  async function go() {
    submit.disabled = true;
    try {
      const { id } = await send("/jobs", { yaml: editor.text });
      location.hash = `${base}/jobs/${id}`;
    } catch (error) {
      problems = error.problems ?? [{ line: error.line, text: error.message }];
      valid = false;
      showProblems();
      toast(`It was not submitted: ${problems[0].text}`, "bad");
    } finally {
      submit.disabled = false;
    }
  }

  async function start() {
    const lists = await Promise.allSettled(["code", "data", "secrets", "engines"].map((key) => get(`/${key}`)));
    lists.forEach(({ value }, i) => { const key = ["code", "data", "secrets", "engines"][i]; known[key] = value?.[key] ?? []; });
    const from = Number(parameters.get("from"));
    if (from) {
      try { fields = fromJob((await get(`/jobs/${from}`)).job); } catch (error) { toast(error.message, "bad"); }
    }
    if (!own && !from && known.code.length) fields.code = known.code[0].name;
    if (!written) editor.text = toYaml(fields);
    draw();
    check(false);
  }

  fill(main, page);
  editor.text = toYaml(fields);
  draw();
  start();
  return { end() { checking?.abort(); clearTimeout(timer); } };
}
