// A strategy that uses all kinds of functions as they are meant to be used.
interface Step {
  title: string;
}

const task: string = ctx.task;
const plain: string = await llm(task);
const detailed: string = await hf.llm([{ role: "user", content: task }], { max_tokens: 50, temperature: 0.2, cost_center: "x" });
const same: string = await hf.llm(task, { maxTokens: 50, timeoutMs: 1000 });
const plan: { steps: Step[] } = await hf.llm(task, { schema: { type: "object" }, retries: 1 });
const texts: string[] = await hf.llmBatch(["a", "b"]);
const mixed = await hf.llmBatch(["a", { prompt: "b", schema: { type: "array" } }]);
const [data, raw] = await hf.llmJson(task, { system: "JSON only." });
const cached: string = await hf.cache(task, { cacheKey: "k" });

const lengths: number[] = await hf.map(texts, (text, index) => text.length + index);
const later: number[] = await hf.map(texts, async (text) => (await hf.llm(text)).length);
const kept: string[] = await hf.filter(texts, async (text) => text !== (await ask("Which one?")));
const sum: number = await hf.reduce(lengths, (total, length) => total + length, 0);
const longest: string | null = await hf.reduce(texts, (one, other) => (one.length > other.length ? one : other));
const votes = hf.vote(texts);
const winner: string = votes.winner ?? "nobody";
const facts = await hf.parallel(["tea", "beer"], (drink) => `About ${drink}`, { postFn: (answer, drink, index) => [drink, answer, index] });

const verdict: string | null = hf.matchEnum(plain, ["yes", "no"], { threshold: 0.9 });
const clear: boolean | null = hf.matchBool(plain);
const pieces: string[] = hf.chunk(raw, { mode: "chars", size: 10, overlap: 2 });
const number: number | null = hf.parseNumber(plain, /= (\d+)/);

const branches = await hf.fork(["reflect", (given) => given.task], { task }, { onError: "abort" });
const failed = branches.filter((branch) => !branch.ok).map((branch) => branch.error);
const piped = await hf.pipe(["sc", async (given) => given], { task }, { onStage: (index, name) => hf.log("info", `${index} ${name}`) });
const { depth } = hf.tuning({ depth: 3 }, ctx);
const report = await hf.eval({ cases: [{ input: "2 + 2", expected: "4" }], graders: ["contains"] }, "sc", { autoCard: true });

hf.progress(1, 2);
hf.stats.record("depth", depth);
const left: number | null = hf.budgetRemaining()?.tokens ?? null;
const visits: number = hf.state.incr("visits");
const gone: boolean = hf.state.delete("visits");
const best: string = await hf.state.update("best", async (was) => `${was}!`, "none");
const card = hf.card.create({ pkg: { name: "tea" }, stats: { pass_rate: report.aggregated.pass_rate }, anything: 1 });
const cards = hf.card.find({ where: { stats: { pass_rate: { gte: 0.5 } } }, orderBy: ["-stats.pass_rate"], limit: 3 });
const depths: number[] = hf.card.lineage({ cardId: card.card_id, direction: "both" })?.nodes.map((node) => node.depth) ?? [];
const rng = hf.math.rngCreate(1);
const shuffled: string[] = hf.math.shuffle(rng, texts);
const { p_value } = hf.math.welchTTest([1, 2], [3, 4.5]);
await hf.sleep(1000);
if (!(await approve("Publish?", { timeout_ms: 1000, default: false }))) await hf.exit({ left, visits, gone, best });

export default {
  plan, detailed, same, mixed, data, cached, later, kept, sum, longest, winner, facts, verdict, clear, pieces, number, failed, piped, cards, depths, shuffled, p_value,
};
