// A strategy tried on the cases of a scenario, one after the other, and graded.
import { isArray, keys, now, String, TypeError } from "../language.js";
import { card } from "../card.js";
import { failure, messageOf } from "../failure.js";
import { jsonEncode } from "../json.js";
import { isRecord, kindOf } from "../kinds.js";
import { importModule } from "../native.js";
import { own } from "../records.js";
import { runnerOf } from "../strategies.js";
import { bindingsOf, gradeOf } from "./graders.js";
import { reportOf } from "./report.js";

const FULL = 1 - 1e-6; // every grader with a weight says 1
const ANSWERS = ["answer", "summary", "output", "text"]; // where a strategy's result has its text

const wrong = (message) => new TypeError(`hf.eval: ${message}`);

// ---- the scenario

async function moduleOf(name) {
  let found;
  try {
    found = await importModule(name);
  } catch (error) {
    throw failure("SCENARIO_NOT_FOUND", `hf.eval: could not resolve scenario '${name}': ${messageOf(error)}`);
  }
  const scenario = found.default ?? found;
  if (!isRecord(scenario)) throw wrong(`scenario resolved to ${kindOf(scenario)}, expected object`);
  return scenario;
}

async function scenarioOf(given) {
  if (given === undefined || given === null) throw wrong("scenario is required");
  if (typeof given === "string") return await moduleOf(given);
  if (!isRecord(given)) throw wrong(`scenario must be a string or object, got ${kindOf(given)}`);
  return given;
}

function casesOf(scenario) {
  if (!isArray(scenario.cases)) throw wrong("scenario must have cases");
  return scenario.cases.map((given, i) => {
    if (!isRecord(given) || given.input === undefined) throw wrong(`case #${i + 1} must have an 'input' field`);
    return given;
  });
}

// ---- one case

// What a strategy has said: its result, or the usual field of it that is a text, or all of it as JSON.
function textOf(made) {
  const result = isRecord(made) ? (made.result ?? made) : made;
  if (typeof result === "string") return result;
  for (const name of ANSWERS) if (typeof own(result, name) === "string") return result[name];
  return result === undefined || result === null ? "" : jsonEncode(result);
}

async function answerOf(strategy, ctx) {
  try {
    const run = await runnerOf(strategy, "hf.eval");
    return { text: textOf(await run(ctx)) };
  } catch (error) {
    return { text: "", error: messageOf(error) };
  }
}

// Without what is not there.
function present(object) {
  for (const key of keys(object)) if (object[key] === undefined) delete object[key];
  return object;
}

async function resultOf(strategy, options, given, graders, index) {
  const { input, expected, name, tags } = given;
  const began = now();
  const { text, error } = await answerOf(strategy, { task: input, ...options });
  const elapsed_ms = now() - began;
  const marks = [];
  let [sum, weights] = [0, 0];
  for (const grader of graders) {
    const score = await gradeOf(grader, { text, case: given, input, expected, elapsed_ms });
    marks.push({ grader: grader.name, score, weight: grader.weight });
    sum += score * grader.weight;
    weights += grader.weight;
  }
  const score = error === undefined && weights > 0 ? sum / weights : 0;
  const own = typeof tags === "string" ? [tags] : isArray(tags) ? tags.map(String) : undefined;
  const grades = { score, passed: score >= FULL, graders: marks };
  return present({ index, name, input, expected, output: text, error, ...grades, elapsed_ms, tags: own });
}

// ---- the whole

function keep({ aggregated, results }, strategy, scenario, { strategyOpts, cardPkg }) {
  const { total, passed, pass_rate, scores } = aggregated;
  const made = card.create({
    pkg: { name: cardPkg ?? strategy },
    strategy: present({ name: strategy, params: strategyOpts }),
    scenario: { name: scenario, case_count: total },
    stats: { pass_rate, n: total, passed, mean_score: scores.mean, std_dev: scores.std_dev },
  });
  if (total) card.writeSamples(made.card_id, results);
  return made.card_id;
}

export async function evaluate(given, strategy, options) {
  const scenario = await scenarioOf(given);
  if (typeof strategy !== "string" || strategy.trim() === "") throw wrong("strategy must be a string package name");
  const { strategyOpts, autoCard } = options ?? {};
  if (strategyOpts !== undefined && !isRecord(strategyOpts)) throw wrong("strategyOpts must be an object");
  const graders = bindingsOf(scenario);
  const cases = casesOf(scenario);
  const title = String(own(scenario, "name") ?? (typeof given === "string" ? given : "inline"));
  const results = [];
  for (let i = 0; i < cases.length; i++) results.push(await resultOf(strategy, strategyOpts, cases[i], graders, i + 1));
  const report = reportOf(`${strategy}:${title}`, results);
  return autoCard === true ? { ...report, card_id: keep(report, strategy, title, options) } : report;
}
