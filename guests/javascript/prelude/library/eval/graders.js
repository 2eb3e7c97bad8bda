// How good an answer is, from 0 to 1, by what the case expects. An answer is {text, case, input, expected, elapsed_ms}.
import { isArray, RegExp, String, TypeError } from "../language.js";
import { jsonExtract, parsed } from "../extract.js";
import { isObject, isRecord } from "../kinds.js";
import { own } from "../records.js";
import { parseNumber } from "../text.js";

const listOf = (entries) => (entries === undefined || entries === null ? [] : isArray(entries) ? entries : [entries]);

// Whether a test holds for what is expected, or for one thing of a list of such.
const some = (test) => ({ text, expected }) =>
  listOf(expected).some((one) => one !== undefined && one !== null && !isObject(one) && test(text, String(one)));

function matches(text, pattern) {
  try {
    return new RegExp(pattern).test(text);
  } catch {
    return false;
  }
}

// Words without case, marks and spaces.
const words = (text) => text.toLowerCase().replace(/[\0-/:-@[-`{-\x7f]+/g, " ").replace(/\s+/g, " ").trim();

// The same words, anywhere in the text, or the same number.
function flexible(text, expected) {
  const [said, wanted] = [words(text), words(expected)];
  if (said === wanted) return true;
  if (/^-?[0-9,]+\.?[0-9]*$/.test(expected.trim())) {
    const number = parseNumber(expected.replaceAll(",", ""));
    if (number !== null) return parseNumber(text.replace(/([0-9]),(?=[0-9])/g, "$1")) === number;
  }
  return wanted !== "" && ` ${said} `.includes(` ${wanted} `);
}

// A bound is an option of the grader, or a part of what is expected.
function bound(name, options, expected, otherwise) {
  const value = own(options, name) ?? own(expected, name);
  return typeof value === "number" ? value : otherwise;
}

function within({ text, expected }, options) {
  const length = [...text].length;
  return length >= bound("min", options, expected, 0) && length <= bound("max", options, expected, Infinity);
}

const graders = {
  __proto__: null,
  exact_match: some((text, expected) => text.trim() === expected.trim()),
  contains: some((text, expected) => text.includes(expected)),
  starts_with: some((text, expected) => text.startsWith(expected)),
  regex: some(matches),
  flexible_match: some(flexible),
  json_valid: ({ text }) => parsed(text) !== undefined,
  valid_json_response: ({ text }) => jsonExtract(text) !== null,
  not_empty: ({ text }) => text.trim() !== "",
  length: within,
  latency: ({ elapsed_ms, expected }, options) => elapsed_ms <= bound("max_ms", options, expected, Infinity),
};

// {name, grade, options, weight} of an entry: a name, a function, or an object with one of them as `grader`.
function binding(entry) {
  const options = isRecord(entry) ? entry : {};
  const grader = isRecord(entry) ? entry.grader : entry;
  const weight = options.weight ?? 1;
  if (!(typeof weight === "number" && weight >= 0))
    throw new TypeError("hf.eval: the weight of a grader must be a number, not negative");
  if (typeof grader === "function") return { name: options.name ?? "inline", grade: grader, options, weight };
  if (typeof grader !== "string" || !(grader in graders)) throw new TypeError(`hf.eval: unknown grader '${String(grader)}'`);
  return { name: grader, grade: graders[grader], options, weight };
}

// All of a scenario: `graders` are names, `bind` entries with weights.
export function bindingsOf(scenario) {
  const found = [...listOf(scenario.graders), ...listOf(scenario.bind)].map(binding);
  return found.length ? found : [binding("exact_match")];
}

// From 0 to 1. A grader of the script's may give a number, or anything that is true or not.
export async function gradeOf({ grade, options }, answer) {
  const score = await grade(answer, options);
  if (typeof score !== "number") return score ? 1 : 0;
  return score > 1 ? 1 : score > 0 ? score : 0;
}
