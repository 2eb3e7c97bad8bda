// JSON text with sorted keys: the same text for the same value, here and in Lua.
import { isArray, keys, Set, String, stringify, TypeError } from "./language.js";
import { isObject } from "./kinds.js";
import { parse } from "./native.js";

const DEEPEST = 500;

// By code points, as bytes of UTF-8 are ordered: the units of a pair of surrogates come after all others.
const rank = (unit) => (unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit);

function compare(a, b) {
  const length = a.length < b.length ? a.length : b.length;
  for (let i = 0; i < length; i++) {
    const difference = rank(a.charCodeAt(i)) - rank(b.charCodeAt(i));
    if (difference) return difference;
  }
  return a.length - b.length;
}

function write(value, key, above) {
  if (isObject(value) && typeof value.toJSON === "function") value = value.toJSON(key);
  if (value === undefined) return "null";
  if (!isObject(value)) {
    if (typeof value === "function" || typeof value === "symbol")
      throw new TypeError(`hf.jsonEncode: a ${typeof value} has no JSON form`);
    return typeof value === "bigint" ? String(value) : stringify(value);
  }
  if (above.has(value)) throw new TypeError("hf.jsonEncode: the value contains itself");
  if (above.size === DEEPEST) throw new TypeError(`hf.jsonEncode: the value is nested deeper than ${DEEPEST} levels`);
  above.add(value);
  const parts = [];
  if (isArray(value)) {
    for (let i = 0; i < value.length; i++) parts.push(write(value[i], String(i), above));
  } else {
    for (const name of keys(value).sort(compare)) {
      const member = value[name];
      if (member !== undefined) parts.push(`${stringify(name)}:${write(member, name, above)}`);
    }
  }
  above.delete(value);
  return isArray(value) ? `[${parts.join(",")}]` : `{${parts.join(",")}}`;
}

export const jsonEncode = (value) => write(value, "", new Set());

export function jsonDecode(text) {
  if (typeof text !== "string") throw new TypeError("hf.jsonDecode: the text must be a string");
  return parse(text);
}

// A copy that is nothing but JSON, and that no getter or proxy hides behind.
export const plain = (value) => parse(jsonEncode(value));
