// Asking models that may fail.
import { jsonExtract } from "./extract.js";
import { messageOf } from "./failure.js";
import { jsonEncode } from "./json.js";
import { isObject } from "./kinds.js";
import { shown } from "./llm.js";
import { llm } from "./native.js";
import { log } from "./saying.js";

export async function llmSafe(prompt, options, fallback) {
  try {
    return await llm(prompt, options);
  } catch (error) {
    log("warn", `hf.llmSafe: ${messageOf(error)}`);
    return fallback ?? null;
  }
}

const ONLY_JSON = "You answer with valid JSON and with nothing else: no explanation, no code fence.";

const retry = (output, request) =>
  `There is no valid JSON in this output:\n\n${output}\n\nThe original request was:\n\n${request}\n\n` +
  "Answer it again, with valid JSON only.";

const read = (answer) => (isObject(answer) ? [answer, jsonEncode(answer)] : [jsonExtract(answer), answer]);

// [value, raw]; the value is null if there was no JSON, also when asked a second time.
export async function llmJson(prompt, options) {
  const first = read(await llm(prompt, options));
  if (first[0] !== null) return first;
  log("warn", "hf.llmJson: there is no JSON in the answer, asking once more");
  const request = typeof prompt === "string" ? prompt : jsonEncode(prompt);
  const second = read(await llm(retry(shown(first[1]), request), { ...options, system: ONLY_JSON }));
  if (second[0] === null) log("warn", "hf.llmJson: there is no JSON in the second answer either");
  return second;
}
