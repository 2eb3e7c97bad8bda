// Tree of thoughts: think in small steps, try several at each, and go on with the best.
//
// Each try is a fork: a session of its own, with the memory that this one has at that moment, that asks, is answered, and ends. So a branch may
// ask as often as it likes without holding up the others, its questions and its figures are its own, and whoever looks at the run later finds
// every branch, also those that were given up.

export const meta = {
  name: "tree_of_thoughts",
  version: "1.0.0",
  description: "Several next steps at each step, each in a fork of its own; the best are gone on with",
  category: "exploration",
};

export const spec = {
  entries: {
    run: {
      input: {
        task: { type: "string", required: true, about: "the problem" },
        breadth: { type: "integer", default: 3, about: "how many next steps are tried for each way of thinking" },
        keep: { type: "integer", default: 2, about: "how many ways of thinking are gone on with" },
        depth: { type: "integer", default: 2, about: "how many steps a way of thinking has" },
      },
      result: {
        answer: { type: "string" },
        thoughts: { type: "array", about: "the steps that led to it" },
        score: { type: "integer", about: "that of the last step, from 1 to 10" },
        explored: { type: "integer", about: "how many steps were tried in all" },
      },
    },
  },
};

export const defaults = { breadth: 3, keep: 2, depth: 2 };

const soFar = (task, thoughts) =>
  [`Problem:\n${task}`, ...thoughts.map((thought, i) => `Step ${i + 1}:\n${thought}`)].join("\n\n");

// What a branch does: one more step, and what it is worth.
async function grown(task, thoughts, attempt) {
  const thought = await hf.llm(
    `${soFar(task, thoughts)}\n\nWrite the next step, in a few sentences. Do not solve the whole problem. ` +
      `(This is try ${attempt}: find a way of its own.)`,
  );
  const path = [...thoughts, thought];
  const verdict = await hf.llm(`${soFar(task, path)}\n\nHow promising is this, from 1 to 10? Give the number only.`);
  return { thoughts: path, score: hf.parseScore(verdict) };
}

export async function run(ctx) {
  if (!ctx.task) throw new Error("tree_of_thoughts: ctx.task is required");
  const { breadth, keep, depth } = hf.tuning(defaults, ctx);
  let ways = [{ thoughts: [], score: 0 }];
  let explored = 0;

  for (let step = 1; step <= depth; step++) {
    // A branch for each next step. Functions see the variables around them, in the fork as well.
    const attempts = Array.from({ length: breadth }, (_, i) => i + 1);
    const branches = ways.flatMap((way) => attempts.map((attempt) => () => grown(ctx.task, way.thoughts, attempt)));
    const ended = await hf.fork(branches, ctx);

    // A branch that fails is left out; if all do there is nothing to go on with.
    for (const one of ended) if (!one.ok) hf.log("warn", `a branch failed: ${one.error}`);
    const found = ended.filter((one) => one.ok).map((one) => one.result);
    if (!found.length) throw new Error(`tree_of_thoughts: no branch came to anything in step ${step}`);

    ways = found.sort((a, b) => b.score - a.score).slice(0, keep);
    explored += branches.length;
    hf.progress(step, depth, `the best of ${branches.length} has ${ways[0].score} of 10`);
  }

  const [best] = ways;
  const answer = await hf.llm(`${soFar(ctx.task, best.thoughts)}\n\nNow solve the problem along these steps. Give the answer only.`);
  ctx.result = { answer, thoughts: best.thoughts, score: best.score, explored };
  return ctx;
}
