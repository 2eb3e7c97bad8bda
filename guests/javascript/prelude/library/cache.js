// Answers that are asked for once. The cache is the session's.
import { Map, String } from "./language.js";
import { isObject } from "./kinds.js";
import { jsonEncode, plain } from "./json.js";
import { llm } from "./native.js";
import { outward } from "./options.js";

const MOST = 256;

const kept = new Map(); // in the order in which they came
let hits = 0;
let misses = 0;

// The question to the letter, with all options, unless the script knows better what is the same.
function keyOf(prompt, options, chosen) {
  const isChosen = chosen !== undefined && chosen !== null;
  return jsonEncode(isChosen ? ["key", String(chosen)] : ["question", prompt, options]);
}

// Whoever changes what they got does not change what others get.
const copy = (value) => (isObject(value) ? plain(value) : value);

export async function cache(prompt, options) {
  const rest = outward(options, ["cacheKey", "cacheSkip"]);
  if (options?.cacheSkip) return await llm(prompt, rest);
  const key = keyOf(prompt, rest, options?.cacheKey);
  if (kept.has(key)) {
    hits++;
    return copy(kept.get(key));
  }
  misses++;
  const answer = await llm(prompt, rest);
  if (!kept.has(key) && kept.size === MOST) kept.delete(kept.keys().next().value);
  kept.set(key, copy(answer));
  return answer;
}

export const cacheInfo = () => ({ entries: kept.size, hits, misses, max_entries: MOST });

export function cacheClear() {
  kept.clear();
  hits = misses = 0;
}
