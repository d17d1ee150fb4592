// What a workspace keeps for its jobs: code, data, secrets, engines.

import { get, send } from "../api.js";
import { confirmed, copyButton, empty, failure, fill, h, icon, loading, toast } from "../dom.js";

const KINDS = {
  code: {
    title: "Code", one: "code", lead: "Repositories and folders that job files name: code: NAME.",
    use: (name) => `code: ${name}`,
    fields: [["name", "Name", "digits", true], ["git", "Git address", "https://git.example.com/ada/digits.git"], ["folder", "or a folder", "/home/ada/digits"], ["commit", "Branch, tag or commit", "main"], ["user", "User", "ada"], ["token", "Secret with the token", "GIT_TOKEN"], ["at", "Seen at", "/root/code"]],
  },
  data: {
    title: "Data", one: "data", lead: "Folders, shares, buckets and named datasets that job files name: data: [NAME].",
    use: (name) => `data: [${name}]`,
    fields: [["name", "Name", "digits", true], ["from", "From", "nfs://nas/digits", true], ["at", "Seen at", "/mnt/digits"], ["write", "Jobs may write there", "", false, "checkbox"]],
  },
  secrets: {
    title: "Secrets", one: "secret", lead: "Tokens and passwords. Their values are never shown again, and masked in logs.",
    use: (name) => `secrets: [${name}]`,
    fields: [["name", "Name", "HF_TOKEN", true], ["value", "Value", "", true, "password"]],
  },
  engines: {
    title: "Engines", one: "engine", lead: "Where jobs run: this machine, hosts and clusters.",
    use: (name) => `engine: ${name}`,
    fields: null,
    more: "drumline engine add NAME --kind ssh --hosts node1,node2",
  },
};

/** Show one of the pages; see main.js for what it is given. */
export function open({ main, key, role }) {
  const kind = KINDS[key];
  const body = h("div", {}, loading(4));
  const may = kind.fields && role !== "viewer";
  const mayRemove = may || (key === "engines" && role === "admin");
  const add = h("button", { type: "button", class: "primary", onclick: showForm }, icon("plus"), `Add ${kind.one}`);
  fill(main, h("div", { class: "page saved" }, h("header", { class: "title" }, h("div", {}, h("h1", {}, kind.title), h("p", { class: "dim" }, kind.lead)), h("span", { class: "grow" }), may ? add : null), body));

  async function load() {
    try {
      const found = (await get(`/${key}`))[key].map((each) => (typeof each === "string" ? { name: each } : each));
      if (!found.length) {
        fill(body, empty(key, `No ${kind.one === "engine" ? "engines" : kind.title.toLowerCase()} yet`, kind.lead));
        return;
      }
      fill(body, h("ul", { class: "things" }, found.map((each) => h("li", { class: "card" },
        h("span", { class: "badge" }, icon(key)),
        h("div", { class: "what" }, h("b", {}, each.name), h("p", {}, described(each))),
        h("code", { class: "use" }, kind.use(each.name)),
        mayRemove && each.name !== "local" ? h("button", { type: "button", class: "quiet", "aria-label": `Remove ${each.name}`, title: "Remove", onclick: () => remove(each.name) }, icon("trash")) : null))),
      kind.more ? h("p", { class: "more dim" }, "Another one is added where its programs are, as by ", h("code", {}, kind.more), copyButton(kind.more, "Copy the command")) : null);
    } catch (error) {
      if (error.status !== 401) fill(body, failure(error, load));
    }
  }

  function described(each) {
    if (key === "secrets") return "•••••••• set";
    if (each.text) return each.text;
    if (key === "engines") return [each.kind === "local" || each.name === "local" ? "this machine" : each.kind, ...Object.entries(each.settings ?? {}).map(([name, value]) => setting(name, value)), capacity(each.capacity)].filter(Boolean).join(" · ");
    const fields = each.fields ?? each;
    return [fields.git ?? fields.folder ?? fields.from, fields.commit && `at ${fields.commit}`, fields.user && `as ${fields.user}`, fields.token && `by the secret ${fields.token}`, fields.at && `seen at ${fields.at}`, fields.write && "jobs may write"].filter(Boolean).join(" · ");
  }

  function setting(name, value) {
    if (Array.isArray(value)) return value.length && `${name}: ${value.join(", ")}`;
    if (value && typeof value === "object") return Object.keys(value).length && `${name}: ${JSON.stringify(value)}`;
    return value && value !== -1 && `${name}: ${value}`;  // -1 is all that there is
  }

  const capacity = (each) => (each ? Object.entries(each).filter(([, value]) => value).map(([name, value]) => (name === "memory" ? `${Math.round(value / 2 ** 30)} GiB` : `${value} ${name}`)).join(", ") : "");

  async function remove(name) {
    const kept = key === "secrets" ? "Jobs that need it cannot be submitted any more." : key === "data" ? "The data themselves stay." : key === "engines" ? "Jobs can be submitted to it no more; those that have ended stay in the list." : "Jobs that were submitted with it keep their copy.";
    if (!await confirmed(`Remove ${name}?`, kept, "Remove")) return;
    try {
      await send(`/${key}/${encodeURIComponent(name)}`, null, "DELETE");
      load();
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  function showForm() {
    const said = h("div", {});
    const dialog = h("dialog", { class: "add", "aria-label": `Add ${kind.one}`, onclose: () => dialog.remove() },
      h("form", { async onsubmit(event) {
        event.preventDefault();
        const values = {};
        for (const [name, , , , type] of kind.fields) {
          const control = event.target.elements[name];
          const value = type === "checkbox" ? control.checked : type === "password" ? control.value : control.value.trim();
          if (value) values[name] = value;
        }
        try {
          await send(`/${key}`, values);
          dialog.close();
          load();
        } catch (error) {
          fill(said, failure(error));
        }
      } }, h("h2", {}, `Add ${kind.one}`), said,
      kind.fields.map(([name, label, placeholder, required, type]) => (type === "checkbox"
        ? h("label", { class: "check" }, h("input", { type, name }), label)
        : h("label", { class: "field" }, h("span", { class: "label" }, label), h("input", { type: type ?? "text", name, placeholder, required: Boolean(required), autocomplete: type === "password" ? "new-password" : "off", spellcheck: "false" })))),
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Back"), h("button", { type: "submit", class: "primary" }, "Save"))));
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector("input").focus();
  }

  load();
  return { key(event) { if (event.key === "a" && may) { event.preventDefault(); showForm(); } } };
}
