// A job as the keys of its file, and that file as text.

const UNITS = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];
const SECONDS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** A scalar as YAML: in quotes where a word alone would be read as something else. */
export function scalar(value) {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = String(value);
  const plain = /^[A-Za-z0-9_./~@%+=-][^\n\t"'#&*!|>{}[\]`\x00-\x1f\x7f]*$/.test(text);
  const special = /^(true|false|yes|no|on|off|null|~|-|[-+.\d][\d_.eE+:-]*|0[xob].*|\d{4}-\d\d-\d\d.*)$/i.test(text) || /: |:$|^[-?] |\s$/.test(text) || /,/.test(text);
  return text === "." || (plain && !special) ? text : JSON.stringify(text);
}

function flow(fields) {
  return `{${Object.entries(fields).map(([key, value]) => `${key}: ${scalar(value)}`).join(", ")}}`;
}

const given = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false));

/** The text of a job file. */
export function toYaml(fields) {
  const lines = [];
  for (const key of ["name", "code", "data", "command", "chief", "workers", "ps", "evaluator", "env", "secrets", "engine", "priority", "restarts", "timeout", "hang_after", "log_limit"]) {
    const value = fields[key];
    if (value === undefined || value === null || value === "" || value === false) continue;
    if (key === "command") lines.push(`command: ${/^[^\n]*$/.test(value) ? scalar(value) : JSON.stringify(value)}`);
    else if (key === "data") {
      if (value.length) lines.push("data:", ...value.map((each) => `  - ${typeof each === "string" ? scalar(each) : flow(given(each))}`));
    } else if (key === "env") {
      const names = Object.keys(value);
      if (names.length) lines.push("env:", ...names.map((name) => `  ${scalar(name)}: ${JSON.stringify(String(value[name]))}`));
    } else if (key === "secrets") {
      if (value.length) lines.push(`secrets: [${value.map(scalar).join(", ")}]`);
    } else if (key === "code" && typeof value === "object") {
      lines.push("code:", ...Object.entries(given(value)).map(([name, each]) => `  ${name}: ${scalar(each)}`));
    } else if (typeof value === "object") {
      lines.push(`${key}: ${flow(given(value))}`);
    } else lines.push(`${key}: ${scalar(value)}`);
  }
  return `${lines.join("\n")}\n`;
}

function measured(value, units) {
  const [unit, size] = units.find(([, each]) => value % each === 0) ?? units.at(-1);
  return `${Number((value / size).toPrecision(6))}${unit}`;
}

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`;
}

function roleOf(role) {
  const size = given({ cpus: role.cpus === 1 ? "" : role.cpus, memory: role.memory ? measured(role.memory, UNITS) : "", gpus: role.gpus || "", image: role.image });
  return Object.keys(size).length ? { count: role.count, ...size } : role.count;
}

/** The keys of a checked job (as the server's JSON has it), without those that say nothing new. */
export function fromJob(job) {
  const roles = Object.fromEntries(Object.entries(job.roles ?? {}).map(([name, role]) => [name, roleOf(role)]));
  const { folder, git, commit, user, token, at } = job.code ?? {};
  const code = git ? given({ git, commit, user, token, at: at === "/root/code" ? "" : at }) : at ? given({ folder, at }) : folder;
  for (const name of ["chief", "evaluator"]) if (roles[name] === 1) roles[name] = true;
  return {
    name: job.name, code,
    data: (job.data ?? []).map((each) => given({ from: each.source, at: each.at, write: each.write })),
    command: (job.command ?? []).map(quoted).join(" "),
    ...roles, env: job.env ?? {}, secrets: job.secrets ?? [],
    engine: job.engine === "local" ? "" : job.engine,
    priority: job.priority === 5 ? "" : job.priority, restarts: job.restarts || "",
    timeout: job.timeout ? measured(job.timeout, SECONDS) : "", hang_after: job.hang_after ? measured(job.hang_after, SECONDS) : "",
    log_limit: job.log_limit ? measured(job.log_limit, UNITS) : "",
  };
}
