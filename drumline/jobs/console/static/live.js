// What changes, in one connection: browsers allow six of HTTP/1.1 for each host.

import { me, path } from "./api.js";

let source = null;
let wanted = null;
let again = 0;

/**
 * Follow a workspace, and one job and one log of it; what was followed before is not any more.
 *
 * @param query {jobs: true, job: 7, log: "7/worker:0@1234"}, what to follow
 * @param handlers by the kind of event: jobs, job, events, log, metrics; "open" when it begins
 */
export function follow(query, handlers) {
  stop();
  const asked = { query, handlers };
  wanted = asked;
  const words = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== false);
  const url = path(`/stream?${words.map(([key, value]) => `${key}=${encodeURIComponent(value === true ? 1 : value)}`).join("&")}`);
  source = new EventSource(url);
  source.onopen = () => { again = 0; show("live"); handlers.open?.(); };
  source.onerror = () => {
    show("lost");
    // A browser tries again by itself unless the answer was no stream (a restart behind a proxy).
    if (source?.readyState === EventSource.CLOSED && wanted === asked) {
      // It may be that one is no longer let in, of which an EventSource does not say a word.
      me().catch(() => {});
      setTimeout(() => { if (wanted === asked) follow(query, handlers); }, Math.min(30000, 1000 * 2 ** again++));
    }
  };
  for (const [kind, handle] of Object.entries(handlers)) {
    if (kind !== "open") source.addEventListener(kind, (event) => handle(JSON.parse(event.data)));
  }
}

/** Whether something is followed. */
export const following = () => wanted !== null;

/** Follow nothing. */
export function stop() {
  source?.close();
  source = wanted = null;
}

function show(now) {
  document.documentElement.dataset.live = now;
  window.dispatchEvent(new CustomEvent("live", { detail: now }));
}
