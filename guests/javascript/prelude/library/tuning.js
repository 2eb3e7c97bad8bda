// Settings: defaults, and what the run's ctx says otherwise.
import { isArray, keys, Map } from "./language.js";
import { isObject, isRecord } from "./kinds.js";
import { own, put } from "./records.js";
import { log } from "./saying.js";

const SCHEMA = "_schema"; // describes the defaults, and is none of them

// Defaults are copied, so that what a script changes in its settings is not changed for the next.
function copied(value, seen = new Map()) {
  if (!isObject(value) || seen.has(value)) return seen.get(value) ?? value;
  const copy = isArray(value) ? [] : {};
  seen.set(value, copy);
  for (const key of keys(value)) put(copy, key, copied(value[key], seen));
  return copy;
}

// Merged key by key are only objects with keys. A list is replaced, and so is an empty object.
const isNested = (value) => isRecord(value) && keys(value).length > 0;

function merged(defaults, given) {
  const result = {};
  for (const key of keys(defaults)) {
    if (key === SCHEMA) continue;
    const usual = defaults[key];
    const said = own(given, key) ?? undefined;
    if (said === undefined) put(result, key, copied(usual));
    else put(result, key, isNested(usual) && isRecord(said) ? merged(usual, said) : said);
  }
  return result;
}

// With a prefix that ctx has, only what is there counts.
function source(ctx, prefix) {
  const part = prefix === undefined || prefix === null ? undefined : own(ctx, prefix);
  if (part === undefined || part === null) return ctx;
  if (isRecord(part)) return part;
  log("warn", `hf.tuning: ctx.${prefix} is not an object; using defaults`);
  return undefined;
}

export function tuning(defaults, ctx, options) {
  if (!isObject(defaults) || isArray(defaults)) return defaults;
  return merged(defaults, source(ctx, options?.prefix));
}
