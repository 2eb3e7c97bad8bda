// Node's own formatting. Both functions are called from C, which has a text of its own for when they throw.
import * as util from "node-inspect-extracted";

const { format: nodeFormat, inspect: nodeInspect } = util;
const { promiseDetails } = globalThis.__holdfast;
const titles = ["<pending>", "", "<rejected> "];

export const format = (...values) => nodeFormat(...values);

export const inspect = (value) => nodeInspect(value);

// The package takes every promise for a pending one.
Object.defineProperty(Promise.prototype, nodeInspect.custom, {
  value: function inspectPromise(depth, options, inspectValue) {
    const [state, result] = promiseDetails(this);
    if (state < 0) return this;
    if (depth < 0) return "[Promise]";
    const text = state ? inspectValue(result, options) : "";
    return `Promise { ${titles[state]}${text} }`;
  },
  writable: true,
  enumerable: false,
  configurable: true,
});
