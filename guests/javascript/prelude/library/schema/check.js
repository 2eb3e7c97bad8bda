// Whether a schema makes sense, before anybody is asked for what fits it.
import { hasOwn, isArray, keys, Map, Set } from "../language.js";
import { isObject, isRecord } from "../kinds.js";
import { plain } from "../json.js";
import { messageOf } from "../failure.js";
import { invalid } from "./failure.js";
import { BELOW, BELOW_LISTS, BELOW_MAPS, HERE, HERE_LISTS, RULES } from "./keywords.js";
import { element, member } from "./path.js";
import { target } from "./refs.js";

const LONGEST_CHAIN = 200;

// ---- the schemas in a schema, each with its path

function* single(schema, names, path) {
  for (const name of names) if (hasOwn(schema, name)) yield [schema[name], member(path, name)];
}

function* listed(schema, names, path) {
  for (const [list, at] of single(schema, names, path)) {
    if (!isArray(list) || !list.length) throw invalid(at, "must be a list of schemas");
    for (let i = 0; i < list.length; i++) yield [list[i], element(at, i)];
  }
}

function* mapped(schema, names, path) {
  for (const [map, at] of single(schema, names, path)) {
    if (!isRecord(map)) throw invalid(at, "must be an object of schemas");
    for (const key of keys(map)) yield [map[key], member(at, key)];
  }
}

function* here(schema, path, root) {
  yield* single(schema, HERE, path);
  yield* listed(schema, HERE_LISTS, path);
  for (const [ref, at] of single(schema, ["$ref"], path)) yield [target(root, ref, at), at];
}

function* below(schema, path) {
  yield* single(schema, BELOW, path);
  yield* listed(schema, BELOW_LISTS, path);
  yield* mapped(schema, BELOW_MAPS, path);
}

// ---- the check

function checkRules(schema, path) {
  for (const [names, holds, otherwise] of RULES) {
    for (const [value, at] of single(schema, names, path)) if (!holds(value)) throw invalid(at, otherwise);
  }
}

// All schemas that can be reached, each once.
function checkAll(root) {
  const found = new Map();
  const open = [[root, "$"]];
  while (open.length) {
    const [schema, path] = open.pop();
    if (typeof schema === "boolean" || found.has(schema)) continue;
    if (!isRecord(schema)) throw invalid(path, "a schema is an object, true or false");
    found.set(schema, path);
    checkRules(schema, path);
    for (const part of here(schema, path, root)) open.push(part);
    for (const part of below(schema, path)) open.push(part);
  }
  return found;
}

// One that must know whether it fits before it can tell whether it fits would never come to an end.
function checkEnds(found, root) {
  const safe = new Set();
  const visit = (schema, path, above) => {
    if (!isObject(schema) || safe.has(schema)) return;
    if (above.has(schema) || above.size === LONGEST_CHAIN) throw invalid(path, "is defined by itself");
    above.add(schema);
    for (const [next, at] of here(schema, path, root)) visit(next, at, above);
    above.delete(schema);
    safe.add(schema);
  };
  for (const [schema, path] of found) visit(schema, path, new Set());
}

// The schema as plain JSON. Throws with code SCHEMA_INVALID.
export function checked(given) {
  let schema;
  try {
    schema = plain(given);
  } catch (error) {
    throw invalid("$", messageOf(error));
  }
  if (!isRecord(schema)) throw invalid("$", "must be an object");
  checkEnds(checkAll(schema), schema);
  return schema;
}
