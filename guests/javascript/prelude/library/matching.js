// Which of several words a text means.
import { floor, isArray, max, min, TypeError } from "./language.js";

// ---- one of a few names

function jaro(a, b) {
  const reach = max(0, floor(max(a.length, b.length) / 2) - 1);
  const taken = b.map(() => false);
  const common = a.filter((char, i) => {
    for (let j = max(0, i - reach); j < min(b.length, i + reach + 1); j++) {
      if (taken[j] || b[j] !== char) continue;
      return (taken[j] = true);
    }
    return false;
  });
  if (!common.length) return 0;
  const others = b.filter((_, j) => taken[j]);
  const moved = common.filter((char, i) => char !== others[i]).length / 2;
  return (common.length / a.length + common.length / b.length + (common.length - moved) / common.length) / 3;
}

// Jaro-Winkler: words that begin alike are more alike. 1: the same.
function likeness(one, other) {
  const [a, b] = [[...one], [...other]];
  if (max(a.length, b.length) > 16 * min(a.length, b.length) + 64) return 0; // a text without spaces is no misspelt word
  const base = jaro(a, b);
  let prefix = 0;
  while (prefix < 4 && prefix < a.length && a[prefix] === b[prefix]) prefix++;
  return base > 0.7 ? base + prefix * 0.1 * (1 - base) : base;
}

// The one that is named last.
function mentioned(text, candidates) {
  let best = null;
  let latest = -1;
  for (const candidate of candidates) {
    const at = candidate === "" ? -1 : text.lastIndexOf(candidate.toLowerCase());
    if (at > latest) [best, latest] = [candidate, at];
  }
  return best;
}

function alike(text, candidates, threshold) {
  let best = null;
  let most = -1;
  for (const token of text.split(/\s+/)) {
    const word = token.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");
    if (!word) continue;
    for (const candidate of candidates) {
      const score = likeness(word, candidate.toLowerCase());
      if (score >= threshold && score > most) [best, most] = [candidate, score];
    }
  }
  return best;
}

export function matchEnum(text, candidates, options) {
  if (typeof text !== "string") throw new TypeError("hf.matchEnum: the text must be a string");
  if (!isArray(candidates)) throw new TypeError("hf.matchEnum: candidates must be an array");
  if (candidates.some((name) => typeof name !== "string")) throw new TypeError("hf.matchEnum: candidates must be strings");
  const threshold = options?.threshold ?? 0.7;
  if (typeof threshold !== "number") throw new TypeError("hf.matchEnum: threshold must be a number");
  const lower = text.toLowerCase();
  return mentioned(lower, candidates) ?? alike(lower, candidates, threshold);
}

// ---- yes or no

const YES = ["approved", "yes", "ok", "accept", "pass", "confirm", "agree", "true", "lgtm"];
const NO = ["rejected", "no", "deny", "block", "fail", "refuse", "disagree", "false"];

// What the last such word says, or null.
export function matchBool(text) {
  if (typeof text !== "string") throw new TypeError("hf.matchBool: the text must be a string");
  const words = text.toLowerCase().split(/[^a-z0-9]+/);
  const last = words.findLast((word) => YES.includes(word) || NO.includes(word));
  return last === undefined ? null : YES.includes(last);
}
