// Values that last, over the native module of this name: whoever has no grant of it gets the error of require.
import { TypeError } from "./language.js";
import { require } from "./native.js";
import { own } from "./records.js";

// Looked up at each call: the script may change ctx, and the part of the state that `ctx._ns` names.
function space() {
  const module = require("state");
  const name = own(globalThis.ctx, "_ns");
  return typeof name === "string" && name !== "" && name !== "default" ? module.namespace(name) : module;
}

export const state = {
  get: (key, fallback) => space().get(key, fallback) ?? null,
  set: (key, value, options) => space().set(key, value, options),
  has: (key) => space().has(key),
  keys: (prefix) => space().keys(prefix),
  delete: (key) => space().delete(key),
  setNx: (key, value, options) => space().setNx(key, value, options),
  incr: (key, delta, initial) => space().incr(key, delta, initial),
  compareAndSet: (key, expected, value, options) => space().compareAndSet(key, expected, value, options),
  async update(key, change, fallback) {
    if (typeof change !== "function") throw new TypeError("hf.state.update: fn must be a function");
    return (await space().update(key, change, fallback ?? null)) ?? null;
  },
};
