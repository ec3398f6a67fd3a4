// SPDX-License-Identifier: Apache-2.0
// One file with everything in it: the script and the style sheet go into template.html, whose security policy admits these two by their hash and
// nothing else. The result is report.html beside this file, in ASCII, and begins with the hash of its sources (scripts/report_page.py checks it).
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vite";

const here = import.meta.dirname;

function sourcesHash() {
  const names = ["package.json", "package-lock.json", "tsconfig.json", "vite.config.mjs", "template.html"];
  for (const name of readdirSync(join(here, "src"))) names.push(`src/${name}`);
  const hash = createHash("sha256");
  for (const name of names.sort()) hash.update(`${name}\0`).update(readFileSync(join(here, name))).update("\0");
  return hash.digest("hex");
}

const policyHash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const ascii = (text) => text.replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

function oneFile() {
  return {
    name: "espalier-one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      let script = "", style = "";
      for (const [name, part] of Object.entries(bundle)) {
        if (part.type === "chunk") script += part.code;
        else if (name.endsWith(".css")) style += part.source;
        delete bundle[name];
      }
      script = ascii(script).replaceAll("</", "<\\/").trim();
      style = style.trim();
      if (/[^\x00-\x7f]/.test(style)) throw new Error("the style sheet is not ASCII");
      const page = readFileSync(join(here, "template.html"), "utf8")
        .replace("@@sources@@", () => sourcesHash())
        .replace("@@policy@@", () => `default-src 'none'; script-src ${policyHash(script)}; style-src ${policyHash(style)}; base-uri 'none'; form-action 'none'`)
        .replace("@@style@@", () => style)
        .replace("@@script@@", () => script);
      writeFileSync(join(here, "report.html"), page);
    },
  };
}

export default defineConfig({
  root: here,
  logLevel: "warn",
  build: {
    write: false,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: { input: join(here, "src/main.ts"), output: { format: "iife" } },
  },
  plugins: [oneFile()],
});
