// Cards: functions of the host, if it grants them.
import { call } from "./native.js";
import { outward } from "./options.js";
import { put } from "./records.js";

// What the host calls them, and which argument is options.
const FUNCTIONS = {
  create: ["create"],
  get: ["get"],
  list: ["list", 0],
  append: ["append"],
  getByAlias: ["get_by_alias"],
  aliasSet: ["alias_set", 2],
  aliasList: ["alias_list", 0],
  find: ["find", 0],
  writeSamples: ["write_samples"],
  readSamples: ["read_samples", 1],
  lineage: ["lineage", 0],
  sinkBackfill: ["sink_backfill", 0],
};

const calling = (name, place) => (...args) => {
  if (args[place] !== undefined && args[place] !== null) args[place] = outward(args[place]);
  return call(`card.${name}`, ...args) ?? null;
};

export const card = {};
for (const [name, [called, place]] of Object.entries(FUNCTIONS)) put(card, name, calling(called, place));
