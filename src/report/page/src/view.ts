// SPDX-License-Identifier: Apache-2.0
// The part of the step that timeline and memory show together.

export class View {
  from = 0;
  to: number;
  private listeners: (() => void)[] = [];
  private asked = false;
  constructor(readonly whole: number) {
    this.to = whole;
  }
  listen(listener: () => void) {
    this.listeners.push(listener);
  }
  /** At most once a frame. */
  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.now());
  }
  now() {
    this.asked = false;
    for (const listener of this.listeners) listener();
  }
  set(from: number, to: number) {
    const least = Math.min(this.whole, 200);
    const span = Math.min(this.whole, Math.max(least, to - from));
    this.from = Math.min(Math.max(0, from), this.whole - span);
    this.to = this.from + span;
    this.redraw();
  }
  zoom(factor: number, around: number) {
    this.set(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }
  pan(share: number) {
    const by = (this.to - this.from) * share;
    this.set(this.from + by, this.to + by);
  }
  fit() {
    this.set(0, this.whole);
  }
}
