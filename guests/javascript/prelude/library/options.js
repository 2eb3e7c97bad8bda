// Options that leave the library have one name outside, whatever the language. Here they may be written as JavaScript does.
import { hasOwn, keys } from "./language.js";
import { put } from "./records.js";

const NAMES = {
  __proto__: null,
  maxTokens: "max_tokens",
  timeoutMs: "timeout_ms",
  orderBy: "order_by",
  cardId: "card_id",
  includeStats: "include_stats",
  relationFilter: "relation_filter",
  dryRun: "dry_run",
};

// A copy with these names, without what is left out.
export function outward(options, left = []) {
  const copy = {};
  for (const key of keys(options ?? {})) {
    const name = NAMES[key] ?? key;
    if (!left.includes(key) && !hasOwn(copy, name)) put(copy, name, options[key]);
  }
  return copy;
}
