// What time it is, and what is left of the budget.
import { now } from "./language.js";
import { call } from "./native.js";

export const time = () => now() / 1000;

export const budgetRemaining = () => call("holdfast.budget") ?? null;

// Whether something is left of each limit that is set.
export function budgetCheck() {
  const left = budgetRemaining();
  if (left === null) return true;
  return ![left.llm_calls, left.elapsed_ms, left.tokens].some((rest) => typeof rest === "number" && rest <= 0);
}
