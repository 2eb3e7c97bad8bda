// Strategies one after the other: the result of each is the task of the next.
import { isArray, String, TypeError } from "./language.js";
import { messageOf } from "./failure.js";
import { jsonEncode } from "./json.js";
import { isObject, isRecord, kindOf } from "./kinds.js";
import { log } from "./saying.js";
import { nameOf, runnerOf } from "./strategies.js";

const MODES = ["abort", "skip", "continue"];

const wrong = (message) => new TypeError(`hf.pipe: ${message}`);

const taskFrom = (result) => (isObject(result) ? jsonEncode(result) : String(result));

async function stage(run, name, ctx) {
  const made = await run(ctx);
  if (!isRecord(made)) throw wrong(`stage '${name}' must return an object, got ${kindOf(made)}`);
  return made;
}

export async function pipe(strategies, ctx, options) {
  const { onStage, onError = "abort" } = options ?? {};
  if (!isArray(strategies)) throw wrong("strategies must be an array");
  if (ctx !== undefined && ctx !== null && !isRecord(ctx)) throw wrong("ctx must be an object");
  if (!MODES.includes(onError)) throw wrong("onError must be 'abort', 'skip' or 'continue'");
  if (onStage !== undefined && typeof onStage !== "function") throw wrong("onStage must be a function");
  const entries = [...strategies];
  const history = [];
  let current = { ...ctx, pipe_history: history };
  for (let i = 0; i < entries.length; i++) {
    const name = nameOf(entries[i], i);
    const run = await runnerOf(entries[i], "hf.pipe");
    if (onStage) await onStage(i, name, current);
    try {
      current = await stage(run, name, current);
    } catch (error) {
      if (onError === "abort") throw error;
      log("warn", `hf.pipe: stage '${name}' failed: ${messageOf(error)}`);
      history.push({ strategy: name, error: messageOf(error) });
      continue;
    }
    const result = current.result ?? null;
    history.push({ strategy: name, result });
    current.pipe_history = history;
    if (i < entries.length - 1 && result !== null) current.task = taskFrom(result);
  }
  return current;
}
