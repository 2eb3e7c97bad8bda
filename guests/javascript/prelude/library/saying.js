// What a script says while it runs: a log, progress, and figures of its own. Each is a record of the step.
import { isSafeInteger, Map, String, TypeError } from "./language.js";
import * as native from "./native.js";
import { format } from "../inspect.js";
import { jsonEncode } from "./json.js";
import { bare } from "./records.js";

const textOf = (value) => (typeof value === "string" ? value : format(value));

export function log(level, message) {
  if (typeof level !== "string") throw new TypeError("hf.log: the level must be a string");
  native.log(bare({ level, message: textOf(message) }));
}

function counted(value, name) {
  if (!isSafeInteger(value) || value < 0) throw new TypeError(`hf.progress: ${name} must be a whole number, not negative`);
  return value;
}

export function progress(step, total, message) {
  const text = message === undefined || message === null ? null : textOf(message);
  native.progress(bare({ step: counted(step, "step"), total: counted(total, "total"), message: text }));
}

// Figures are those of one execution. They are kept as JSON: what a script changes in an object later is not in the record.
let recorded = new Map();
let owner = 0;

function figures() {
  if (owner !== native.execution()) {
    owner = native.execution();
    recorded = new Map();
  }
  return recorded;
}

export const stats = {
  record(key, value) {
    if (typeof key !== "string") throw new TypeError("hf.stats.record: the key must be a string");
    const text = jsonEncode(value);
    figures().set(key, text);
    native.stat(bare({ key, value: native.parse(text) }));
  },
  get(key) {
    const text = figures().get(String(key));
    return text === undefined ? null : native.parse(text);
  },
};
