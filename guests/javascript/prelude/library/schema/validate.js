// Whether a value fits a schema that was checked. The first thing that is wrong is told, with its path.
import { abs, hasOwn, isArray, isInteger, keys, Map, max, round } from "../language.js";
import { jsonEncode } from "../json.js";
import { kindOf } from "../kinds.js";
import { pattern } from "./keywords.js";
import { element, member } from "./path.js";
import { target } from "./refs.js";

const DEEPEST = 200; // schemas within each other, for one value

const isOf = (type, value) => type === kindOf(value) || (type === "integer" && isInteger(value));

function shown(value) {
  const text = jsonEncode(value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

// Of numbers with fractions the quotient is seldom exact.
function isMultiple(value, unit) {
  const times = value / unit;
  return abs(times - round(times)) <= 1e-9 * max(1, abs(times));
}

// What the schemas of one check share.
class Plan {
  patterns = new Map();
  depth = 0;

  constructor(root) {
    this.root = root;
  }

  matches(source, text) {
    if (!this.patterns.has(source)) this.patterns.set(source, pattern(source));
    return this.patterns.get(source).test(text);
  }
}

// Gives the first result of the checks that is something.
function first(items, check) {
  for (const item of items) {
    const wrong = check(item);
    if (wrong) return wrong;
  }
  return undefined;
}

// ---- by the kind of value. Each gives what is wrong, or undefined.

// Limits by minItems, maxItems and the like. `isAtLeast` says whether there are that many.
function counted(schema, name, isAtLeast, path, says) {
  const [least, most] = [`min${name}`, `max${name}`];
  if (hasOwn(schema, least) && !isAtLeast(schema[least])) return `${path}: must ${says("at least", schema[least])}`;
  if (hasOwn(schema, most) && isAtLeast(schema[most] + 1)) return `${path}: must ${says("at most", schema[most])}`;
  return undefined;
}

// Characters are one or two units each, and are counted only if that leaves a doubt.
function hasCharacters(text, least) {
  if (text.length < least || text.length >= 2 * least) return text.length >= least;
  return [...text].length >= least;
}

function text(schema, value, path, plan) {
  const wrong = counted(schema, "Length", (n) => hasCharacters(value, n), path, (bound, n) => `have ${bound} ${n} characters`);
  if (wrong) return wrong;
  return hasOwn(schema, "pattern") && !plan.matches(schema.pattern, value) && `${path}: must match ${schema.pattern}`;
}

const BOUNDS = [
  ["minimum", (value, bound) => value >= bound, "must be at least"],
  ["maximum", (value, bound) => value <= bound, "must be at most"],
  ["exclusiveMinimum", (value, bound) => value > bound, "must be above"],
  ["exclusiveMaximum", (value, bound) => value < bound, "must be below"],
  ["multipleOf", isMultiple, "must be a multiple of"],
];

function number(schema, value, path) {
  const broken = BOUNDS.find(([name, holds]) => hasOwn(schema, name) && !holds(value, schema[name]));
  return broken && `${path}: ${broken[2]} ${schema[broken[0]]}`;
}

function contained(schema, value, path, plan) {
  const count = value.filter((item) => fits(schema.contains, item, path, plan)).length;
  const limits = { minContains: 1, ...schema };
  return counted(limits, "Contains", (n) => count >= n, path, (bound, n) => `contain ${bound} ${n} item(s) that fit`);
}

function repeated(value, path) {
  const seen = new Map();
  return first(value.keys(), (index) => {
    const text = jsonEncode(value[index]);
    if (seen.has(text)) return `${path}: items ${seen.get(text)} and ${index} are equal`;
    return void seen.set(text, index);
  });
}

function array(schema, value, path, plan) {
  const leading = hasOwn(schema, "prefixItems") ? schema.prefixItems : [];
  const others = hasOwn(schema, "items") ? schema.items : true;
  const schemaOf = (index) => (index < leading.length ? leading[index] : others);
  return (
    counted(schema, "Items", (n) => value.length >= n, path, (bound, n) => `have ${bound} ${n} item(s)`) ||
    first(value.keys(), (index) => problem(schemaOf(index), value[index], element(path, index), plan)) ||
    (schema.uniqueItems === true && repeated(value, path)) ||
    (hasOwn(schema, "contains") && contained(schema, value, path, plan))
  );
}

const missing = (names, value, path, why = "") =>
  first(names, (name) => !hasOwn(value, name) && `${member(path, name)}: is required${why}`);

function needed(schema, value, path) {
  if (!hasOwn(schema, "dependentRequired")) return undefined;
  const present = keys(schema.dependentRequired).filter((name) => hasOwn(value, name));
  return first(present, (name) => missing(schema.dependentRequired[name], value, path, ` if there is ${name}`));
}

// The schemas that are for one property; false for one that is not allowed.
function schemasFor(schema, name, plan) {
  const found = hasOwn(schema, "properties") && hasOwn(schema.properties, name) ? [schema.properties[name]] : [];
  const patterns = hasOwn(schema, "patternProperties") ? schema.patternProperties : {};
  for (const source of keys(patterns)) if (plan.matches(source, name)) found.push(patterns[source]);
  if (found.length || !hasOwn(schema, "additionalProperties")) return found;
  return schema.additionalProperties && [schema.additionalProperties];
}

function property(schema, name, value, path, plan) {
  const wrong = hasOwn(schema, "propertyNames") && problem(schema.propertyNames, name, path, plan);
  if (wrong) return `${wrong} (as a name)`;
  const schemas = schemasFor(schema, name, plan);
  return schemas ? first(schemas, (each) => problem(each, value, path, plan)) : `${path}: is not known`;
}

function object(schema, value, path, plan) {
  const names = keys(value);
  return (
    counted(schema, "Properties", (n) => names.length >= n, path, (bound, n) => `have ${bound} ${n} properties`) ||
    missing(hasOwn(schema, "required") ? schema.required : [], value, path) ||
    needed(schema, value, path) ||
    first(names, (name) => property(schema, name, value[name], member(path, name), plan))
  );
}

const BY_KIND = { __proto__: null, string: text, number, array, object };

// ---- for all values

function typed(schema, value, path) {
  const types = isArray(schema.type) ? schema.type : [schema.type];
  return types.some((type) => isOf(type, value)) ? undefined : `${path}: expected ${types.join(" or ")}, got ${kindOf(value)}`;
}

function listed(schema, value, path) {
  const [single, several] = [hasOwn(schema, "const"), hasOwn(schema, "enum")];
  const text = single || several ? jsonEncode(value) : "";
  if (single && jsonEncode(schema.const) !== text) return `${path}: expected ${shown(schema.const)}`;
  return several && !schema.enum.some((item) => jsonEncode(item) === text) && `${path}: expected one of ${shown(schema.enum)}`;
}

function any(schemas, value, path, plan) {
  const wrong = schemas.map((each) => problem(each, value, path, plan));
  return wrong.every((each) => each) ? `${path}: fits none of the ${schemas.length} schemas of anyOf (${wrong[0]})` : undefined;
}

function one(schemas, value, path, plan) {
  const count = schemas.filter((each) => fits(each, value, path, plan)).length;
  return count === 1 ? undefined : `${path}: must fit exactly one of the ${schemas.length} schemas of oneOf, and fits ${count}`;
}

function chosen(schema, value, path, plan) {
  const branch = fits(schema.if, value, path, plan) ? "then" : "else";
  return hasOwn(schema, branch) ? problem(schema[branch], value, path, plan) : undefined;
}

const combined = (schema, value, path, plan) =>
  (hasOwn(schema, "$ref") && problem(target(plan.root, schema.$ref, path), value, path, plan)) ||
  (hasOwn(schema, "allOf") && first(schema.allOf, (each) => problem(each, value, path, plan))) ||
  (hasOwn(schema, "anyOf") && any(schema.anyOf, value, path, plan)) ||
  (hasOwn(schema, "oneOf") && one(schema.oneOf, value, path, plan)) ||
  (hasOwn(schema, "not") && fits(schema.not, value, path, plan) && `${path}: fits what it must not`) ||
  (hasOwn(schema, "if") && chosen(schema, value, path, plan));

const fits = (schema, value, path, plan) => !problem(schema, value, path, plan);

function problem(schema, value, path, plan) {
  if (schema === true) return undefined;
  if (schema === false) return `${path}: nothing is allowed here`;
  if (plan.depth === DEEPEST) return `${path}: is nested too deep`;
  plan.depth++;
  const wrong =
    (hasOwn(schema, "type") && typed(schema, value, path)) ||
    listed(schema, value, path) ||
    BY_KIND[kindOf(value)]?.(schema, value, path, plan) ||
    combined(schema, value, path, plan);
  plan.depth--;
  return wrong || undefined;
}

// What is wrong with a value, or undefined if it fits.
export const mismatchOf = (schema, value) => problem(schema, value, "$", new Plan(schema));
