// The rarer methods of console, made from the common ones, which are in C.
import { formatWithOptions, inspect } from "node-inspect-extracted";

const { now } = performance;

export function addConsoleMethods(console) {
  const { log, warn, error } = console;
  const counts = new Map();
  const started = new Map();

  const elapsed = (label) => `${label}: ${(now() - started.get(label)).toFixed(3)}ms`;
  const withStarted = (label, act) => {
    if (started.has(label)) act();
    else warn(`No such label '${label}' for console.time()`);
  };

  const methods = {
    assert(condition, ...values) {
      if (condition) return;
      if (typeof values[0] === "string") values[0] = `Assertion failed: ${values[0]}`;
      else values.unshift(values.length ? "Assertion failed:" : "Assertion failed");
      warn(...values);
    },
    count(label = "default") {
      const key = `${label}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
      log(`${key}: ${counts.get(key)}`);
    },
    countReset(label = "default") {
      counts.delete(`${label}`);
    },
    dir(value, options) {
      log(inspect(value, { customInspect: false, ...options }));
    },
    table(rows, columns) {
      if (rows === null || typeof rows !== "object") log(rows);
      else log(drawTable(rows, columns));
    },
    time(label = "default") {
      started.set(`${label}`, now());
    },
    timeEnd(label = "default") {
      withStarted(`${label}`, () => log(elapsed(`${label}`)));
      started.delete(`${label}`);
    },
    timeLog(label = "default", ...values) {
      withStarted(`${label}`, () => log(elapsed(`${label}`), ...values));
    },
    trace(...values) {
      const { stack } = new Error(formatWithOptions({}, ...values));
      error(stack.replace("Error", "Trace"));
    },
  };
  for (const [name, method] of Object.entries(methods)) console[name] = method;
}

// One line a row; a column for each key that a row has, and one for rows that are not objects.
function drawTable(rows, columns) {
  const entries = rows instanceof Map ? [...rows] : rows instanceof Set ? [...rows].map((row, i) => [i, row]) : Object.entries(rows);
  const show = (value) => inspect(value, { depth: 0, compact: 3, breakLength: Infinity });
  const isObject = (row) => typeof row === "object" && row !== null;
  const keys = columns ?? [...new Set(entries.flatMap(([, row]) => (isObject(row) ? Object.keys(row) : [])))];
  const head = ["(index)", ...keys];
  const plain = entries.some(([, row]) => !isObject(row));
  if (plain) head.push("Values");
  const lines = entries.map(([index, row]) => {
    const cells = [String(index), ...keys.map((key) => (isObject(row) && Object.hasOwn(row, key) ? show(row[key]) : ""))];
    if (plain) cells.push(isObject(row) ? "" : show(row));
    return cells;
  });
  const widths = head.map((title, i) => Math.max(title.length, ...lines.map((line) => line[i].length)) + 2);
  const draw = (cells) => `│${cells.map((cell, i) => ` ${cell.padEnd(widths[i] - 1)}`).join("│")}│`;
  const rule = (left, middle, right) => left + widths.map((width) => "─".repeat(width)).join(middle) + right;
  return [rule("┌", "┬", "┐"), draw(head), rule("├", "┼", "┤"), ...lines.map(draw), rule("└", "┴", "┘")].join("\n");
}
