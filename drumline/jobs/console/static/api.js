// The routes of a workspace, and the session by which the browser may ask them.

/** What the server has refused; `status` is that of HTTP, 0 where there was no answer. */
export class Refused extends Error {
  constructor(message, status, line = null) {
    super(message);
    this.status = status;
    this.line = line;
  }
}

const SESSION = "/session";

let workspace = "";

/** Choose the workspace of all further calls. */
export function useWorkspace(name) {
  workspace = name;
}

/** The path of a route of the workspace. */
export function path(route) {
  return `/api/v1/workspaces/${encodeURIComponent(workspace)}${route}`;
}

async function ask(url, options = {}) {
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer.", 0);
  }
  if (answer.ok) return answer;
  let said = {};
  try { said = await answer.json(); } catch { /* no JSON: a proxy in between */ }
  if (answer.status === 401 && url !== SESSION) window.dispatchEvent(new Event("signed-out"));
  const refused = new Refused(said.error ?? `The server says ${answer.status} ${answer.statusText}.`, answer.status, said.line ?? null);
  refused.problems = said.problems ?? null;
  throw refused;
}

/** Read JSON of a route. */
export async function get(route, signal) {
  return (await ask(path(route), { signal })).json();
}

/** Send JSON to a route, and read its answer. */
export async function send(route, body, method = "POST") {
  return sendTo(path(route), body, method);
}

/** Send JSON to any path of the server. */
export async function sendTo(url, body, method = "POST") {
  const answer = await ask(url, { method, body: JSON.stringify(body ?? {}), headers: { "Content-Type": "application/json", "X-Drumline": "1" } });
  const text = await answer.text();
  return text ? JSON.parse(text) : {};
}

/** Read JSON of any path of the server. */
export async function getFrom(url) {
  return (await ask(url)).json();
}

/** Read bytes of a log: its part, where that begins, and how long the log is now. */
export async function logBytes(job, name, from, limit, signal) {
  const answer = await ask(path(`/jobs/${job}/logs/${encodeURIComponent(name)}?from=${from}&limit=${limit}`), { signal });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  return { bytes, from: Number(answer.headers.get("X-From")), size: Number(answer.headers.get("X-Size")) };
}

/** Find the lines of a log nearest to a byte that have a text: {lines, from, to, size}. */
export async function searchLog(job, name, words, signal) {
  return get(`/jobs/${job}/logs/${encodeURIComponent(name)}/search?${new URLSearchParams(words)}`, signal);
}

/** Who we are: {member, role, workspaces}. */
export async function me() {
  return (await ask("/api/v1/me")).json();
}

/** Exchange a token for a session. */
export async function signIn(token) {
  await ask(SESSION, { method: "POST", body: JSON.stringify({ token }), headers: { "Content-Type": "application/json", "X-Drumline": "1" } });
}

/** End the session. */
export async function signOut() {
  await ask(SESSION, { method: "DELETE", headers: { "X-Drumline": "1" } });
}
