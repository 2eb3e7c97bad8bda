// Each line after a mark is a mistake that the definitions find.

// @ts-expect-error: it is a promise
const early: string = hf.llm("x");
// @ts-expect-error: a text is no number
const number: number = await hf.llm("x");
// @ts-expect-error: a prompt is needed
await hf.llm();
// @ts-expect-error: wrong kind of an option
await hf.llm("x", { max_tokens: "many" });
// @ts-expect-error: an option that is not known
hf.chunk("x", { sise: 3 });
// @ts-expect-error: a name of Lua
hf.match_enum("x", ["y"]);
// @ts-expect-error: an option of Lua
await hf.fork(["x"], {}, { on_error: "skip" });
// @ts-expect-error: one of three words
await hf.fork(["x"], {}, { onError: "stop" });
// @ts-expect-error: the item is a number
await hf.map([1, 2], (item: string) => item);
// @ts-expect-error: what comes of it is a list of numbers
const texts: string[] = await hf.map([1, 2], (item) => item);
// @ts-expect-error: it may be nothing
const sure: string = hf.matchEnum("x", ["y"]);
// @ts-expect-error: a card needs a package
hf.card.create({ stats: {} });
// @ts-expect-error: it is no generator
hf.math.rngFloat({});
// @ts-expect-error: it is not there
hf.array([]);

export { early, number, texts, sure };
