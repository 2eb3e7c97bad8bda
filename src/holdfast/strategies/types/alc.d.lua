---@meta
---The script library of Holdfast. This file is for editors, it is never run. `hf` is another name of `alc`.

---What a strategy is given.
---@type table<string, any>
ctx = {}

---@class alc
alc = {}
hf = alc

---Values by key that outlive the run, if the template grants the module `state`.
---@class alc.state
alc.state = {}

---Figures of the run.
---@class alc.stats
alc.stats = {}

---Results that are kept for good, if the template grants the module `card`.
---@class alc.card
alc.card = {}

---Random numbers, statistics and special functions.
---@class alc.math
alc.math = {}

---A message of a conversation.
---@class alc.Message
---@field role string Whose it is: `system`, `user`, `assistant`.
---@field content any What it says.
---@field [string] any

---What whoever answers is told. Others than these are passed on as well.
---@class alc.LlmOptions
---@field system? string The system prompt.
---@field max_tokens? integer How long the answer may be; 1,024 if it is left out.
---@field temperature? number How much is left to chance.
---@field model? string Which model is wanted.
---@field role? string Which of several models or people is wanted.
---@field stop? string|string[] Where the answer ends.
---@field grounded? boolean The answer should rest on evidence.
---@field underspecified? boolean The prompt leaves something open.
---@field timeout_ms? integer How long is waited for the answer.
---@field default? any What the answer is if nobody has answered in time. Without it that is an error.
---@field [string] any

---All of a request: options, with a prompt or messages.
---@class alc.LlmRequest : alc.LlmOptions
---@field prompt? string What is asked.
---@field messages? alc.Message[] A conversation, instead.
---@field [string] any

---Options of `llm` with a schema.
---@class alc.SchemaOptions : alc.LlmOptions
---@field schema table<string, any> A JSON Schema that the answer must fit. If it does not, the model is asked again with what is wrong.
---@field retries? integer How often it is asked again, by default 2. Then it is `SCHEMA_MISMATCH`.
---@field [string] any

---All of a request, with a schema.
---@class alc.SchemaRequest : alc.SchemaOptions
---@field prompt? string What is asked.
---@field messages? alc.Message[] A conversation, instead.
---@field [string] any

---A question to a person.
---@class alc.Question
---@field question? string What is asked.
---@field options? any[] What to choose from.
---@field timeout_ms? integer How long is waited for the answer.
---@field default? any What the answer is if nobody has answered in time.
---@field [string] any

---How long a tool is waited for.
---@class alc.ToolOptions
---@field timeout_ms? integer How long is waited for it.
---@field default? any What it gives if its time is up.
---@field [string] any

---One of several queries.
---@class alc.QueryItem
---@field kind string Such as `llm`, `ask`, `approve`, `tool`.
---@field payload? any What is asked.

---Options of `cache`.
---@class alc.CacheOptions : alc.LlmOptions
---@field cache_key? string By which the answer is found again, instead of prompt and options.
---@field cache_skip? boolean Asks in any case, and keeps nothing.
---@field [string] any

---How the cache is used.
---@class alc.CacheInfo
---@field entries integer How many answers are kept.
---@field hits integer How often one was found.
---@field misses integer How often it was not.
---@field max_entries integer How many are kept at most.

---Options of `parallel`.
---@class alc.ParallelOptions : alc.LlmOptions
---@field post_fn? fun(answer: any, item: any, index: integer): any Makes something of each answer.
---@field [string] any

---How a vote ended.
---@class alc.VoteResult
---@field winner string|nil What most said; nothing if nobody voted.
---@field count integer How many said it.
---@field total integer How many voted.

---Options of `match_enum`.
---@class alc.MatchOptions
---@field threshold? number How alike a word must be, from 0 to 1; by default 0.7.

---Options of `chunk`.
---@class alc.ChunkOptions
---@field mode? "lines"|"chars" What is counted; by default lines.
---@field size? integer How many are in a piece; by default 50.
---@field overlap? integer How many of them are also in the piece before; by default none.

---Options of `fork`.
---@class alc.ForkOptions
---@field on_error? "skip"|"abort"|"fail" `abort`, and `fail`: one that fails ends all, and raises. By default it is only shown.

---What came of a branch.
---@class alc.ForkResult
---@field strategy string Its name; `(inline-1)` if it is a function.
---@field ok boolean Whether it ended well.
---@field result? any What it gave.
---@field error? string Why it failed.

---Options of `pipe`.
---@class alc.PipeOptions
---@field on_stage? fun(index: integer, name: string, ctx: table<string, any>): any Is called before each.
---@field on_error? "abort"|"skip"|"continue" `skip`, and `continue`: one that fails is noted, and the next one has the same ctx. By default it raises.

---Options of `tuning`.
---@class alc.TuningOptions
---@field prefix? string Where in ctx the settings are, if they are there.

---Cases, and how answers are graded.
---@class alc.Scenario
---@field name? string What it is called; `inline` if it is left out.
---@field cases alc.Case[] What the strategy is given, and what is expected.
---@field graders? (string|alc.Grader)[] By default `exact_match`. Others: `contains`, `starts_with`, `regex`, `flexible_match`, `json_valid`, `valid_json_response`, `not_empty`, `length`, `latency`.
---@field bind? alc.Grader[] The same, with weights.
---@field [string] any

---One case of a scenario.
---@class alc.Case
---@field input any The task.
---@field expected? any What graders compare the answer to. A list: any of it.
---@field name? string What it is called.
---@field tags? string[] By which results are summed up.
---@field [string] any

---A grader, and how much it counts.
---@class alc.Grader
---@field grader any Its name, or a function of the text and what is expected, which gives true, false, or a number from 0 to 1.
---@field weight? number By default 1.
---@field [string] any

---Options of `eval`.
---@class alc.EvalOptions
---@field strategy_opts? table<string, any> What the strategy finds in ctx besides the task.
---@field auto_card? boolean Whether the report is kept as a card, with all cases as its samples.
---@field card_pkg? string The package of that card; by default the strategy.

---How well a strategy did.
---@class alc.Report
---@field name string The strategy and the scenario.
---@field aggregated table<string, any> `total`, `passed`, `pass_rate`, `pass_at_1`, `scores`, `ci_95`, `by_tag`.
---@field failures table<string, any>[] The cases that did not pass.
---@field results table<string, any>[] All cases.
---@field summary string One line.
---@field card_id? string The card that was made.
---@field [string] any

---What is left; what has no limit is nothing.
---@class alc.BudgetRemaining
---@field llm_calls integer|nil How many calls.
---@field elapsed_ms integer|nil How much time.
---@field tokens integer|nil How many tokens.

---How long a value is kept.
---@class alc.StateOptions
---@field ttl_ms? number Milliseconds; without it, for good.

---A card to be made. It may have any other fields; nulls are left out.
---@class alc.NewCard
---@field pkg alc.PackageName Whose it is.
---@field card_id? string Its id, if it is to have a certain one.
---@field params? table<string, any> What it was made with: `param_fingerprint` is of these.
---@field model? table<string, any> `id` is part of the card's id.
---@field scenario? table<string, any> `name` is shown in lists.
---@field stats? table<string, any> `pass_rate` is shown in lists.
---@field metadata? table<string, any> `prior_card_id` and `prior_relation` are its lineage.
---@field [string] any

---A package, by its name.
---@class alc.PackageName
---@field name string Without slashes and `..`.
---@field [string] any

---A card.
---@class alc.Card : alc.NewCard
---@field card_id string `{pkg}_{model}_{time}_{hash}`, unless it was given.
---@field schema_version string `card/v0`.
---@field created_at string When it was made, as `2026-01-31T12:00:00Z`.
---@field created_by string `holdfast@` and the version.
---@field param_fingerprint? string The same for the same `params`.
---@field [string] any

---A new card.
---@class alc.CardCreated
---@field card_id string Its id.
---@field path string `cards/{pkg}/{card_id}`: a name, no file.

---What lists show of a card.
---@class alc.CardSummary
---@field card_id string Its id.
---@field pkg string Its package.
---@field created_at? string When it was made.
---@field model? string `model.id`.
---@field scenario? string `scenario.name`.
---@field pass_rate? number `stats.pass_rate`.

---Which are listed.
---@class alc.CardListOptions
---@field pkg? string Only those of this package.

---Which cards are looked for.
---@class alc.CardFindOptions
---@field pkg? string Only those of this package.
---@field where? table<string, any> A filter.
---@field order_by? string|string[] Paths such as `stats.pass_rate`; with `-` before it the other way round. By default newest first.
---@field limit? integer How many at most.
---@field offset? integer How many are left out before.

---What an alias says besides.
---@class alc.AliasOptions
---@field pkg? string A package, by which aliases are listed.
---@field note? string Why.

---A name of a card.
---@class alc.Alias
---@field name string The alias.
---@field card_id string Its card.
---@field pkg? string As it was given.
---@field set_at string When it was set.
---@field note? string As it was given.

---Samples that are kept.
---@class alc.SamplesWritten
---@field path string A name, no file.
---@field count integer How many.

---Which samples are read.
---@class alc.SampleOptions
---@field offset? integer How many are left out before.
---@field limit? integer How many at most.
---@field where? table<string, any> A filter; it comes before the other two.

---Which relatives of a card are looked for.
---@class alc.LineageOptions
---@field card_id string The card.
---@field direction? "up"|"down"|"both" Up is to what it came from, which is the default.
---@field depth? integer How many steps at most; by default 10.
---@field include_stats? boolean Whether nodes have their `stats`; by default they have.
---@field relation_filter? string[] Only such steps are gone.

---A card and its relatives.
---@class alc.Lineage
---@field root string The card.
---@field nodes alc.LineageNode[] It and its relatives, the nearest first.
---@field edges alc.LineageEdge[] From each to what it came from.
---@field truncated boolean Whether there are more beyond the depth.

---A card among relatives.
---@class alc.LineageNode
---@field card_id string Its id.
---@field pkg string Its package.
---@field depth integer How many steps away: below 0 for what was before.
---@field prior_card_id? string What it came from.
---@field prior_relation? string How.
---@field stats? table<string, any> Its figures.

---A step.
---@class alc.LineageEdge
---@field from string The later card.
---@field to string The one before.
---@field relation? string How they are related.

---What algocline copies elsewhere.
---@class alc.BackfillOptions
---@field sink string Where to.
---@field dry_run? boolean Whether it is only tried.

---A generator of random numbers.
---@class alc.Rng

---How values are distributed.
---@class alc.Histogram
---@field counts integer[] How many are in each bin.
---@field edges number[] Where bins begin, and where the last one ends.

---An interval of confidence.
---@class alc.Interval
---@field lower number Where it begins.
---@field upper number Where it ends.
---@field center number Its middle.

---What came of a t-test.
---@class alc.WelchTest
---@field t_stat number t.
---@field df number Degrees of freedom.
---@field p_value number On both sides.

---Corrections.
---@class alc.MannWhitneyOptions
---@field continuity_correction? boolean By default it is made.
---@field tie_correction? boolean By default it is made.

---What came of a U test.
---@class alc.MannWhitneyTest
---@field u_stat number U.
---@field z_score number By the normal approximation.
---@field p_value number On both sides.

---What came of a chi-squared test.
---@class alc.ChiSquaredTest
---@field chi2_stat number The statistic.
---@field df number Degrees of freedom.
---@field p_value number How likely that or more is.

---What came of a Kolmogorov-Smirnov test.
---@class alc.KsTest
---@field d_stat number The largest distance.
---@field p_value number On both sides.

---Asks a model. With a `schema` it gives the value that fits it.
---@param prompt string|alc.Message[]|alc.LlmRequest
---@param options? alc.LlmOptions
---@return string
---@overload fun(prompt: string|alc.Message[]|alc.LlmRequest, options: alc.SchemaOptions): any
---@overload fun(prompt: alc.SchemaRequest): any
function alc.llm(prompt, options) end

---Asks several at once, in one round, and gives the answers in the order of the items.
---@param items (string|alc.LlmRequest|alc.SchemaRequest)[]
---@return any[]
---@overload fun(items: string[]): string[]
function alc.llm_batch(items) end

---Asks a person.
---@param question string|alc.Question
---@param options? alc.Question
---@return any
function alc.ask(question, options) end

---Asks a person for consent.
---@param question string|alc.Question
---@param options? alc.Question
---@return any
function alc.approve(question, options) end

---Waits for a time, durably: also over restarts, and for months.
---@param ms number
function alc.sleep(ms) end

---Calls a tool of the host, or asks somebody to do so.
---@param name string
---@param args? any
---@param options? alc.ToolOptions
---@return any
function alc.tool(name, args, options) end

---Asks anything: the kind and payload of a query, as the functions above make them.
---@param kind string
---@param payload? any
---@return any
function alc.query(kind, payload) end

---Asks several things at once. In JavaScript that is `Promise.all`.
---@param items alc.QueryItem[]
---@return any[]
function alc.query_batch(items) end

---The answer, or the default if it fails, which is logged as a warning.
---@param prompt string|alc.Message[]|alc.LlmRequest
---@param options? alc.LlmOptions
---@param default? any
---@return any
function alc.llm_safe(prompt, options, default) end

---The JSON in the answer, and the answer itself. If there is none it asks once more, and then gives nothing for the JSON. In JavaScript both are a list of two.
---@param prompt string|alc.Message[]|alc.LlmRequest
---@param options? alc.LlmOptions
---@return table<string, any>|any[]|nil
---@return any
function alc.llm_json(prompt, options) end

---As `llm`, but what was asked before with the same prompt and options is not asked again. The cache is the session's, and keeps 256 answers.
---@param prompt string|alc.Message[]|alc.LlmRequest
---@param options? alc.CacheOptions
---@return any
function alc.cache(prompt, options) end

---How the cache is used.
---@return alc.CacheInfo
function alc.cache_info() end

---Empties the cache and sets its counters to 0.
function alc.cache_clear() end

---As `llm`, with `grounded`: whoever answers should look at evidence, not only remember.
---@param claim string|alc.Message[]|alc.LlmRequest
---@param options? alc.LlmOptions
---@return any
function alc.ground(claim, options) end

---As `llm`, with `underspecified`: whoever answers should settle what the prompt leaves open.
---@param prompt string|alc.Message[]|alc.LlmRequest
---@param options? alc.LlmOptions
---@return any
function alc.specify(prompt, options) end

---One prompt for each item, all asked in one round. Options hold for prompts that are texts; a table is taken as it is.
---@generic T
---@param items T[]
---@param prompt_fn fun(item: T, index: integer): string|alc.LlmRequest
---@param options? alc.ParallelOptions
---@return any[]
function alc.parallel(items, prompt_fn, options) end

---What the function gives for each item, one after the other.
---@generic T, U
---@param items T[]
---@param fn fun(item: T, index: integer): U
---@return U[]
function alc.map(items, fn) end

---The items for which the function gives something true.
---@generic T
---@param items T[]
---@param fn fun(item: T, index: integer): any
---@return T[]
function alc.filter(items, fn) end

---One value of all items. Without `init` it begins with the first item; of no items it is nothing.
---@generic T, U
---@param items T[]
---@param fn fun(acc: U, item: T, index: integer): U
---@param init U
---@return U
---@overload fun(items: T[], fn: fun(acc: T, item: T, index: integer): T): T|nil
function alc.reduce(items, fn, init) end

---What most say, without white space around it. Of several with as many votes it is the one that came first.
---@param answers any[]
---@return alc.VoteResult
function alc.vote(answers) end

---Which of the candidates the text names, in any case; of several the one that is named last. If it names none, the one that a word of it is most like.
---@param text string
---@param candidates string[]
---@param options? alc.MatchOptions
---@return string|nil
function alc.match_enum(text, candidates, options) end

---Yes or no: what the last word says that means one of both, such as `approved`, `lgtm`, `rejected`, `no`.
---@param text string
---@return boolean|nil
function alc.match_bool(text) end

---The first whole number in the text, from 1 to 10; the default if there is none.
---@param text any
---@param default? any 5 if it is left out
---@return any
function alc.parse_score(text, default) end

---The first number in the text; with a pattern what that captures. A pattern is one of the language: of Lua, or a regular expression.
---@param text any
---@param pattern? string
---@return number|nil
function alc.parse_number(text, pattern) end

---The object or list in a text: the text itself, a fenced block, or the first one that is whole.
---@param raw any
---@return table<string, any>|any[]|nil
function alc.json_extract(raw) end

---A value as JSON, with keys in order. A table of Lua that is empty is an object, unless it is marked by `array`. Raises for what has no form there.
---@param value any
---@return string
function alc.json_encode(value) end

---The value of a JSON text. Raises if it is none. In Lua null is `alc.null` within tables, and nil by itself.
---@param text string
---@return any
function alc.json_decode(text) end

---Eight hexadecimal digits of a text, whatever its case and white space: to tell texts apart, not to keep secrets.
---@param value any
---@return string
function alc.fingerprint(value) end

---A text cut into pieces of lines or characters, which may overlap.
---@param text string
---@param options? alc.ChunkOptions
---@return string[]
function alc.chunk(text, options) end

---JSON's null, for where a table needs a value.
---@type any
alc.null = nil

---Marks a table as a list, so that it is one in JSON also if it is empty.
---@generic T
---@param items? T[]
---@return T[]
function alc.array(items) end

---Runs several from here on, each in a session of its own that is a real fork of this one, and waits for all of them.
---@param strategies (string|(fun(ctx: any): any))[]
---@param ctx any
---@param options? alc.ForkOptions
---@return alc.ForkResult[]
function alc.fork(strategies, ctx, options) end

---Runs several one after the other. The `result` of each is the `task` of the next; `pipe_history` has all of them.
---@param strategies (string|(fun(ctx: any): any))[]
---@param ctx any
---@param options? alc.PipeOptions
---@return table<string, any>
function alc.pipe(strategies, ctx, options) end

---The defaults with what ctx says otherwise: tables are merged, lists are replaced, and what is no default is left out.
---@generic T
---@param defaults T
---@param ctx any
---@param options? alc.TuningOptions
---@return T
function alc.tuning(defaults, ctx, options) end

---How well a strategy does on the cases of a scenario.
---@param scenario string|alc.Scenario
---@param strategy string
---@param options? alc.EvalOptions
---@return alc.Report
function alc.eval(scenario, strategy, options) end

---Ends the execution with a value. It does not come back.
---@param value? any
function alc.exit(value) end

---A line of the log. Levels are `error`, `warn`, `info` and `debug`; others are kept as they are.
---@param level string
---@param message any
function alc.log(level, message) end

---How far the run is.
---@param step integer
---@param total integer
---@param message? any
function alc.progress(step, total, message) end

---Records a figure of the run, which is among the stats of its reply.
---@param key string
---@param value any
function alc.stats.record(key, value) end

---A figure that this execution has recorded.
---@param key string
---@return any
function alc.stats.get(key) end

---Seconds since 1970, with a fraction. Within a step it stands still, but for the time that calls of the host take.
---@return number
function alc.time() end

---What is left of the budget; nothing if there is none.
---@return alc.BudgetRemaining|nil
function alc.budget_remaining() end

---Whether something is left of each limit of the budget. True if there is none.
---@return boolean
function alc.budget_check() end

---Calls a function of the host that the template grants, within the step.
---@param name string
---@param ... any
---@return any
function alc.call(name, ...) end

---The value of a key, or the default.
---@param key string
---@param default? any
---@return any
function alc.state.get(key, default) end

---Sets a key.
---@param key string
---@param value any
---@param options? alc.StateOptions
function alc.state.set(key, value, options) end

---The keys that begin with the prefix, or all, in order.
---@param prefix? string
---@return string[]
function alc.state.keys(prefix) end

---Removes a key, and says whether it was there.
---@param key string
---@return boolean
function alc.state.delete(key) end

---Whether there is such a key.
---@param key string
---@return boolean
function alc.state.has(key) end

---Sets a key unless it is there, and says whether it did.
---@param key string
---@param value any
---@param options? alc.StateOptions
---@return boolean
function alc.state.set_nx(key, value, options) end

---Adds to a number, and gives the sum.
---@param key string
---@param delta? number 1 if it is left out
---@param default? number 0 if it is left out
---@return number
function alc.state.incr(key, delta, default) end

---Sets a key if its value is the expected one, and says whether it did. Nothing stands for no value.
---@param key string
---@param expected any
---@param value any
---@param options? alc.StateOptions
---@return boolean
function alc.state.compare_and_set(key, expected, value, options) end

---Replaces a value by what the function makes of it, also if that asks and waits: if the key has changed meanwhile it is called again.
---@param key string
---@param fn fun(current: any): any
---@param default? any
---@return any
function alc.state.update(key, fn, default) end

---Keeps a new card. What is missing is filled in: its id, the time, who made it.
---@param card alc.NewCard
---@return alc.CardCreated
function alc.card.create(card) end

---A card.
---@param card_id string
---@return alc.Card|nil
function alc.card.get(card_id) end

---All cards, newest first.
---@param options? alc.CardListOptions
---@return alc.CardSummary[]
function alc.card.list(options) end

---Adds fields that the card has not yet.
---@param card_id string
---@param fields table<string, any>
---@return alc.Card
function alc.card.append(card_id, fields) end

---The card that an alias names.
---@param name string
---@return alc.Card|nil
function alc.card.get_by_alias(name) end

---Names a card. An alias may be set again.
---@param name string
---@param card_id string
---@param options? alc.AliasOptions
---@return alc.Alias
function alc.card.alias_set(name, card_id, options) end

---All aliases, by name.
---@param options? alc.CardListOptions
---@return alc.Alias[]
function alc.card.alias_list(options) end

---The cards that a filter means, in an order.
---@param options? alc.CardFindOptions
---@return alc.CardSummary[]
function alc.card.find(options) end

---Keeps the single cases behind a card, once.
---@param card_id string
---@param samples any[]
---@return alc.SamplesWritten
function alc.card.write_samples(card_id, samples) end

---The cases behind a card, or some of them.
---@param card_id string
---@param options? alc.SampleOptions
---@return any[]
function alc.card.read_samples(card_id, options) end

---What a card came from, and what came from it.
---@param options alc.LineageOptions
---@return alc.Lineage|nil
function alc.card.lineage(options) end

---Raises `CARD_SINKS_NONE`: there are no sinks. The host exports cards.
---@param options alc.BackfillOptions
function alc.card.sink_backfill(options) end

---A new generator.
---@param seed integer
---@return alc.Rng
function alc.math.rng_create(seed) end

---A number from 0 to 1, without 1.
---@param rng alc.Rng
---@return number
function alc.math.rng_float(rng) end

---A whole number, both bounds included.
---@param rng alc.Rng
---@param min integer
---@param max integer
---@return integer
function alc.math.rng_int(rng, min, max) end

---Brings a list into a random order, in place, and gives it.
---@generic T
---@param rng alc.Rng
---@param values T[]
---@return T[]
function alc.math.shuffle(rng, values) end

---So many items of a list, each of which may come more than once.
---@generic T
---@param rng alc.Rng
---@param values T[]
---@param n integer
---@return T[]
function alc.math.sample_with_replacement(rng, values, n) end

---Of the normal distribution.
---@param rng alc.Rng
---@param mean number
---@param stddev number
---@return number
function alc.math.normal_sample(rng, mean, stddev) end

---Of the beta distribution.
---@param rng alc.Rng
---@param alpha number
---@param beta number
---@return number
function alc.math.beta_sample(rng, alpha, beta) end

---Of the gamma distribution.
---@param rng alc.Rng
---@param shape number
---@param scale number
---@return number
function alc.math.gamma_sample(rng, shape, scale) end

---Of the exponential distribution with this rate.
---@param rng alc.Rng
---@param lambda number
---@return number
function alc.math.exp_sample(rng, lambda) end

---Of the numbers from `low` to `high`.
---@param rng alc.Rng
---@param low number
---@param high number
---@return number
function alc.math.uniform_sample(rng, low, high) end

---Of the log-normal distribution.
---@param rng alc.Rng
---@param mu number
---@param sigma number
---@return number
function alc.math.lognormal_sample(rng, mu, sigma) end

---Of Student's t.
---@param rng alc.Rng
---@param df number
---@return number
function alc.math.student_t_sample(rng, df) end

---Of the chi-squared distribution.
---@param rng alc.Rng
---@param df number
---@return number
function alc.math.chi_squared_sample(rng, df) end

---Of the Poisson distribution.
---@param rng alc.Rng
---@param lambda number
---@return integer
function alc.math.poisson_sample(rng, lambda) end

---How many of n trials succeed.
---@param rng alc.Rng
---@param n integer
---@param p number
---@return integer
function alc.math.binomial_sample(rng, n, p) end

---Of the Dirichlet distribution: shares that add up to 1.
---@param rng alc.Rng
---@param alphas number[]
---@return number[]
function alc.math.dirichlet_sample(rng, alphas) end

---The index of one of the weights, by their size. It counts as lists of the language do.
---@param rng alc.Rng
---@param weights number[]
---@return integer
function alc.math.categorical_sample(rng, weights) end

---The mean.
---@param values number[]
---@return number
function alc.math.mean(values) end

---The variance of a sample.
---@param values number[]
---@return number
function alc.math.variance(values) end

---The standard deviation of a sample.
---@param values number[]
---@return number
function alc.math.stddev(values) end

---The median.
---@param values number[]
---@return number
function alc.math.median(values) end

---A percentile, p from 0 to 100, interpolated.
---@param values number[]
---@param p number
---@return number
function alc.math.percentile(values, p) end

---From the first quartile to the third.
---@param values number[]
---@return number
function alc.math.iqr(values) end

---The covariance of a sample.
---@param xs number[]
---@param ys number[]
---@return number
function alc.math.covariance(xs, ys) end

---Pearson's correlation.
---@param xs number[]
---@param ys number[]
---@return number
function alc.math.correlation(xs, ys) end

---Shares that add up to 1.
---@param values number[]
---@return number[]
function alc.math.softmax(values) end

---Logarithms on a scale from 0 to 100.
---@param values number[]
---@return number[]
function alc.math.log_normalize(values) end

---How many values are in each of so many bins.
---@param values number[]
---@param bins integer
---@return alc.Histogram
function alc.math.histogram(values, bins) end

---Wilson's interval for a rate.
---@param successes number
---@param total number
---@param confidence? number 0.95 if it is left out
---@return alc.Interval
function alc.math.wilson_ci(successes, total, confidence) end

---The normal distribution up to x.
---@param x number
---@param mu? number 0 if it is left out
---@param sigma? number 1 if it is left out
---@return number
function alc.math.normal_cdf(x, mu, sigma) end

---The beta distribution up to x.
---@param x number
---@param alpha number
---@param beta number
---@return number
function alc.math.beta_cdf(x, alpha, beta) end

---The gamma distribution up to x.
---@param x number
---@param shape number
---@param scale number
---@return number
function alc.math.gamma_cdf(x, shape, scale) end

---The Poisson distribution up to k.
---@param k integer
---@param lambda number
---@return number
function alc.math.poisson_cdf(k, lambda) end

---Where the normal distribution reaches p.
---@param p number
---@param mu? number 0 if it is left out
---@param sigma? number 1 if it is left out
---@return number
function alc.math.normal_inverse_cdf(p, mu, sigma) end

---Where the standard normal distribution reaches p.
---@param p number
---@return number
function alc.math.normal_ppf(p) end

---Where the beta distribution reaches p.
---@param p number
---@param alpha number
---@param beta number
---@return number
function alc.math.beta_ppf(p, alpha, beta) end

---The mean of the beta distribution.
---@param alpha number
---@param beta number
---@return number
function alc.math.beta_mean(alpha, beta) end

---The variance of the beta distribution.
---@param alpha number
---@param beta number
---@return number
function alc.math.beta_variance(alpha, beta) end

---The error function.
---@param x number
---@return number
function alc.math.erf(x) end

---The complement of `erf`.
---@param x number
---@return number
function alc.math.erfc(x) end

---The logarithm of the gamma function.
---@param x number
---@return number
function alc.math.lgamma(x) end

---The beta function.
---@param a number
---@param b number
---@return number
function alc.math.beta(a, b) end

---Its logarithm.
---@param a number
---@param b number
---@return number
function alc.math.ln_beta(a, b) end

---I_x(a, b).
---@param x number
---@param a number
---@param b number
---@return number
function alc.math.regularized_incomplete_beta(x, a, b) end

---P(a, x).
---@param a number
---@param x number
---@return number
function alc.math.regularized_incomplete_gamma(a, x) end

---The derivative of `lgamma`.
---@param x number
---@return number
function alc.math.digamma(x) end

---The factorial of n, which is at most 170.
---@param n integer
---@return number
function alc.math.factorial(n) end

---Its logarithm.
---@param n integer
---@return number
function alc.math.ln_factorial(n) end

---The logarithm of the sum of exponentials.
---@param values number[]
---@return number
function alc.math.logsumexp(values) end

---The logarithm of the odds: ln(p / (1 - p)).
---@param p number
---@return number
function alc.math.logit(p) end

---Its inverse: 1 / (1 + exp(-x)).
---@param x number
---@return number
function alc.math.expit(x) end

---Whether the means of two samples differ.
---@param xs number[]
---@param ys number[]
---@return alc.WelchTest
function alc.math.welch_t_test(xs, ys) end

---Whether one of two samples tends to be larger.
---@param xs number[]
---@param ys number[]
---@param options? alc.MannWhitneyOptions
---@return alc.MannWhitneyTest
function alc.math.mann_whitney_u(xs, ys, options) end

---Whether counts are what was expected.
---@param observed number[]
---@param expected number[]
---@return alc.ChiSquaredTest
function alc.math.chi_squared_test(observed, expected) end

---Whether two samples are of one distribution.
---@param xs number[]
---@param ys number[]
---@return alc.KsTest
function alc.math.ks_test(xs, ys) end

---The ranks, from 1; equal values share theirs.
---@param values number[]
---@return number[]
function alc.math.rank(values) end

---The correlation of ranks.
---@param xs number[]
---@param ys number[]
---@return number
function alc.math.spearman_correlation(xs, ys) end

---Tau-b.
---@param xs number[]
---@param ys number[]
---@return number
function alc.math.kendall_tau(xs, ys) end

---How good an order is, from 0 to 1, by the relevance of what it has, of the first k.
---@param relevances number[]
---@param k? integer
---@return number
function alc.math.ndcg(relevances, k) end

---The mean of 1 / rank of the first that is relevant: ranks, or lists of relevances.
---@param rankings (integer|number[])[]
---@return number
function alc.math.mrr(rankings) end

---In nats.
---@param probs number[]
---@return number
function alc.math.entropy(probs) end

---By Kullback and Leibler, in nats.
---@param p number[]
---@param q number[]
---@return number
function alc.math.kl_divergence(p, q) end

---By Jensen and Shannon, in nats.
---@param p number[]
---@param q number[]
---@return number
function alc.math.js_divergence(p, q) end

---In nats.
---@param p number[]
---@param q number[]
---@return number
function alc.math.cross_entropy(p, q) end

---The means of all windows.
---@param values number[]
---@param window integer
---@return number[]
function alc.math.moving_average(values, window) end

---Means in which what is older counts less.
---@param values number[]
---@param alpha number
---@return number[]
function alc.math.ewma(values, alpha) end

---With itself, so many places later.
---@param values number[]
---@param lag integer
---@return number
function alc.math.autocorrelation(values, lag) end

---All orders of k of n indexes, which count as lists of the language do.
---@param n integer
---@param k? integer
---@return integer[][]
function alc.math.permutations(n, k) end
