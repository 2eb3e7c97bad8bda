// Strategies by name or as functions: what fork and pipe run.
import { TypeError } from "./language.js";
import { importModule } from "./native.js";
import { isObject, kindOf } from "./kinds.js";

// `title` is for messages, such as "hf.pipe".
export async function runnerOf(entry, title) {
  if (typeof entry === "function") return entry;
  if (typeof entry !== "string") throw new TypeError(`${title}: a strategy must be a name or a function, got ${kindOf(entry)}`);
  const found = await importModule(entry);
  for (const holder of [found.default, found]) {
    if ((isObject(holder) || typeof holder === "function") && typeof holder.run === "function") return (ctx) => holder.run(ctx);
  }
  throw new TypeError(`${title}: strategy '${entry}' has no function run`);
}

export const nameOf = (entry, index) => (typeof entry === "function" ? `(inline-${index + 1})` : entry);
