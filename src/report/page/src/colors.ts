// SPDX-License-Identifier: Apache-2.0
// Colours by what a rank does. They follow Okabe and Ito's palette, which the usual colour-blindnesses tell apart, and differ in lightness; names
// stand beside them everywhere.

export interface Category {
  id: string;
  name: string;
  light: string;
  dark: string;
}

export const categories: Category[] = [
  { id: "forward", name: "forward", light: "#2f6fad", dark: "#5aa0e0" },
  { id: "backward", name: "backward", light: "#7fb2dd", dark: "#2f6ea8" },
  { id: "weight", name: "weight gradients", light: "#b9d7f0", dark: "#274a6b" },
  { id: "update", name: "optimizer", light: "#4a4f57", dark: "#c3c8d0" },
  { id: "pipeline", name: "pipeline messages", light: "#e69f00", dark: "#e8ab2e" },
  { id: "data", name: "data parallel, ZeRO", light: "#c8500a", dark: "#ee7a38" },
  { id: "tensor", name: "tensor parallel", light: "#b5588c", dark: "#d987b4" },
  { id: "context", name: "context parallel", light: "#008f68", dark: "#2fbf93" },
  { id: "expert", name: "expert parallel", light: "#857a00", dark: "#d6ca3d" },
  { id: "other", name: "waiting, host", light: "#b4b8be", dark: "#5d636c" },
];

export const categoryIndex = new Map(categories.map((c, i) => [c.id, i]));

export interface Theme {
  paper: string;
  ink: string;
  faint: string;
  rule: string;
  band: string;
  accent: string;
  fills: string[];
  labels: string[];
}

let printing = false;
export function setPrinting(value: boolean) {
  printing = value;
}

function luminance(hex: string): number {
  const part = (i: number) => {
    const c = parseInt(hex.slice(i, i + 2), 16) / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}

export function theme(): Theme {
  const dark = !printing && matchMedia("(prefers-color-scheme: dark)").matches;
  const fills = categories.map((c) => (dark ? c.dark : c.light));
  return {
    paper: dark ? "#15181c" : "#ffffff",
    ink: dark ? "#e6e8eb" : "#1c2024",
    faint: dark ? "#9aa1aa" : "#646b74",
    rule: dark ? "#2c3137" : "#e2e4e8",
    band: dark ? "#1b1f24" : "#f7f8f9",
    accent: dark ? "#ee7a38" : "#c8500a",
    fills,
    labels: fills.map((c) => (luminance(c) > 0.32 ? "#14171a" : "#ffffff")),
  };
}
