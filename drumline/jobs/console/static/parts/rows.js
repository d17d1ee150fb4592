// Rows of which only those in sight are elements, however many there are.

const SPARE = 12;

/** The visible part of many rows, in a box that scrolls; all are of one height, or of multiples of it. */
export class Rows {
  /**
   * @param box the element that scrolls
   * @param height of a row in pixels
   * @param make makes the element of a row by its number
   * @param onScroll called after each scroll, when rows are drawn
   * @param onResize called when the box has another size
   */
  constructor(box, height, make, onScroll = () => {}, onResize = () => {}) {
    this.box = box;
    this.height = height;
    this.make = make;
    this.onScroll = onScroll;
    this.count = 0;
    this.tops = null;
    this.drawn = new Map();
    this.space = document.createElement("div");
    this.space.className = "rows";
    this.box.append(this.space);
    this.frame = 0;
    box.addEventListener("scroll", () => this.later(), { passive: true });
    this.observer = new ResizeObserver(() => { onResize(); this.later(); });
    this.observer.observe(box);
  }

  /** Stop drawing. */
  end() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /**
   * Say how many rows there are; those drawn are made again unless `kept`.
   *
   * @param lengths how many times its height each row has, by its number; without it, once. It is
   *   a guess: what is drawn and turns out otherwise is moved.
   */
  set(count, kept = false, lengths = null) {
    const known = kept && this.tops ? Math.min(this.count, count) : 0;
    this.count = count;
    this.lengths = lengths;
    if (lengths) {
      const tops = known ? this.tops : [0];
      // The last row may have grown.
      tops.length = Math.max(1, known);
      for (let number = tops.length - 1; number < count; number++) tops.push(tops[number] + lengths(number));
      this.tops = tops;
    } else this.tops = null;
    this.space.style.setProperty("height", `${this.top(count)}px`);
    if (!kept) {
      this.space.replaceChildren();
      this.drawn.clear();
    }
    this.later();
  }

  /** Make one row again. */
  refresh(number) {
    const old = this.drawn.get(number);
    if (!old) return;
    const fresh = this.place(number);
    const focused = old.contains(document.activeElement);
    old.replaceWith(fresh);
    this.drawn.set(number, fresh);
    if (focused) (fresh.matches("a,button,[tabindex]") ? fresh : fresh.querySelector("a,button,[tabindex]"))?.focus({ preventScroll: true });
  }

  /** Where a row begins, in pixels from the first one. */
  top(number) {
    return (this.tops ? this.tops[Math.min(number, this.count)] : number) * this.height;
  }

  /** The number of the row at so many pixels from the first one. */
  at(y) {
    const place = Math.max(0, y / this.height);
    if (!this.tops) return Math.min(this.count, Math.floor(place));
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= place) low = middle; else high = middle - 1;
    }
    return low;
  }

  later() {
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  /** The numbers of the first row in sight and of the one after the last. */
  sight() {
    // Above the rows there may be a head that scrolls along.
    const top = this.box.scrollTop - this.space.offsetTop;
    return [this.at(top), Math.min(this.count, this.at(top + this.box.clientHeight - 1) + 1)];
  }

  draw() {
    const [first, last] = this.sight();
    const from = Math.max(0, first - SPARE), to = Math.min(this.count, last + SPARE);
    for (const [number, element] of this.drawn) {
      if (number < from || number >= to) {
        element.remove();
        this.drawn.delete(number);
      }
    }
    // In their order, which is also that in which they are read and reached by the keyboard.
    let before = null;
    for (let number = from; number < to; number++) {
      let element = this.drawn.get(number);
      if (!element) {
        element = this.place(number);
        this.drawn.set(number, element);
        if (before) before.after(element); else this.space.prepend(element);
      }
      before = element;
    }
    if (this.tops) this.measure(first);
    this.onScroll(first, last);
  }

  /** Move what is below rows that are higher or lower than was guessed; the first in sight stays. */
  measure(first) {
    const wrong = [...this.drawn].map(([number, element]) => [number, Math.max(1, Math.round(element.offsetHeight / this.height)) - (this.tops[number + 1] - this.tops[number])]).filter(([, by]) => by);
    if (!wrong.length) return;
    const before = this.top(first);
    for (const [from, by] of wrong) for (let number = from + 1; number <= this.count; number++) this.tops[number] += by;
    this.space.style.setProperty("height", `${this.top(this.count)}px`);
    for (const [number, element] of this.drawn) this.move(element, number);
    const moved = this.top(first) - before;
    if (moved) this.box.scrollTop += moved;
  }

  place(number) {
    const element = this.make(number);
    this.move(element, number);
    return element;
  }

  move(element, number) {
    element.style.setProperty("transform", `translateY(${this.top(number)}px)`);
  }
}
