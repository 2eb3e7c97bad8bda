// Reflect: write a draft, let a critic look at it, and write it again, until the critic is content.
//
// Each step needs the one before it, so there is one question a round. The critic gives a score first and its reasons after it: a model that
// has to say a number is harder to please than one that is asked whether it likes what it sees.

export const meta = {
  name: "reflect",
  version: "1.0.0",
  description: "A draft, a critique and a revision, again and again until it is good enough",
  category: "refinement",
};

export const spec = {
  entries: {
    run: {
      input: {
        task: { type: "string", required: true, about: "what is to be written" },
        rounds: { type: "integer", default: 3, about: "how many critiques at most" },
        good: { type: "integer", default: 8, about: "the score, from 1 to 10, that is good enough" },
      },
      result: {
        answer: { type: "string", about: "the best version" },
        score: { type: "integer", about: "what the critic gave it" },
        good: { type: "boolean", about: "whether that was good enough" },
        history: { type: "array", about: "each version with its `score` and `critique`" },
      },
    },
  },
};

export const defaults = { rounds: 3, good: 8 };

const CRITIC = "You are a strict reviewer. Praise nothing. Say what is wrong, missing or unclear, and how it would be better.";

const criticised = (task, draft) =>
  hf.llm(
    `Task:\n${task}\n\nDraft:\n${draft}\n\n` +
      "On the first line give a score from 1 to 10, and nothing else. Then say what has to change.",
    { system: CRITIC },
  );

const revised = (task, draft, critique) =>
  hf.llm(
    `Task:\n${task}\n\nDraft:\n${draft}\n\nCritique:\n${critique}\n\n` +
      "Write it again so that the critique does not hold any more. Give the new version only.",
  );

export async function run(ctx) {
  if (!ctx.task) throw new Error("reflect: ctx.task is required");
  const { rounds, good } = hf.tuning(defaults, ctx);
  const history = [];
  let best;
  let text = await hf.llm(ctx.task);

  for (let round = 1; round <= rounds; round++) {
    hf.progress(round, rounds, `critique ${round}`);
    const critique = await criticised(ctx.task, text);
    const version = { text, score: hf.parseScore(critique), critique };
    history.push(version);
    if (!best || version.score > best.score) best = version;
    if (version.score >= good) break;
    // Another revision is worth its price only if somebody can look at it.
    if (round === rounds || !hf.budgetCheck()) break;
    hf.log("info", `round ${round}: ${version.score} of 10, not good enough`);
    text = await revised(ctx.task, text, critique);
  }

  best ??= { text, score: null };
  ctx.result = { answer: best.text, score: best.score, good: best.score !== null && best.score >= good, history };
  return ctx;
}
