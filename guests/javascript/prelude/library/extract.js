// The JSON in what a model said.
import { extract, parse } from "./native.js";

// undefined: it is no JSON.
export function parsed(text) {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

// The first object or array in a text, or null.
export const jsonExtract = (raw) => (typeof raw === "string" ? extract(raw) : null);
