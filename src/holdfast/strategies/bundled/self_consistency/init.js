// Self-consistency: ask the same question several times, and take the answer that comes most often.
//
// A model that thinks aloud goes wrong in many ways, and right in few: what several attempts agree on is more often right than any one of
// them. The attempts do not know of each other, so all of them are asked in one round.

export const meta = {
  name: "self_consistency",
  version: "1.0.0",
  description: "Several independent attempts in one round; the most frequent answer wins",
  category: "aggregation",
};

export const spec = {
  entries: {
    run: {
      input: {
        task: { type: "string", required: true, about: "the question" },
        n: { type: "integer", default: 5, about: "how many attempts" },
        temperature: { type: "number", default: 0.8, about: "for whoever answers: attempts should differ" },
        extract: { type: "string", default: "", about: "if given, a second round that asks this of each attempt" },
      },
      result: {
        answer: { type: "string", about: "what most attempts say" },
        count: { type: "integer", about: "how many say so" },
        total: { type: "integer" },
        attempts: { type: "array", about: "each with its `text` and its `answer`" },
      },
    },
  },
};

export const defaults = { n: 5, temperature: 0.8, extract: "" };

const SYSTEM = 'Think step by step. End with a line that begins with "Answer:" and has nothing but the answer after it.';

// What comes after the last "Answer:", else the last line; without quotes, stars and full stops around it.
function answerIn(text) {
  const parts = text.split(/[Aa]nswer:/);
  const lines = parts.at(-1).trim().split("\n");
  const line = parts.length > 1 ? lines[0] : lines.at(-1);
  return line.replace(/^[\s*`"']+/, "").replace(/[\s*`"'.]+$/, "");
}

export async function run(ctx) {
  if (!ctx.task) throw new Error("self_consistency: ctx.task is required");
  const { n, temperature, extract } = hf.tuning(defaults, ctx);
  if (!Number.isInteger(n) || n < 1) throw new Error("self_consistency: n must be a whole number, 1 or more");

  // One round: whoever answers gets all prompts at once.
  const numbers = Array.from({ length: n }, (_, i) => i + 1);
  const prompt = (i) => `${ctx.task}\n\n(Attempt ${i} of ${n}: think it through on your own.)`;
  const texts = await hf.parallel(numbers, prompt, { system: SYSTEM, temperature });

  // The answers are in the texts, or are asked for in a second round.
  const answers = extract ? await hf.parallel(texts, (text) => `${extract}\n\n${text}`) : texts.map(answerIn);

  // Votes are counted without regard to case, and the winner is shown as it was first written.
  const votes = answers.map((answer) => answer.trim().toLowerCase());
  const { winner, count, total } = hf.vote(votes);

  hf.log("info", `${count} of ${total} attempts agree`);
  const attempts = texts.map((text, i) => ({ text, answer: answers[i] }));
  ctx.result = { answer: answers[votes.indexOf(winner)], count, total, attempts };
  return ctx;
}
