// A stretch of a log: whole lines of it with their places, and never more than fits into memory.

const MOST_BYTES = 6 << 20;
const MOST_LINES = 30_000;
const PIECE = 64 << 10;
const LONGEST_LINE = 64 << 10;

/** The lines of a log from one byte to another. */
export class LogBuffer {
  constructor() {
    this.clear(0);
  }

  /** Hold nothing, from a byte on. */
  clear(at) {
    this.pieces = [];
    this.from = this.to = at;
    this.count = 0;
    this.unfinished = false;
    this.cursor = [0, 0];
  }

  /** The line of a number; those that are asked for one after another are found at once. */
  line(number) {
    let [index, before] = number < this.cursor[1] ? [0, 0] : this.cursor;
    while (index < this.pieces.length && number - before >= this.pieces[index].lines.length) before += this.pieces[index++].lines.length;
    this.cursor = [index, before];
    return this.pieces[index]?.lines[number - before] ?? "";
  }

  /**
   * Add text at the end.
   *
   * @param text what was written
   * @param to the byte after it
   * @returns how many lines were dropped at the beginning
   */
  append(text, to) {
    let lines = text.split("\n");
    const finished = lines.at(-1) === "";
    if (finished) lines.pop();
    if (this.unfinished && this.pieces.length && lines.length) {
      const last = this.pieces.at(-1).lines;
      last[last.length - 1] = shortened(last.at(-1) + lines[0]);
      lines = lines.slice(1);
    }
    let piece = this.pieces.at(-1);
    if (!piece || piece.to - piece.from > PIECE) {
      piece = { from: this.to, to: this.to, lines: [] };
      this.pieces.push(piece);
    }
    // Not by spread: an engine takes some 10^5 arguments at most.
    for (const line of lines) piece.lines.push(shortened(line));
    this.count += lines.length;
    piece.to = this.to = to;
    if (text) this.unfinished = !finished;
    let dropped = 0;
    while (this.pieces.length > 1 && this.tooLarge()) {
      const first = this.pieces.shift();
      this.cursor = [0, 0];
      dropped += first.lines.length;
      this.from = first.to;
    }
    this.count -= dropped;
    return dropped;
  }

  /**
   * Add text before the beginning, which ends with a line.
   *
   * @returns how many lines were added
   */
  prepend(text, from) {
    const lines = text.split("\n").map(shortened);
    if (lines.at(-1) === "") lines.pop();
    this.cursor = [0, 0];
    this.pieces.unshift({ from, to: this.from, lines });
    this.from = from;
    this.count += lines.length;
    while (this.pieces.length > 1 && this.tooLarge()) {
      const last = this.pieces.pop();
      this.count -= last.lines.length;
      this.to = last.from;
      this.unfinished = false;
    }
    return lines.length;
  }

  tooLarge() {
    return this.to - this.from > MOST_BYTES || this.count > MOST_LINES;
  }
}

/** A line that is written over again and again has no end; the last of it is what is seen. */
function shortened(line) {
  if (line.length <= LONGEST_LINE) return line;
  const last = line.lastIndexOf("\r", line.length - 2);
  return last > 0 && line.length - last < LONGEST_LINE ? line.slice(last) : line.slice(0, LONGEST_LINE);
}
