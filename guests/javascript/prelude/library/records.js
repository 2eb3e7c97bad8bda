// Objects whose keys a script, a host or a model chose: `__proto__` is a key like any other.
import { create, defineProperty, hasOwn, keys } from "./language.js";
import { isObject } from "./kinds.js";

export function put(object, key, value) {
  defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
}

// An object without anything inherited, for what leaves the library as a payload or a record.
export function bare(from) {
  const copy = create(null);
  for (const key of keys(from)) copy[key] = from[key];
  return copy;
}

export const own = (object, key) => (isObject(object) && hasOwn(object, key) ? object[key] : undefined);
