// What an evaluation comes to: figures over all cases, and a sentence.
import { create } from "../language.js";
import { describe, interval, passAt } from "./statistics.js";

const countPassed = (results) => results.filter((result) => result.passed).length;

const scoresOf = (results) => describe(results.map((result) => result.score));

function byTag(results) {
  const groups = create(null);
  for (const result of results) for (const tag of result.tags ?? []) (groups[tag] ??= []).push(result);
  for (const tag in groups) {
    const members = groups[tag];
    const [total, passed] = [members.length, countPassed(members)];
    groups[tag] = { total, passed, pass_rate: passed / total, mean_score: scoresOf(members).mean };
  }
  return groups;
}

export function reportOf(name, results) {
  const [total, passed, scores] = [results.length, countPassed(results), scoresOf(results)];
  const rate = total ? passed / total : 0;
  const aggregated = { total, passed, pass_rate: rate, pass_at_1: rate };
  for (const k of [5, 10]) if (total >= k) aggregated[`pass_at_${k}`] = passAt(k, passed, total);
  return {
    name,
    aggregated: { ...aggregated, scores, ci_95: interval(scores), by_tag: byTag(results) },
    failures: results.filter((result) => !result.passed),
    results,
    summary: `${name}: ${passed} of ${total} passed (${(100 * rate).toFixed(1)} %), mean score ${scores.mean.toFixed(3)}`,
  };
}
