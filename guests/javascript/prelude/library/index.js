// The object `hf`: what the bridge gave, and the library. Nothing can be added to it or changed in it afterwards.
import { freeze, values } from "./language.js";
import { budgetCheck, budgetRemaining, time } from "./budget.js";
import { cache, cacheClear, cacheInfo } from "./cache.js";
import { card } from "./card.js";
import { llmJson, llmSafe } from "./cautious.js";
import { evaluate } from "./eval/index.js";
import { jsonExtract } from "./extract.js";
import { exit, fork } from "./fork.js";
import { jsonDecode, jsonEncode } from "./json.js";
import { filter, map, reduce, vote } from "./lists.js";
import { askModel, ground, llmBatch, specify } from "./llm.js";
import { matchBool, matchEnum } from "./matching.js";
import { numbers } from "./native.js";
import { parallel } from "./parallel.js";
import { pipe } from "./pipe.js";
import { log, progress, stats } from "./saying.js";
import { state } from "./state.js";
import { chunk, fingerprint, parseNumber, parseScore } from "./text.js";
import { tuning } from "./tuning.js";

const library = {
  budgetCheck,
  budgetRemaining,
  cache,
  cacheClear,
  cacheInfo,
  card,
  chunk,
  eval: evaluate,
  exit,
  filter,
  fingerprint,
  fork,
  ground,
  jsonDecode,
  jsonEncode,
  jsonExtract,
  llmBatch,
  llmJson,
  llmSafe,
  log,
  map,
  matchBool,
  matchEnum,
  math: numbers,
  parallel,
  parseNumber,
  parseScore,
  pipe,
  progress,
  reduce,
  specify,
  state,
  stats,
  time,
  tuning,
  vote,
};

function freezeAll(object) {
  freeze(object);
  for (const value of values(object)) if (typeof value === "object" || typeof value === "function") freezeAll(value);
}

export { askModel };

export function addLibrary(hf) {
  Object.assign(hf, library);
  freezeAll(hf);
}
