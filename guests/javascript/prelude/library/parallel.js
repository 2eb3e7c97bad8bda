// One prompt for each item, all asked in one round.
import { isArray, TypeError } from "./language.js";
import { isRecord, kindOf } from "./kinds.js";
import { askAll } from "./llm.js";
import { outward } from "./options.js";

const wrong = (message) => new TypeError(`hf.parallel: ${message}`);

function requestOf(made, options, index) {
  if (typeof made === "string") return { ...options, prompt: made };
  if (!isRecord(made)) throw wrong(`promptFn must return string or object, got ${kindOf(made)} at index ${index}`);
  const isAsked = made.prompt !== undefined || made.messages !== undefined;
  if (!isAsked) throw wrong(`promptFn returned object without .prompt at index ${index}`);
  return made;
}

export async function parallel(items, promptFn, options) {
  if (!isArray(items) || !items.length) throw wrong("items must be a non-empty array");
  if (typeof promptFn !== "function") throw wrong("promptFn must be a function");
  const postFn = options?.postFn;
  if (postFn !== undefined && typeof postFn !== "function") throw wrong("postFn must be a function");
  const rest = outward(options, ["postFn"]);
  const given = [...items];
  const requests = [];
  for (let i = 0; i < given.length; i++) requests.push(requestOf(await promptFn(given[i], i), rest, i));
  const answers = await askAll(requests, "hf.parallel");
  if (!postFn) return answers;
  const results = [];
  for (let i = 0; i < answers.length; i++) results.push((await postFn(answers[i], given[i], i)) ?? null);
  return results;
}
