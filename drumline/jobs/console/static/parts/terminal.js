// What a terminal would show of a line: colours, and what is written over by \r and \b.

const LONGEST = 4000;
const BEFORE = 200;

const ACTING = /[\x00-\x08\x0b-\x1f\x7f\x9b]/;
const CONTROL = /\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?/g;

const PLAIN = Object.freeze({ fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, inverse: false });

/**
 * Split a line into runs of one style.
 *
 * @param line as it was written
 * @param searched a regular expression that is to be seen, if the line is cut
 * @returns [{text, style}], in which no character acts on a terminal
 */
export function runs(line, searched = null) {
  if (!ACTING.test(line)) return [{ text: cut(line, searched), style: PLAIN }];
  const cells = [];
  let style = PLAIN, at = 0, i = 0;
  while (i < line.length && cells.length < LONGEST + 1) {
    const code = line.charCodeAt(i);
    if (code === 0x1b) {
      const next = line[i + 1];
      if (next === "[") {
        const found = /^\x1b\[([0-9;:?<=>]*)[ -/]*([@-~])/.exec(line.slice(i, i + 64));
        if (!found) { i += 2; continue; }
        i += found[0].length;
        if (found[2] === "m") style = styled(style, found[1]);
        else if (found[2] === "K") cells.length = found[1] === "2" ? 0 : Math.min(cells.length, at);
        else if (found[2] === "G") at = Math.min(Math.max(0, (parseInt(found[1], 10) || 1) - 1), cells.length);
        else if (found[2] === "D") at = Math.max(0, at - (parseInt(found[1], 10) || 1));
        continue;
      }
      if (next === "]") { // a title or a link: to its end
        const end = /\x07|\x1b\\/.exec(line.slice(i));
        i = end ? i + end.index + end[0].length : line.length;
        continue;
      }
      i += 2;
    } else if (code === 0x0d) {
      at = 0;
      i++;
    } else if (code === 0x08) {
      at = Math.max(0, at - 1);
      i++;
    } else if (code < 0x20 && code !== 0x09 || code === 0x7f) {
      i++;
    } else {
      const char = String.fromCodePoint(line.codePointAt(i));
      cells[at++] = { char, style };
      i += char.length;
    }
  }
  const found = [];
  for (const cell of cells.slice(0, LONGEST)) {
    const last = found.at(-1);
    if (last?.style === cell.style) last.text += cell.char;
    else found.push({ text: cell.char, style: cell.style });
  }
  if (i < line.length) found.push({ text: " … the rest of this line is left out", style: { ...PLAIN, dim: true } });
  return found;
}

function cut(line, searched) {
  if (line.length <= LONGEST) return line;
  const found = searched ? line.search(searched) : 0;
  const from = found > LONGEST - BEFORE ? found - BEFORE : 0;
  const rest = line.length - from - LONGEST;
  return `${from ? `${from} characters … ` : ""}${line.slice(from, from + LONGEST)}${rest > 0 ? ` … ${rest} more characters` : ""}`;
}

function styled(before, words) {
  const style = { ...before };
  const codes = words.split(/[;:]/).map((word) => parseInt(word, 10) || 0);
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    if (code === 0) Object.assign(style, PLAIN);
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code === 27) style.inverse = false;
    else if (code >= 30 && code <= 37) style.fg = code - 30;
    else if (code >= 90 && code <= 97) style.fg = code - 82;
    else if (code === 39) style.fg = null;
    else if (code >= 40 && code <= 47) style.bg = code - 40;
    else if (code >= 100 && code <= 107) style.bg = code - 92;
    else if (code === 49) style.bg = null;
    else if (code === 38 || code === 48) {
      const key = code === 38 ? "fg" : "bg";
      if (codes[i + 1] === 5) { style[key] = palette(codes[i + 2] ?? 0); i += 2; }
      else if (codes[i + 1] === 2) { style[key] = rgb(codes.slice(i + 2, i + 5)); i += 4; }
    }
  }
  return style;
}

function palette(code) {
  if (code < 16) return code;
  if (code >= 232) return rgb(Array(3).fill(8 + 10 * (code - 232)));
  const cube = [0, 95, 135, 175, 215, 255];
  const rest = code - 16;
  return rgb([cube[Math.floor(rest / 36) % 6], cube[Math.floor(rest / 6) % 6], cube[rest % 6]]);
}

const rgb = (parts) => `rgb(${parts.map((part) => Math.min(255, Math.max(0, part | 0))).join(" ")})`;

/** How many rows of a width, in characters, a line takes if it is wrapped: a good guess. */
export function wrappedRows(line, columns) {
  let text = line;
  if (ACTING.test(line)) text = line.replace(CONTROL, "").replace(/\r$/, "").replace(/^[^]*\r/, "");
  return Math.max(1, Math.ceil(Math.min(text.length, LONGEST + 30) / columns));
}

/**
 * Make the elements of a line.
 *
 * @param line as it was written
 * @param searched a regular expression; what matches it is marked
 */
export function render(line, searched = null) {
  const parts = runs(line, searched);
  const marks = searched ? [...parts.map(({ text }) => text).join("").matchAll(searched)].map((found) => [found.index, found.index + found[0].length]) : [];
  let at = 0;
  return parts.map(({ text, style }) => {
    const children = marked(text, at, marks);
    at += text.length;
    if (style === PLAIN) return children;
    const span = document.createElement("span");
    span.append(...children);
    const words = ["bold", "dim", "italic", "underline", "inverse"].filter((word) => style[word]);
    for (const [key, property] of [["fg", "color"], ["bg", "background-color"]]) {
      const value = style[key];
      if (typeof value === "number") words.push(`${key}-${value}`);
      else if (value) span.style.setProperty(property, value);
    }
    span.className = words.map((word) => `t-${word}`).join(" ");
    return [span];
  }).flat();
}

/** A part of a line that begins at some place in it, with marks where they are in the line. */
function marked(text, start, marks) {
  const children = [];
  let done = 0;
  for (const [from, to] of marks) {
    const first = Math.max(done, from - start), last = Math.min(text.length, to - start);
    if (last <= first) continue;
    if (first > done) children.push(document.createTextNode(text.slice(done, first)));
    const mark = document.createElement("mark");
    mark.textContent = text.slice(first, last);
    children.push(mark);
    done = last;
  }
  if (done < text.length) children.push(document.createTextNode(text.slice(done)));
  return children;
}
