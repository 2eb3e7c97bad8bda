// Branches: from here on several executions go on, each with one strategy, and the one that forked waits for all of them.
import { Error, isArray, String, TypeError } from "./language.js";
import { tool } from "./native.js";
import { failure, messageOf } from "./failure.js";
import { plain } from "./json.js";
import { bare, own } from "./records.js";
import { nameOf, runnerOf } from "./strategies.js";

const NAME = /^[A-Za-z][A-Za-z0-9_-]*$/;
const MODES = { __proto__: null, skip: "skip", abort: "abort", fail: "abort" };

function namesOf(strategies) {
  if (!isArray(strategies) || !strategies.length) throw new TypeError("hf.fork: strategies must be a non-empty array");
  return strategies.map((entry, index) => {
    if (typeof entry !== "function" && !(typeof entry === "string" && NAME.test(entry)))
      throw new TypeError(`hf.fork: invalid strategy name '${typeof entry === "symbol" ? "a symbol" : String(entry)}'`);
    return nameOf(entry, index);
  });
}

// Ends the execution: nobody answers this.
async function end(outcome) {
  await tool("holdfast.exit", bare(outcome));
  throw failure("EXIT_REFUSED", "the execution was to end here, and whoever runs it lets it go on");
}

// The host's errors speak of the library by its name in Lua.
async function ask(args) {
  try {
    return await tool("holdfast.fork", bare(args));
  } catch (error) {
    if (messageOf(error).startsWith("alc.")) error.message = error.message.replace("alc.", "hf.");
    throw error;
  }
}

async function branch(entry, ctx) {
  let outcome;
  try {
    const run = await runnerOf(entry, "hf.fork");
    outcome = { ok: true, value: plain(await run(ctx)) };
  } catch (error) {
    outcome = { ok: false, error: messageOf(error) };
  }
  return await end(outcome);
}

export async function fork(strategies, ctx, options) {
  const names = namesOf(strategies);
  const entries = [...strategies];
  const mode = MODES[options?.onError ?? "skip"];
  if (!mode) throw new TypeError("hf.fork: onError must be 'skip', 'abort' or 'fail'");
  const answer = await ask({ strategies: names, on_error: mode });
  const child = own(answer, "child");
  if (child !== undefined) return await branch(entries[child - 1], ctx);
  const results = own(answer, "results");
  if (!isArray(results)) throw failure("BAD_ANSWER", "hf.fork: the answer is not one to a fork");
  const failed = mode === "abort" && results.find((result) => !result.ok);
  if (failed) throw new Error(`hf.fork: strategy '${failed.strategy}' failed: ${failed.error}`);
  return results;
}

export const exit = async (value) => await end({ ok: true, value: plain(value) });
