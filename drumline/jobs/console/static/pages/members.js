// Who may do what in a workspace of a team's server, and the tokens by which they come in.

import { get, getFrom, send, sendTo } from "../api.js";
import { confirmed, copyButton, empty, failure, fill, h, icon, loading, timeAgo, toast } from "../dom.js";

const ROLES = [["viewer", "sees all jobs"], ["member", "submits and cancels jobs"], ["admin", "also changes roles and engines"]];

/** Show the page; see main.js for what it is given. */
export function open({ main, self, role }) {
  const people = h("div", {}, loading(3));
  const tokens = h("div", {}, loading(2));
  const mine = `/api/v1/members/${encodeURIComponent(self.member)}/tokens`;
  const add = h("button", { type: "button", class: "primary", onclick: addMember }, icon("plus"), "Add member");
  fill(main, h("div", { class: "page saved" },
    h("header", { class: "title" }, h("div", {}, h("h1", {}, "Members"), h("p", { class: "dim" }, "Who may do what in this workspace.")), h("span", { class: "grow" }), role === "admin" ? add : null),
    people,
    h("header", { class: "title again" }, h("div", {}, h("h1", {}, "Your tokens"), h("p", { class: "dim" }, "Each is shown once. One that is revoked stops at once, here and on the command line.")), h("span", { class: "grow" }),
      h("button", { type: "button", onclick: addToken }, icon("plus"), "Add token")),
    tokens));

  async function loadPeople() {
    try {
      const { members } = await get("/members");
      if (!members.length) {
        fill(people, empty("members", "No roles here yet", "Those who look after the server see and may do all."));
        return;
      }
      fill(people, h("ul", { class: "things" }, members.map((each) => h("li", { class: "card" },
        h("span", { class: "badge" }, icon("members")),
        h("div", { class: "what" }, h("b", {}, each.member), each.member === self.member ? h("span", { class: "dim" }, " you") : null, h("p", {}, limits(each))),
        role === "admin"
          ? h("select", { class: "role", "aria-label": `Role of ${each.member}`, onchange: (event) => setRole(each, event.target.value) }, ROLES.map(([name]) => h("option", { value: name, selected: name === each.role }, name)))
          : h("span", { class: "dim" }, each.role),
        role === "admin" && each.member !== self.member ? h("button", { type: "button", class: "quiet", title: "Take the role away", "aria-label": `Take the role of ${each.member} away`, onclick: () => removeRole(each) }, icon("trash")) : null))));
    } catch (error) {
      if (error.status !== 401) fill(people, failure(error, loadPeople));
    }
  }

  function limits(each) {
    const held = Object.entries(each.limits ?? {}).map(([name, value]) => `${name === "memory" ? `${Math.round(value / 2 ** 30)} GiB of memory` : `${value} ${name}`}`);
    return [ROLES.find(([name]) => name === each.role)?.[1], held.length ? `at most ${held.join(", ")}` : null, each.priority < 9 ? `priority up to ${each.priority}` : null].filter(Boolean).join(" · ");
  }

  async function setRole(each, chosen) {
    try {
      await send("/members", { member: each.member, role: chosen, priority: each.priority, limits: each.limits });
      toast(`${each.member} is ${chosen} now.`);
    } catch (error) {
      toast(error.message, "bad");
    }
    loadPeople();
  }

  async function removeRole(each) {
    if (!await confirmed(`Take ${each.member}'s role away?`, "What they have submitted stays; they see nothing of this workspace any more.", "Take it away")) return;
    try {
      await send(`/members/${encodeURIComponent(each.member)}`, null, "DELETE");
    } catch (error) {
      toast(error.message, "bad");
    }
    loadPeople();
  }

  function addMember() {
    const said = h("div");
    const dialog = h("dialog", { class: "add", "aria-label": "Add member", onclose: () => dialog.remove() },
      h("form", { async onsubmit(event) {
        event.preventDefault();
        const { name, role: chosen } = event.target.elements;
        const member = name.value.trim();
        try {
          let token = null;
          // Who looks after the server makes new members; others give a role to those there are.
          if (self.role === "admin") {
            try {
              ({ token } = await sendTo("/api/v1/members", { name: member }));
            } catch (error) {
              if (!/already/.test(error.message)) throw error;
            }
          }
          await send("/members", { member, role: chosen.value });
          dialog.close();
          if (token) showToken(member, token);
          loadPeople();
        } catch (error) {
          fill(said, failure(error));
        }
      } }, h("h2", {}, "Add member"), said,
      h("label", { class: "field" }, h("span", { class: "label" }, "Name"), h("input", { type: "text", name: "name", placeholder: "grace", required: true, autocomplete: "off", spellcheck: "false" })),
      h("label", { class: "field" }, h("span", { class: "label" }, "Role"), h("select", { name: "role" }, ROLES.map(([name, text]) => h("option", { value: name, selected: name === "member" }, `${name} – ${text}`)))),
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Back"), h("button", { type: "submit", class: "primary" }, "Add"))));
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector("input").focus();
  }

  function showToken(name, token) {
    const dialog = h("dialog", { "aria-label": "A new token", onclose: () => dialog.remove() }, h("h2", {}, `A token of ${name}`),
      h("p", {}, "It is shown this once. Who has it may do all that ", h("b", {}, name), " may."),
      h("p", { class: "token" }, h("code", {}, token), copyButton(token, "Copy the token")),
      h("div", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Done")));
    document.body.append(dialog);
    dialog.showModal();
  }

  async function loadTokens() {
    try {
      const found = (await getFrom(mine)).tokens.filter((each) => !each.revoked);
      fill(tokens, found.length ? h("ul", { class: "things" }, found.map((each) => h("li", { class: "card" },
        h("span", { class: "badge" }, icon("secrets")),
        h("div", { class: "what" }, h("b", {}, each.label || `Token ${each.id}`), h("p", {}, "made ", timeAgo(each.created), each.used ? [", used ", timeAgo(each.used)] : ", never used")),
        h("button", { type: "button", class: "quiet", title: "Revoke", "aria-label": `Revoke ${each.label || `token ${each.id}`}`, onclick: () => revoke(each) }, icon("trash")))))
        : empty("secrets", "No tokens", "This browser came in by one that is gone."));
    } catch (error) {
      if (error.status !== 401) fill(tokens, failure(error, loadTokens));
    }
  }

  async function addToken() {
    try {
      const { token } = await sendTo(mine, { label: "console" });
      showToken(self.member, token);
      loadTokens();
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  async function revoke(each) {
    if (!await confirmed("Revoke this token?", "What uses it is refused from now on, this browser too if it came in by it.", "Revoke")) return;
    try {
      await sendTo(`${mine}/${each.id}`, null, "DELETE");
      loadTokens();
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  loadPeople();
  loadTokens();
  return {};
}
