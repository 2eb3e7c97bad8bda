// The script library of Holdfast. This file is for editors and compilers, it is never run.

declare namespace Holdfast {
  /** A message of a conversation. */
  interface Message {
    /** Whose it is: `system`, `user`, `assistant`. */
    role: string;
    /** What it says. */
    content: any;
    [name: string]: any;
  }

  /** What whoever answers is told. Others than these are passed on as well. */
  interface LlmOptions {
    /** The system prompt. */
    system?: string;
    /** How long the answer may be; 1,024 if it is left out. */
    maxTokens?: number;
    /** How long the answer may be; 1,024 if it is left out. */
    max_tokens?: number;
    /** How much is left to chance. */
    temperature?: number;
    /** Which model is wanted. */
    model?: string;
    /** Which of several models or people is wanted. */
    role?: string;
    /** Where the answer ends. */
    stop?: string | string[];
    /** The answer should rest on evidence. */
    grounded?: boolean;
    /** The prompt leaves something open. */
    underspecified?: boolean;
    /** How long is waited for the answer. */
    timeoutMs?: number;
    /** How long is waited for the answer. */
    timeout_ms?: number;
    /** What the answer is if nobody has answered in time. Without it that is an error. */
    default?: any;
    [name: string]: any;
  }

  /** All of a request: options, with a prompt or messages. */
  interface LlmRequest extends LlmOptions {
    /** What is asked. */
    prompt?: string;
    /** A conversation, instead. */
    messages?: Message[];
    [name: string]: any;
  }

  /** Options of `llm` with a schema. */
  interface SchemaOptions extends LlmOptions {
    /** A JSON Schema that the answer must fit. If it does not, the model is asked again with what is wrong. */
    schema: Record<string, any>;
    /** How often it is asked again, by default 2. Then it is `SCHEMA_MISMATCH`. */
    retries?: number;
    [name: string]: any;
  }

  /** All of a request, with a schema. */
  interface SchemaRequest extends SchemaOptions {
    /** What is asked. */
    prompt?: string;
    /** A conversation, instead. */
    messages?: Message[];
    [name: string]: any;
  }

  /** A question to a person. */
  interface Question {
    /** What is asked. */
    question?: string;
    /** What to choose from. */
    options?: any[];
    /** How long is waited for the answer. */
    timeoutMs?: number;
    /** How long is waited for the answer. */
    timeout_ms?: number;
    /** What the answer is if nobody has answered in time. */
    default?: any;
    [name: string]: any;
  }

  /** How long a tool is waited for. */
  interface ToolOptions {
    /** How long is waited for it. */
    timeoutMs?: number;
    /** How long is waited for it. */
    timeout_ms?: number;
    /** What it gives if its time is up. */
    default?: any;
    [name: string]: any;
  }

  /** One of several queries. */
  interface QueryItem {
    /** Such as `llm`, `ask`, `approve`, `tool`. */
    kind: string;
    /** What is asked. */
    payload?: any;
  }

  /** Options of `cache`. */
  interface CacheOptions extends LlmOptions {
    /** By which the answer is found again, instead of prompt and options. */
    cacheKey?: string;
    /** Asks in any case, and keeps nothing. */
    cacheSkip?: boolean;
    [name: string]: any;
  }

  /** How the cache is used. */
  interface CacheInfo {
    /** How many answers are kept. */
    entries: number;
    /** How often one was found. */
    hits: number;
    /** How often it was not. */
    misses: number;
    /** How many are kept at most. */
    max_entries: number;
  }

  /** Options of `parallel`. */
  interface ParallelOptions extends LlmOptions {
    /** Makes something of each answer. */
    postFn?: (answer: any, item: any, index: number) => any;
    [name: string]: any;
  }

  /** How a vote ended. */
  interface VoteResult {
    /** What most said; nothing if nobody voted. */
    winner: string | null;
    /** How many said it. */
    count: number;
    /** How many voted. */
    total: number;
  }

  /** Options of `match_enum`. */
  interface MatchOptions {
    /** How alike a word must be, from 0 to 1; by default 0.7. */
    threshold?: number;
  }

  /** Options of `chunk`. */
  interface ChunkOptions {
    /** What is counted; by default lines. */
    mode?: "lines" | "chars";
    /** How many are in a piece; by default 50. */
    size?: number;
    /** How many of them are also in the piece before; by default none. */
    overlap?: number;
  }

  /** Options of `fork`. */
  interface ForkOptions {
    /** `abort`, and `fail`: one that fails ends all, and raises. By default it is only shown. */
    onError?: "skip" | "abort" | "fail";
  }

  /** What came of a branch. */
  interface ForkResult {
    /** Its name; `(inline-1)` if it is a function. */
    strategy: string;
    /** Whether it ended well. */
    ok: boolean;
    /** What it gave. */
    result?: any;
    /** Why it failed. */
    error?: string;
  }

  /** Options of `pipe`. */
  interface PipeOptions {
    /** Is called before each. */
    onStage?: (index: number, name: string, ctx: Record<string, any>) => any;
    /** `skip`, and `continue`: one that fails is noted, and the next one has the same ctx. By default it raises. */
    onError?: "abort" | "skip" | "continue";
  }

  /** Options of `tuning`. */
  interface TuningOptions {
    /** Where in ctx the settings are, if they are there. */
    prefix?: string;
  }

  /** Cases, and how answers are graded. */
  interface Scenario {
    /** What it is called; `inline` if it is left out. */
    name?: string;
    /** What the strategy is given, and what is expected. */
    cases: Case[];
    /** By default `exact_match`. Others: `contains`, `starts_with`, `regex`, `flexible_match`, `json_valid`, `valid_json_response`, `not_empty`, `length`, `latency`. */
    graders?: (string | Grader)[];
    /** The same, with weights. */
    bind?: Grader[];
    [name: string]: any;
  }

  /** One case of a scenario. */
  interface Case {
    /** The task. */
    input: any;
    /** What graders compare the answer to. A list: any of it. */
    expected?: any;
    /** What it is called. */
    name?: string;
    /** By which results are summed up. */
    tags?: string[];
    [name: string]: any;
  }

  /** A grader, and how much it counts. */
  interface Grader {
    /** Its name, or a function of the text and what is expected, which gives true, false, or a number from 0 to 1. */
    grader: any;
    /** By default 1. */
    weight?: number;
    [name: string]: any;
  }

  /** Options of `eval`. */
  interface EvalOptions {
    /** What the strategy finds in ctx besides the task. */
    strategyOpts?: Record<string, any>;
    /** Whether the report is kept as a card, with all cases as its samples. */
    autoCard?: boolean;
    /** The package of that card; by default the strategy. */
    cardPkg?: string;
  }

  /** How well a strategy did. */
  interface Report {
    /** The strategy and the scenario. */
    name: string;
    /** `total`, `passed`, `pass_rate`, `pass_at_1`, `scores`, `ci_95`, `by_tag`. */
    aggregated: Record<string, any>;
    /** The cases that did not pass. */
    failures: (Record<string, any>)[];
    /** All cases. */
    results: (Record<string, any>)[];
    /** One line. */
    summary: string;
    /** The card that was made. */
    card_id?: string;
    [name: string]: any;
  }

  /** What is left; what has no limit is nothing. */
  interface BudgetRemaining {
    /** How many calls. */
    llm_calls: number | null;
    /** How much time. */
    elapsed_ms: number | null;
    /** How many tokens. */
    tokens: number | null;
  }

  /** How long a value is kept. */
  interface StateOptions {
    /** Milliseconds; without it, for good. */
    ttlMs?: number;
  }

  /** A card to be made. It may have any other fields; nulls are left out. */
  interface NewCard {
    /** Whose it is. */
    pkg: PackageName;
    /** Its id, if it is to have a certain one. */
    card_id?: string;
    /** What it was made with: `param_fingerprint` is of these. */
    params?: Record<string, any>;
    /** `id` is part of the card's id. */
    model?: Record<string, any>;
    /** `name` is shown in lists. */
    scenario?: Record<string, any>;
    /** `pass_rate` is shown in lists. */
    stats?: Record<string, any>;
    /** `prior_card_id` and `prior_relation` are its lineage. */
    metadata?: Record<string, any>;
    [name: string]: any;
  }

  /** A package, by its name. */
  interface PackageName {
    /** Without slashes and `..`. */
    name: string;
    [name: string]: any;
  }

  /** A card. */
  interface Card extends NewCard {
    /** `{pkg}_{model}_{time}_{hash}`, unless it was given. */
    card_id: string;
    /** `card/v0`. */
    schema_version: string;
    /** When it was made, as `2026-01-31T12:00:00Z`. */
    created_at: string;
    /** `holdfast@` and the version. */
    created_by: string;
    /** The same for the same `params`. */
    param_fingerprint?: string;
    [name: string]: any;
  }

  /** A new card. */
  interface CardCreated {
    /** Its id. */
    card_id: string;
    /** `cards/{pkg}/{card_id}`: a name, no file. */
    path: string;
  }

  /** What lists show of a card. */
  interface CardSummary {
    /** Its id. */
    card_id: string;
    /** Its package. */
    pkg: string;
    /** When it was made. */
    created_at?: string;
    /** `model.id`. */
    model?: string;
    /** `scenario.name`. */
    scenario?: string;
    /** `stats.pass_rate`. */
    pass_rate?: number;
  }

  /** Which are listed. */
  interface CardListOptions {
    /** Only those of this package. */
    pkg?: string;
  }

  /** Which cards are looked for. */
  interface CardFindOptions {
    /** Only those of this package. */
    pkg?: string;
    /** A filter. */
    where?: Record<string, any>;
    /** Paths such as `stats.pass_rate`; with `-` before it the other way round. By default newest first. */
    orderBy?: string | string[];
    /** How many at most. */
    limit?: number;
    /** How many are left out before. */
    offset?: number;
  }

  /** What an alias says besides. */
  interface AliasOptions {
    /** A package, by which aliases are listed. */
    pkg?: string;
    /** Why. */
    note?: string;
  }

  /** A name of a card. */
  interface Alias {
    /** The alias. */
    name: string;
    /** Its card. */
    card_id: string;
    /** As it was given. */
    pkg?: string;
    /** When it was set. */
    set_at: string;
    /** As it was given. */
    note?: string;
  }

  /** Samples that are kept. */
  interface SamplesWritten {
    /** A name, no file. */
    path: string;
    /** How many. */
    count: number;
  }

  /** Which samples are read. */
  interface SampleOptions {
    /** How many are left out before. */
    offset?: number;
    /** How many at most. */
    limit?: number;
    /** A filter; it comes before the other two. */
    where?: Record<string, any>;
  }

  /** Which relatives of a card are looked for. */
  interface LineageOptions {
    /** The card. */
    cardId: string;
    /** Up is to what it came from, which is the default. */
    direction?: "up" | "down" | "both";
    /** How many steps at most; by default 10. */
    depth?: number;
    /** Whether nodes have their `stats`; by default they have. */
    includeStats?: boolean;
    /** Only such steps are gone. */
    relationFilter?: string[];
  }

  /** A card and its relatives. */
  interface Lineage {
    /** The card. */
    root: string;
    /** It and its relatives, the nearest first. */
    nodes: LineageNode[];
    /** From each to what it came from. */
    edges: LineageEdge[];
    /** Whether there are more beyond the depth. */
    truncated: boolean;
  }

  /** A card among relatives. */
  interface LineageNode {
    /** Its id. */
    card_id: string;
    /** Its package. */
    pkg: string;
    /** How many steps away: below 0 for what was before. */
    depth: number;
    /** What it came from. */
    prior_card_id?: string;
    /** How. */
    prior_relation?: string;
    /** Its figures. */
    stats?: Record<string, any>;
  }

  /** A step. */
  interface LineageEdge {
    /** The later card. */
    from: string;
    /** The one before. */
    to: string;
    /** How they are related. */
    relation?: string;
  }

  /** What algocline copies elsewhere. */
  interface BackfillOptions {
    /** Where to. */
    sink: string;
    /** Whether it is only tried. */
    dryRun?: boolean;
  }

  /** A generator of random numbers. */
  class Rng { private constructor(); private readonly opaque; }

  /** How values are distributed. */
  interface Histogram {
    /** How many are in each bin. */
    counts: number[];
    /** Where bins begin, and where the last one ends. */
    edges: number[];
  }

  /** An interval of confidence. */
  interface Interval {
    /** Where it begins. */
    lower: number;
    /** Where it ends. */
    upper: number;
    /** Its middle. */
    center: number;
  }

  /** What came of a t-test. */
  interface WelchTest {
    /** t. */
    t_stat: number;
    /** Degrees of freedom. */
    df: number;
    /** On both sides. */
    p_value: number;
  }

  /** Corrections. */
  interface MannWhitneyOptions {
    /** By default it is made. */
    continuityCorrection?: boolean;
    /** By default it is made. */
    tieCorrection?: boolean;
  }

  /** What came of a U test. */
  interface MannWhitneyTest {
    /** U. */
    u_stat: number;
    /** By the normal approximation. */
    z_score: number;
    /** On both sides. */
    p_value: number;
  }

  /** What came of a chi-squared test. */
  interface ChiSquaredTest {
    /** The statistic. */
    chi2_stat: number;
    /** Degrees of freedom. */
    df: number;
    /** How likely that or more is. */
    p_value: number;
  }

  /** What came of a Kolmogorov-Smirnov test. */
  interface KsTest {
    /** The largest distance. */
    d_stat: number;
    /** On both sides. */
    p_value: number;
  }

  /** Values by key that outlive the run, if the template grants the module `state`. */
  interface StateLibrary {
    /** The value of a key, or the default. */
    get(key: string, fallback?: any): any;
    /** Sets a key. */
    set(key: string, value: any, options?: StateOptions): void;
    /** The keys that begin with the prefix, or all, in order. */
    keys(prefix?: string): string[];
    /** Removes a key, and says whether it was there. */
    delete(key: string): boolean;
    /** Whether there is such a key. */
    has(key: string): boolean;
    /** Sets a key unless it is there, and says whether it did. */
    setNx(key: string, value: any, options?: StateOptions): boolean;
    /** Adds to a number, and gives the sum. */
    incr(key: string, delta?: number, fallback?: number): number;
    /** Sets a key if its value is the expected one, and says whether it did. Nothing stands for no value. */
    compareAndSet(key: string, expected: any, value: any, options?: StateOptions): boolean;
    /** Replaces a value by what the function makes of it, also if that asks and waits: if the key has changed meanwhile it is called again. */
    update(key: string, fn: (current: any) => any, fallback?: any): Promise<any>;
  }

  /** Figures of the run. */
  interface StatsLibrary {
    /** Records a figure of the run, which is among the stats of its reply. */
    record(key: string, value: any): void;
    /** A figure that this execution has recorded. */
    get(key: string): any;
  }

  /** Results that are kept for good, if the template grants the module `card`. */
  interface CardLibrary {
    /** Keeps a new card. What is missing is filled in: its id, the time, who made it. */
    create(card: NewCard): CardCreated;
    /** A card. */
    get(cardId: string): Card | null;
    /** All cards, newest first. */
    list(options?: CardListOptions): CardSummary[];
    /** Adds fields that the card has not yet. */
    append(cardId: string, fields: Record<string, any>): Card;
    /** The card that an alias names. */
    getByAlias(name: string): Card | null;
    /** Names a card. An alias may be set again. */
    aliasSet(name: string, cardId: string, options?: AliasOptions): Alias;
    /** All aliases, by name. */
    aliasList(options?: CardListOptions): Alias[];
    /** The cards that a filter means, in an order. */
    find(options?: CardFindOptions): CardSummary[];
    /** Keeps the single cases behind a card, once. */
    writeSamples(cardId: string, samples: any[]): SamplesWritten;
    /** The cases behind a card, or some of them. */
    readSamples(cardId: string, options?: SampleOptions): any[];
    /** What a card came from, and what came from it. */
    lineage(options: LineageOptions): Lineage | null;
    /** Raises `CARD_SINKS_NONE`: there are no sinks. The host exports cards. */
    sinkBackfill(options: BackfillOptions): void;
  }

  /** Random numbers, statistics and special functions. */
  interface MathLibrary {
    /** A new generator. */
    rngCreate(seed: number): Rng;
    /** A number from 0 to 1, without 1. */
    rngFloat(rng: Rng): number;
    /** A whole number, both bounds included. */
    rngInt(rng: Rng, min: number, max: number): number;
    /** Brings a list into a random order, in place, and gives it. */
    shuffle<T>(rng: Rng, values: T[]): T[];
    /** So many items of a list, each of which may come more than once. */
    sampleWithReplacement<T>(rng: Rng, values: T[], n: number): T[];
    /** Of the normal distribution. */
    normalSample(rng: Rng, mean: number, stddev: number): number;
    /** Of the beta distribution. */
    betaSample(rng: Rng, alpha: number, beta: number): number;
    /** Of the gamma distribution. */
    gammaSample(rng: Rng, shape: number, scale: number): number;
    /** Of the exponential distribution with this rate. */
    expSample(rng: Rng, lambda: number): number;
    /** Of the numbers from `low` to `high`. */
    uniformSample(rng: Rng, low: number, high: number): number;
    /** Of the log-normal distribution. */
    lognormalSample(rng: Rng, mu: number, sigma: number): number;
    /** Of Student's t. */
    studentTSample(rng: Rng, df: number): number;
    /** Of the chi-squared distribution. */
    chiSquaredSample(rng: Rng, df: number): number;
    /** Of the Poisson distribution. */
    poissonSample(rng: Rng, lambda: number): number;
    /** How many of n trials succeed. */
    binomialSample(rng: Rng, n: number, p: number): number;
    /** Of the Dirichlet distribution: shares that add up to 1. */
    dirichletSample(rng: Rng, alphas: number[]): number[];
    /** The index of one of the weights, by their size. It counts as lists of the language do. */
    categoricalSample(rng: Rng, weights: number[]): number;
    /** The mean. */
    mean(values: number[]): number;
    /** The variance of a sample. */
    variance(values: number[]): number;
    /** The standard deviation of a sample. */
    stddev(values: number[]): number;
    /** The median. */
    median(values: number[]): number;
    /** A percentile, p from 0 to 100, interpolated. */
    percentile(values: number[], p: number): number;
    /** From the first quartile to the third. */
    iqr(values: number[]): number;
    /** The covariance of a sample. */
    covariance(xs: number[], ys: number[]): number;
    /** Pearson's correlation. */
    correlation(xs: number[], ys: number[]): number;
    /** Shares that add up to 1. */
    softmax(values: number[]): number[];
    /** Logarithms on a scale from 0 to 100. */
    logNormalize(values: number[]): number[];
    /** How many values are in each of so many bins. */
    histogram(values: number[], bins: number): Histogram;
    /** Wilson's interval for a rate. */
    wilsonCi(successes: number, total: number, confidence?: number): Interval;
    /** The normal distribution up to x. */
    normalCdf(x: number, mu?: number, sigma?: number): number;
    /** The beta distribution up to x. */
    betaCdf(x: number, alpha: number, beta: number): number;
    /** The gamma distribution up to x. */
    gammaCdf(x: number, shape: number, scale: number): number;
    /** The Poisson distribution up to k. */
    poissonCdf(k: number, lambda: number): number;
    /** Where the normal distribution reaches p. */
    normalInverseCdf(p: number, mu?: number, sigma?: number): number;
    /** Where the standard normal distribution reaches p. */
    normalPpf(p: number): number;
    /** Where the beta distribution reaches p. */
    betaPpf(p: number, alpha: number, beta: number): number;
    /** The mean of the beta distribution. */
    betaMean(alpha: number, beta: number): number;
    /** The variance of the beta distribution. */
    betaVariance(alpha: number, beta: number): number;
    /** The error function. */
    erf(x: number): number;
    /** The complement of `erf`. */
    erfc(x: number): number;
    /** The logarithm of the gamma function. */
    lgamma(x: number): number;
    /** The beta function. */
    beta(a: number, b: number): number;
    /** Its logarithm. */
    lnBeta(a: number, b: number): number;
    /** I_x(a, b). */
    regularizedIncompleteBeta(x: number, a: number, b: number): number;
    /** P(a, x). */
    regularizedIncompleteGamma(a: number, x: number): number;
    /** The derivative of `lgamma`. */
    digamma(x: number): number;
    /** The factorial of n, which is at most 170. */
    factorial(n: number): number;
    /** Its logarithm. */
    lnFactorial(n: number): number;
    /** The logarithm of the sum of exponentials. */
    logsumexp(values: number[]): number;
    /** The logarithm of the odds: ln(p / (1 - p)). */
    logit(p: number): number;
    /** Its inverse: 1 / (1 + exp(-x)). */
    expit(x: number): number;
    /** Whether the means of two samples differ. */
    welchTTest(xs: number[], ys: number[]): WelchTest;
    /** Whether one of two samples tends to be larger. */
    mannWhitneyU(xs: number[], ys: number[], options?: MannWhitneyOptions): MannWhitneyTest;
    /** Whether counts are what was expected. */
    chiSquaredTest(observed: number[], expected: number[]): ChiSquaredTest;
    /** Whether two samples are of one distribution. */
    ksTest(xs: number[], ys: number[]): KsTest;
    /** The ranks, from 1; equal values share theirs. */
    rank(values: number[]): number[];
    /** The correlation of ranks. */
    spearmanCorrelation(xs: number[], ys: number[]): number;
    /** Tau-b. */
    kendallTau(xs: number[], ys: number[]): number;
    /** How good an order is, from 0 to 1, by the relevance of what it has, of the first k. */
    ndcg(relevances: number[], k?: number): number;
    /** The mean of 1 / rank of the first that is relevant: ranks, or lists of relevances. */
    mrr(rankings: (number | number[])[]): number;
    /** In nats. */
    entropy(probs: number[]): number;
    /** By Kullback and Leibler, in nats. */
    klDivergence(p: number[], q: number[]): number;
    /** By Jensen and Shannon, in nats. */
    jsDivergence(p: number[], q: number[]): number;
    /** In nats. */
    crossEntropy(p: number[], q: number[]): number;
    /** The means of all windows. */
    movingAverage(values: number[], window: number): number[];
    /** Means in which what is older counts less. */
    ewma(values: number[], alpha: number): number[];
    /** With itself, so many places later. */
    autocorrelation(values: number[], lag: number): number;
    /** All orders of k of n indexes, which count as lists of the language do. */
    permutations(n: number, k?: number): (number[])[];
  }

  /** What scripts find in `hf`. */
  interface Library {
    /** Asks a model. With a `schema` it gives the value that fits it. */
    llm(prompt: string | Message[] | LlmRequest, options: SchemaOptions): Promise<any>;
    /** Asks a model. With a `schema` it gives the value that fits it. */
    llm(prompt: SchemaRequest): Promise<any>;
    /** Asks a model. With a `schema` it gives the value that fits it. */
    llm(prompt: string | Message[] | LlmRequest, options?: LlmOptions): Promise<string>;
    /** Asks several at once, in one round, and gives the answers in the order of the items. */
    llmBatch(items: string[]): Promise<string[]>;
    /** Asks several at once, in one round, and gives the answers in the order of the items. */
    llmBatch(items: (string | LlmRequest | SchemaRequest)[]): Promise<any[]>;
    /** Asks a person. */
    ask(question: string | Question, options?: Question): Promise<any>;
    /** Asks a person for consent. */
    approve(question: string | Question, options?: Question): Promise<any>;
    /** Waits for a time, durably: also over restarts, and for months. */
    sleep(ms: number): Promise<void>;
    /** Calls a tool of the host, or asks somebody to do so. */
    tool(name: string, args?: any, options?: ToolOptions): Promise<any>;
    /** Asks anything: the kind and payload of a query, as the functions above make them. */
    query(kind: string, payload?: any): Promise<any>;
    /** The answer, or the default if it fails, which is logged as a warning. */
    llmSafe(prompt: string | Message[] | LlmRequest, options?: LlmOptions, fallback?: any): Promise<any>;
    /** The JSON in the answer, and the answer itself. If there is none it asks once more, and then gives nothing for the JSON. In JavaScript both are a list of two. */
    llmJson(prompt: string | Message[] | LlmRequest, options?: LlmOptions): Promise<[Record<string, any> | any[] | null, any]>;
    /** As `llm`, but what was asked before with the same prompt and options is not asked again. The cache is the session's, and keeps 256 answers. */
    cache(prompt: string | Message[] | LlmRequest, options?: CacheOptions): Promise<any>;
    /** How the cache is used. */
    cacheInfo(): CacheInfo;
    /** Empties the cache and sets its counters to 0. */
    cacheClear(): void;
    /** As `llm`, with `grounded`: whoever answers should look at evidence, not only remember. */
    ground(claim: string | Message[] | LlmRequest, options?: LlmOptions): Promise<any>;
    /** As `llm`, with `underspecified`: whoever answers should settle what the prompt leaves open. */
    specify(prompt: string | Message[] | LlmRequest, options?: LlmOptions): Promise<any>;
    /** One prompt for each item, all asked in one round. Options hold for prompts that are texts; a table is taken as it is. */
    parallel<T>(items: T[], promptFn: (item: T, index: number) => string | LlmRequest | PromiseLike<string | LlmRequest>, options?: ParallelOptions): Promise<any[]>;
    /** What the function gives for each item, one after the other. */
    map<T, U>(items: T[], fn: (item: T, index: number) => U | PromiseLike<U>): Promise<U[]>;
    /** The items for which the function gives something true. */
    filter<T>(items: T[], fn: (item: T, index: number) => any): Promise<T[]>;
    /** One value of all items. Without `init` it begins with the first item; of no items it is nothing. */
    reduce<T>(items: T[], fn: (acc: T, item: T, index: number) => T | PromiseLike<T>): Promise<T | null>;
    /** One value of all items. Without `init` it begins with the first item; of no items it is nothing. */
    reduce<T, U>(items: T[], fn: (acc: U, item: T, index: number) => U | PromiseLike<U>, init: U): Promise<U>;
    /** What most say, without white space around it. Of several with as many votes it is the one that came first. */
    vote(answers: any[]): VoteResult;
    /** Which of the candidates the text names, in any case; of several the one that is named last. If it names none, the one that a word of it is most like. */
    matchEnum(text: string, candidates: string[], options?: MatchOptions): string | null;
    /** Yes or no: what the last word says that means one of both, such as `approved`, `lgtm`, `rejected`, `no`. */
    matchBool(text: string): boolean | null;
    /** The first whole number in the text, from 1 to 10; the default if there is none. */
    parseScore(text: any, fallback?: any): any;
    /** The first number in the text; with a pattern what that captures. A pattern is one of the language: of Lua, or a regular expression. */
    parseNumber(text: any, pattern?: string | RegExp): number | null;
    /** The object or list in a text: the text itself, a fenced block, or the first one that is whole. */
    jsonExtract(raw: any): Record<string, any> | any[] | null;
    /** A value as JSON, with keys in order. A table of Lua that is empty is an object, unless it is marked by `array`. Raises for what has no form there. */
    jsonEncode(value: any): string;
    /** The value of a JSON text. Raises if it is none. In Lua null is `alc.null` within tables, and nil by itself. */
    jsonDecode(text: string): any;
    /** Eight hexadecimal digits of a text, whatever its case and white space: to tell texts apart, not to keep secrets. */
    fingerprint(value: any): string;
    /** A text cut into pieces of lines or characters, which may overlap. */
    chunk(text: string, options?: ChunkOptions): string[];
    /** Runs several from here on, each in a session of its own that is a real fork of this one, and waits for all of them. */
    fork(strategies: (string | ((ctx: any) => any))[], ctx: any, options?: ForkOptions): Promise<ForkResult[]>;
    /** Runs several one after the other. The `result` of each is the `task` of the next; `pipe_history` has all of them. */
    pipe(strategies: (string | ((ctx: any) => any))[], ctx: any, options?: PipeOptions): Promise<Record<string, any>>;
    /** The defaults with what ctx says otherwise: tables are merged, lists are replaced, and what is no default is left out. */
    tuning<T>(defaults: T, ctx: any, options?: TuningOptions): T;
    /** How well a strategy does on the cases of a scenario. */
    eval(scenario: string | Scenario, strategy: string, options?: EvalOptions): Promise<Report>;
    /** Ends the execution with a value. It does not come back. */
    exit(value?: any): Promise<void>;
    /** A line of the log. Levels are `error`, `warn`, `info` and `debug`; others are kept as they are. */
    log(level: string, message: any): void;
    /** How far the run is. */
    progress(step: number, total: number, message?: any): void;
    /** Seconds since 1970, with a fraction. Within a step it stands still, but for the time that calls of the host take. */
    time(): number;
    /** What is left of the budget; nothing if there is none. */
    budgetRemaining(): BudgetRemaining | null;
    /** Whether something is left of each limit of the budget. True if there is none. */
    budgetCheck(): boolean;
    /** Calls a function of the host that the template grants, within the step. */
    call(name: string, ...args: any[]): any;
    /** Values by key that outlive the run, if the template grants the module `state`. */
    readonly state: StateLibrary;
    /** Figures of the run. */
    readonly stats: StatsLibrary;
    /** Results that are kept for good, if the template grants the module `card`. */
    readonly card: CardLibrary;
    /** Random numbers, statistics and special functions. */
    readonly math: MathLibrary;
  }
}

/** The library. */
declare const hf: Holdfast.Library;
/** What a strategy is given. */
declare const ctx: Record<string, any>;
/** Asks a model. With a `schema` it gives the value that fits it. */
declare const llm: Holdfast.Library["llm"];
/** Asks a person. */
declare const ask: Holdfast.Library["ask"];
/** Asks a person for consent. */
declare const approve: Holdfast.Library["approve"];
