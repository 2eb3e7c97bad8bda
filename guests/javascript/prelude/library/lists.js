// Lists, one item after the other. The functions may wait.
import { isArray, Map, String, TypeError } from "./language.js";

function check(title, items, change) {
  if (!isArray(items)) throw new TypeError(`hf.${title}: items must be an array`);
  if (typeof change !== "function") throw new TypeError(`hf.${title}: fn must be a function`);
}

export async function map(items, fn) {
  check("map", items, fn);
  const results = [];
  for (let i = 0; i < items.length; i++) results.push((await fn(items[i], i)) ?? null);
  return results;
}

export async function filter(items, fn) {
  check("filter", items, fn);
  const results = [];
  for (let i = 0; i < items.length; i++) {
    const item = items[i];
    if (await fn(item, i)) results.push(item);
  }
  return results;
}

export async function reduce(items, fn, initial) {
  check("reduce", items, fn);
  const first = initial === undefined ? 1 : 0;
  let result = first ? items[0] : initial;
  for (let i = first; i < items.length; i++) result = await fn(result, items[i], i);
  return result ?? null;
}

// What most say; of several, what was said first.
export function vote(answers) {
  if (!isArray(answers)) throw new TypeError("hf.vote: answers must be an array");
  const counts = new Map();
  for (const answer of answers) {
    const said = String(answer).trim();
    counts.set(said, (counts.get(said) ?? 0) + 1);
  }
  let winner = null;
  let count = 0;
  for (const [said, times] of counts) if (times > count) [winner, count] = [said, times];
  return { winner, count, total: answers.length };
}
