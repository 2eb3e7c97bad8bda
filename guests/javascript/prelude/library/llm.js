// Asking models: for what fits a schema, and many at once.
import { hasOwn, isArray, isSafeInteger, min, TypeError } from "./language.js";
import { jsonExtract, parsed } from "./extract.js";
import { isRecord } from "./kinds.js";
import { jsonEncode, plain } from "./json.js";
import { llm, query } from "./native.js";
import { outward } from "./options.js";
import { bare } from "./records.js";
import { checked, mismatch, mismatchOf } from "./schema/index.js";

const RETRIES = 2;
const MOST_RETRIES = 100;
const SHOWN = 20_000; // characters of an answer, as the model is shown them again

// ---- what an answer says

function tried(value, schema) {
  const problem = mismatchOf(schema, value);
  return problem ? { problem } : { value };
}

// {value}, or {problem}. What is no text, or is JSON as a whole, is meant so; else the JSON in a text, or the text itself.
function read(answer, schema) {
  const whole = typeof answer === "string" ? parsed(answer) : plain(answer);
  if (whole !== undefined) return tried(whole, schema);
  const part = jsonExtract(answer);
  const found = part === null ? { problem: "$: there is no JSON in the answer" } : tried(part, schema);
  return hasOwn(found, "problem") && !mismatchOf(schema, answer) ? { value: answer } : found;
}

export function shown(answer) {
  const text = typeof answer === "string" ? answer : jsonEncode(answer);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)} [...]` : text;
}

const INSTRUCTION = "Answer again with JSON that fits the schema, and with nothing else.";

// The question once more, with what was answered and what is wrong with it.
function again(payload, answer, problem) {
  const told = `That answer does not fit the JSON schema: ${problem}\n${INSTRUCTION}`;
  if (isArray(payload.messages)) {
    const more = [{ role: "assistant", content: shown(answer) }, { role: "user", content: told }];
    return bare({ ...payload, messages: [...payload.messages, ...more] });
  }
  return bare({ ...payload, prompt: `${payload.prompt}\n\nYour previous answer was:\n${shown(answer)}\n\n${told}` });
}

// ---- questions

// One question. `left`: how often it may be asked again; `title` is for messages.
function questionOf(given, title) {
  const payload = bare(given);
  const question = { payload, title, left: 0 };
  if (payload.schema === undefined || payload.schema === null) return question;
  const retries = payload.retries ?? RETRIES;
  if (!isSafeInteger(retries) || retries < 0) throw new TypeError(`${title}: retries must be a whole number, not negative`);
  delete payload.retries;
  try {
    payload.schema = checked(payload.schema);
  } catch (error) {
    error.message = `${title}: ${error.message}`;
    throw error;
  }
  return { ...question, schema: payload.schema, left: min(retries, MOST_RETRIES), original: payload };
}

// When the time of a question is over, its default is the answer, whatever the schema says.
const isDefault = (answer, { default: usual }) => usual !== undefined && jsonEncode(answer) === jsonEncode(usual);

// {value}, or {next}: the question that is to be asked now.
function settle(question, answer) {
  if (!question.schema || isDefault(answer, question.payload)) return { value: answer };
  const found = read(answer, question.schema);
  if (hasOwn(found, "value")) return found;
  const { left, original, title } = question;
  if (!left) throw mismatch(title, found.problem);
  return { next: { ...question, left: left - 1, payload: again(original, answer, found.problem) } };
}

// Waits at once, so that an error that comes early is not taken for one that nobody expects.
async function outcome(promise) {
  try {
    return { value: await promise };
  } catch (error) {
    return { error, failed: true };
  }
}

// Asks all of them in one round, and in each further round those whose answers did not fit.
async function answersTo(questions) {
  const answers = [];
  let open = questions.map((question, index) => ({ question, index }));
  while (open.length) {
    const waiting = open.map(({ question }) => outcome(query("llm", question.payload)));
    const left = [];
    for (let i = 0; i < open.length; i++) {
      const { question, index } = open[i];
      const { value, error, failed } = await waiting[i];
      if (failed) throw error;
      const settled = settle(question, value);
      if (settled.next) left.push({ question: settled.next, index });
      else answers[index] = settled.value;
    }
    open = left;
  }
  return answers;
}

const only = async (question) => (await answersTo([question]))[0];

// Called for `llm` if there is a schema. The payload is a copy of what the script gave.
export const askModel = (payload) => only(questionOf(payload, "hf.llm"));

function itemOf(item, title) {
  const payload = typeof item === "string" ? { prompt: item } : isRecord(item) ? outward(item) : {};
  if (payload.prompt === undefined && payload.messages === undefined) throw new TypeError(`${title} needs a prompt`);
  return questionOf(payload, title);
}

export async function askAll(items, title) {
  if (!isArray(items)) throw new TypeError(`${title}: items must be an array`);
  if (!items.length) throw new TypeError(`${title}: empty items array`);
  return await answersTo([...items].map((item, index) => itemOf(item, `${title}: item ${index}`)));
}

export const llmBatch = async (items) => await askAll(items, "hf.llmBatch");

// ---- with a word for whoever answers

export const ground = async (claim, options) => await llm(claim, { ...options, grounded: true });

export const specify = async (prompt, options) => await llm(prompt, { ...options, underspecified: true });
