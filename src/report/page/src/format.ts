// SPDX-License-Identifier: Apache-2.0
// Numbers for people, as src/base/format.h writes them. The page formats; it computes nothing.

const fixed = (value: number, digits: number) => value.toFixed(digits);

export function seconds(ns: number): string {
  const size = Math.abs(ns);
  if (size >= 1e9) return `${fixed(ns / 1e9, 3)} s`;
  if (size >= 1e6) return `${fixed(ns / 1e6, 1)} ms`;
  return `${fixed(ns / 1e3, 1)} us`;
}

/** Of an axis whose marks are `step` apart. */
export function mark(ns: number, step: number): string {
  const [unit, name] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : [1e3, "us"];
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / unit) - 1e-9)));
  return `${fixed(ns / unit, digits)} ${name}`;
}

export const gib = (bytes: number) => `${fixed(bytes / 2 ** 30, 1)} GiB`;

export function bytes(size: number): string {
  if (size >= 2 ** 30) return `${fixed(size / 2 ** 30, 2)} GiB`;
  if (size >= 2 ** 20) return `${fixed(size / 2 ** 20, 1)} MiB`;
  return size >= 2 ** 10 ? `${fixed(size / 2 ** 10, 1)} KiB` : `${size} B`;
}

export const grouped = (value: number) => value.toLocaleString("en-US");

/** A round step of which about `marks` lie in `span`: 1, 2 or 5 times a power of ten. */
export function roundStep(span: number, marks: number): number {
  const rough = span / Math.max(1, marks);
  const power = 10 ** Math.floor(Math.log10(rough));
  const rest = rough / power;
  return (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10) * power;
}
