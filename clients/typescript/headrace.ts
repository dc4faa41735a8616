// A client of headrace's REST API, version 0.1.0. One file without dependencies, for Node 18+, Deno, Bun and
// browsers: copy it.
//
//   const client = new HeadraceClient("http://127.0.0.1:8080", { token: "s3cret" });
//   const job = await client.jobs.create({ task: "emails.send", kwargs: { to: "ann@example.com" } });
//   console.log((await client.jobs.why(job.id)).why);
//
// Times are RFC 3339 texts, durations are seconds.
// Generated from the OpenAPI document by `python -m docs.tools.clients`; do not edit.

/** Any JSON value. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Json = any;

/** Options of a client; `timeout` is in seconds. */
export interface ClientOptions {
  token?: string;
  timeout?: number;
  fetch?: typeof fetch;
}

/** The server refused a request. `kind` is the stable name of the error, `field` the invalid field, if there is one. */
export class ApiError extends Error {
  readonly status: number;
  readonly kind: string;
  readonly field: string | null;

  constructor(status: number, kind: string, detail: string, field: string | null = null) {
    super(`${status} ${kind}: ${detail}`);
    this.name = "ApiError";
    this.status = status;
    this.kind = kind;
    this.field = field;
  }
}

interface Given {
  query?: object;
  body?: object;
}

class Connection {
  readonly #root: string;
  readonly #headers: Record<string, string>;
  readonly #timeout: number;
  readonly #fetch: typeof fetch;

  constructor(url: string, options: ClientOptions) {
    this.#root = `${url.replace(/\/+$/, "")}/api/v1`;
    this.#headers = { "content-type": "application/json", "x-requested-with": "headrace-client" };
    if (options.token !== undefined) this.#headers.authorization = `Bearer ${options.token}`;
    this.#timeout = options.timeout ?? 30;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Send a request; a stream has no timeout. */
  async open(method: string, path: string, given: Given, streams = false): Promise<Response> {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(given.query ?? {})) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== undefined && one !== null) parameters.append(name, String(one));
      }
    }
    const question = parameters.size > 0 ? `?${parameters}` : "";
    const init: RequestInit = { method, headers: this.#headers, redirect: "error" };
    if (given.body !== undefined) init.body = JSON.stringify(given.body);
    // A claim may wait for jobs on the server.
    const wait = Number((given.body as { wait?: number } | undefined)?.wait ?? 0);
    if (!streams) init.signal = AbortSignal.timeout((this.#timeout + wait) * 1000);
    const answer = await this.#fetch(`${this.#root}${path}${question}`, init);
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }
}

async function refusal(answer: Response): Promise<ApiError> {
  const text = await answer.text();
  try {
    const problem = JSON.parse(text);
    const kind = (problem.type ?? "unknown").replace("urn:headrace:", "");
    return new ApiError(answer.status, kind, problem.detail ?? "", problem.field ?? null);
  } catch {
    return new ApiError(answer.status, "unknown", text.slice(0, 200)); // not from headrace: a proxy, for example
  }
}

function quoted(name: string): string {
  if (name === "") throw new TypeError("a name in a path must not be empty");
  return encodeURIComponent(name);
}

class Resource {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  protected async send<T>(method: string, path: string, given: Given = {}): Promise<T> {
    const answer = await this.#connection.open(method, path, given);
    const text = await answer.text();
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** The data of each server-sent event, until the server ends the stream. */
  protected async *listen<T>(path: string, given: Given = {}): AsyncGenerator<T> {
    const answer = await this.#connection.open("GET", path, given, true);
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const frames = (rest + decoder.decode(value, { stream: true })).split("\n\n");
        rest = frames.pop() ?? "";
        for (const frame of frames) {
          const lines = frame.split("\n");
          if (lines.includes("event: end")) return;
          const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
          if (data.length > 0 && !lines.includes("event: trouble")) yield JSON.parse(data.join("\n")) as T;
        }
      }
    } finally {
      await reader.cancel();
    }
  }
}

/** The state of a job. A state equals its own text: `job.state == "completed"`. */
export type State = "cancelled" | "completed" | "failed" | "pending" | "retrying" | "running" | "scheduled" | "waiting";

/** Jobs, newest first. `cursor` continues after them; it is null only at the end. */
export interface JobList {
  jobs: Array<JobRecord>;
  cursor: string | null;
  total?: number | null;
  total_is_exact?: boolean | null;
  searched?: number | null;
}

/** A job. Lists omit the fields after `arguments`. */
export interface JobRecord {
  id: string;
  task: string;
  queue: string;
  state: State;
  priority: number;
  attempt: number;
  max_attempts: number;
  created_at: string;
  updated_at: string;
  run_at: string;
  expires_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  worker: string | null;
  reason: string | null;
  progress: Json;
  flow: string | null;
  archived: boolean;
  tags: Array<string>;
  metadata: Json;
  correlation_id: string | null;
  arguments: Record<string, Json> | null;
  args?: Array<Json> | null;
  kwargs?: Record<string, Json> | null;
  unreadable?: string;
  stored_call?: PayloadRecord;
  stored_result?: PayloadRecord;
  result?: Json;
  steps?: Array<StepRecord>;
  errors?: Array<AttemptError>;
  cost?: number;
  version?: number;
  crashes?: number;
  lease_until?: string | null;
  options?: Json;
  parents?: Array<DependencyRecord>;
  children?: Array<DependencyRecord>;
  why?: string;
}

/** A payload in the payload store: its path there, its size in bytes, and the hash of its file. */
export interface PayloadRecord {
  path: string;
  size: number;
  sha256: string;
}

/** A step of a job, without its value, which may be secret. */
export interface StepRecord {
  kind: string;
  name: string;
  number: number;
  at: string | null;
}

/** The error of one attempt. */
export interface AttemptError {
  at: string;
  attempt: number;
  type: string;
  message: string;
  traceback: string;
}

/** A parent or child of a job. */
export interface DependencyRecord {
  id: string;
  task: string;
  state: State;
}

/** A call of a task, with the options of `using()`: times in seconds; omitted options follow the task. */
export interface JobRequest {
  queue?: string;
  priority?: number;
  delay?: number;
  run_at?: string;
  expires?: number;
  timeout?: number | null;
  idempotency_key?: string;
  job_id?: string;
  tags?: Array<string> | Record<string, string>;
  metadata?: Record<string, Json>;
  after?: Array<string>;
  parent?: string;
  on_parent_failure?: "cancel" | "hold" | "only" | "run";
  lifo?: boolean;
  needs?: Array<string>;
  rate_key?: string;
  cost?: number;
  budget?: number;
  concurrency_key?: string;
  keep_result?: boolean;
  remove_on_complete?: boolean | number;
  remove_on_fail?: boolean | number;
  isolation?: "async" | "process" | "thread";
  task: string;
  args?: Array<Json>;
  kwargs?: Record<string, Json>;
  retry?: number | NewRetry;
  unique?: boolean | NewUnique;
}

/** A retry policy; times in seconds, errors by their dotted names. */
export interface NewRetry {
  limit?: number;
  backoff?: "exponential" | "fixed" | "linear" | Array<number>;
  base?: number;
  factor?: number;
  cap?: number;
  floor?: number;
  jitter?: number;
  on?: Array<string>;
  never?: Array<string>;
  on_timeout?: boolean;
}

/** A uniqueness rule: at most one open job per key. */
export interface NewUnique {
  by?: Array<string>;
  key?: string | null;
  states?: Array<State> | null;
  window?: number | null;
  on_conflict?: "cancel_running" | "keep_last_if_running" | "raise" | "replace" | "reschedule" | "return_existing";
}

/** Jobs to submit in one commit: all or none. */
export interface NewJobs {
  jobs: Array<JobRequest>;
}

/** The ids of the jobs, in the given order. */
export interface StoredJobs {
  ids: Array<string>;
}

/** Filters of a bulk action, at least one; `dry_run` only counts the jobs. */
export interface JobFilter {
  state?: Array<State> | null;
  queue?: string | null;
  task?: string | null;
  tag?: string | null;
  arg?: string | null;
  worker?: string | null;
  text?: string | null;
  flow?: string | null;
  since?: string | null;
  until?: string | null;
  ids?: Array<string> | null;
  dry_run?: boolean;
}

/** The number of changed items; for a dry run, the number that would change. */
export interface Changed {
  changed: number;
  dry_run?: boolean;
}

/** Jobs to delete, at most `limit`; with `finished_before` only jobs that finished before, oldest first. */
export interface DeleteFilter {
  state?: Array<State> | null;
  queue?: string | null;
  task?: string | null;
  tag?: string | null;
  arg?: string | null;
  worker?: string | null;
  text?: string | null;
  flow?: string | null;
  since?: string | null;
  until?: string | null;
  ids?: Array<string> | null;
  dry_run?: boolean;
  finished_before?: string | null;
  limit?: number | null;
}

/** A log line of a job. */
export interface LogEntry {
  at: string;
  attempt: number;
  level: string;
  message: string;
  fields: Record<string, Json>;
}

/** Chunks, oldest first. `cursor` continues after them; no more come if `is_over`: the job is finished. */
export interface ChunkList {
  chunks: Array<Chunk>;
  cursor: string | null;
  is_over: boolean;
}

/** One chunk of a job's stream, a text or data. `cursor` is where to read on behind it. */
export interface Chunk {
  cursor: string;
  attempt: number;
  number: number;
  at: string;
  data: Json;
}

/** One entry of a job's history. */
export interface HistoryEntry {
  at: string;
  event: Trigger;
  from_state: State | null;
  to_state: State;
  version: number;
  attempt: number;
  worker?: string | null;
  message?: string | null;
}

/** An event in a job's life. An event equals its own text: `entry.event == "claim"`. */
export type Trigger = "cancel" | "cancel_request" | "claim" | "compensation" | "cost" | "delete" | "event" | "expire" | "fail" | "lease_expired" | "lease_lost" | "patch" | "promote" | "promote_now" | "question" | "release" | "retry" | "review" | "revive" | "sleep" | "snooze" | "stale" | "step" | "submit" | "succeed" | "supersede" | "unblock" | "update";

/** Why a job is not running now, or what it is doing, in one sentence; and what can be done about it. */
export interface Why {
  id: string;
  state: string;
  why: string;
  remedy?: Remedy | null;
}

/** What an operator can do: a verb, the name or id it applies to, and the command line that does it. */
export interface Remedy {
  verb: "answer_question" | "promote_job" | "raise_queue_limit" | "raise_task_limit" | "resume_queue" | "resume_task" | "resume_worker" | "retry_job" | "send_signal" | "show_dead_letter" | "start_worker";
  target: string;
  command: string;
  words?: string;
}

/** The step to begin with; without one, the new job keeps nothing. */
export interface Fork {
  from_step?: string | null;
}

/** Fields to change; omitted fields stay. */
export interface JobChange {
  priority?: number;
  run_at?: string;
  queue?: string;
}

/** A question that a job waits with. */
export interface OpenQuestion {
  job: string;
  task: string;
  queue: string;
  event: string;
  number: number;
  text: string;
  to: string | null;
  answer: Record<string, Json>;
  asked_at: string | null;
  until: string | null;
}

/** The answer: a value of the type that the question's `answer` describes. */
export interface AnswerRequest {
  answer: Json;
  event?: string | null;
  number?: number | null;
}

/** The name of an event, and its data. */
export interface SignalRequest {
  event: string;
  data?: Json;
}

/** A queue: its jobs by state, since when its oldest pending job has been due, and its rules. */
export interface QueueRecord {
  queue: string;
  paused: boolean;
  scheduled: number;
  waiting: number;
  pending: number;
  running: number;
  retrying: number;
  completed: number;
  failed: number;
  cancelled: number;
  oldest_pending: string | null;
  workers: number;
  starts_left: number | null;
  rules: QueueRuleFields;
  keys?: Record<string, KeyRuleFields>;
}

/** The rules of a queue; null is no rule. */
export interface QueueRuleFields {
  max_length?: number | null;
  weight?: number | null;
  strategy?: "fifo" | "fresh_first" | "lifo" | "priority" | "weighted_random" | null;
  ageing?: number | null;
  rate?: string | null;
  burst?: number | null;
  concurrency?: number | null;
  key_rate?: string | null;
  key_burst?: number | null;
  key_concurrency?: number | null;
}

/** The rules of one key of a queue, in place of those of every key; null is no rule of its own. */
export interface KeyRuleFields {
  rate?: string | null;
  burst?: number | null;
  concurrency?: number | null;
  weight?: number | null;
}

/** Rules to change: null removes a rule, omitted rules stay. */
export interface QueueChange {
  max_length?: number | null;
  weight?: number | null;
  strategy?: "fifo" | "fresh_first" | "lifo" | "priority" | "weighted_random" | null;
  ageing?: number | null;
  rate?: string | null;
  burst?: number | null;
  concurrency?: number | null;
  key_rate?: string | null;
  key_burst?: number | null;
  key_concurrency?: number | null;
}

/** Rules to change: null removes a rule, omitted rules stay. */
export interface KeyChange {
  rate?: string | null;
  burst?: number | null;
  concurrency?: number | null;
  weight?: number | null;
  key: string;
}

/** A task: whether its code is known to the web process, its rules, and its batches: their size and wait. */
export interface TaskRecord {
  rate?: string | null;
  burst?: number | null;
  concurrency?: number | null;
  strategy?: "fifo" | "fresh_first" | "lifo" | "priority" | "weighted_random" | null;
  task: string;
  known: boolean;
  paused?: boolean;
  batch?: number | null;
  within?: number | null;
}

/** Rules to change: null removes a rule, omitted rules stay. */
export interface TaskChange {
  rate?: string | null;
  burst?: number | null;
  concurrency?: number | null;
  strategy?: "fifo" | "fresh_first" | "lifo" | "priority" | "weighted_random" | null;
}

/** A circuit breaker with failures in a row. `error` is the type of the last one. */
export interface BreakerStatus {
  name: string;
  state: "failing" | "open" | "trying";
  failures: number;
  error: string;
  open_until: string | null;
}

/** A worker as of its last heartbeat. */
export interface WorkerInfo {
  id: string;
  host: string;
  pid: number;
  state: string;
  queues: Record<string, number>;
  concurrency: number;
  running: number;
  completed: number;
  failed: number;
  heartbeat: number;
  started_at: string | null;
  seen_at: string | null;
  tasks: Array<string>;
  silent: boolean;
  capabilities?: Array<string>;
  cpu?: number | null;
  memory?: number | null;
  memory_trace?: MemoryTrace | null;
  stalled?: Array<string>;
}

/** The last memory trace of a process. */
export interface MemoryTrace {
  allocated: number;
  peak: number;
  growth: Array<string>;
}

/** A level, or one for each logger: `INFO,headrace.store=DEBUG`. */
export interface LogLevelBody {
  level: string;
}

/** A schedule. Durations are seconds; `next_run` is null while it is paused and when it will not fire again. */
export interface ScheduleRecord {
  id: string;
  task: string;
  queue: string;
  priority: number;
  args: Array<Json>;
  kwargs: Record<string, Json>;
  cron: string | null;
  every: number | null;
  at: string | null;
  tz: string;
  start: string | null;
  end: string | null;
  limit: number | null;
  jitter: number;
  dst_gap: string;
  dst_overlap: string;
  catch_up: string;
  catch_up_limit: number;
  catch_up_window: number;
  overlap: string;
  paused: boolean;
  next_run: string | null;
  last_run: string | null;
  last_job: string | null;
  fired: number;
  origin: "api" | "code";
  created_at: string;
  updated_at: string;
  error: string | null;
}

/** A new schedule: a call, a timing with exactly one of cron, every (seconds) and at, and options of its jobs. */
export interface NewSchedule {
  cron?: string;
  every?: number;
  at?: string;
  tz?: string;
  start?: string | null;
  end?: string | null;
  limit?: number | null;
  jitter?: number;
  dst_gap?: "shift" | "skip";
  dst_overlap?: "both" | "first" | "last";
  catch_up?: "all" | "latest" | "limited" | "none";
  catch_up_limit?: number;
  catch_up_window?: number;
  overlap?: "allow" | "queue" | "skip";
  id: string;
  task: string;
  args?: Array<Json>;
  kwargs?: Record<string, Json>;
  immediate?: boolean;
  queue?: string;
  priority?: number;
  timeout?: number | null;
  tags?: Array<string> | Record<string, string>;
  metadata?: Record<string, Json>;
  retry?: number | NewRetry;
}

/** The result of one occurrence of a schedule: enqueued, skipped or error. */
export interface ScheduleRun {
  at: string;
  recorded_at: string;
  status: "enqueued" | "error" | "skipped";
  job_id: string | null;
  detail: string | null;
  skipped: number;
}

/** Fields to change; a timing has exactly one of cron, every (seconds) and at. */
export interface ScheduleChange {
  cron?: string;
  every?: number;
  at?: string;
  tz?: string;
  start?: string | null;
  end?: string | null;
  limit?: number | null;
  jitter?: number;
  dst_gap?: "shift" | "skip";
  dst_overlap?: "both" | "first" | "last";
  catch_up?: "all" | "latest" | "limited" | "none";
  catch_up_limit?: number;
  catch_up_window?: number;
  overlap?: "allow" | "queue" | "skip";
  task?: string;
  args?: Array<Json>;
  kwargs?: Record<string, Json>;
  queue?: string;
  priority?: number;
}

/** Flows, newest first. `cursor` continues after them. */
export interface FlowList {
  flows: Array<FlowRecord>;
  cursor: string | null;
}

/** A flow: its state, its finished jobs, and the number of jobs in each state. */
export interface FlowRecord {
  id: string;
  name: string;
  state: string;
  done: number;
  jobs: number;
  counts: Record<string, number>;
  created_at: string;
}

/** A flow with its jobs and the graph of their dependencies. */
export interface FlowDetail {
  flow: FlowRecord;
  budget: Spending | null;
  jobs: Array<JobRecord>;
  graph: Record<string, Json>;
}

/** The units that were reported, and how many may be; None: any. */
export interface Spending {
  used: number;
  ceiling?: number | null;
}

/** How many units the jobs of a flow may report in all. */
export interface FlowBudget {
  units: number;
}

/** Dead letters, newest first. `cursor` continues after them. */
export interface DeadList {
  dead_letters: Array<DeadLetter>;
  cursor: string | null;
}

/** A job that failed for good, as it was at the failure. */
export interface DeadLetter {
  id: string;
  job_id: string;
  task: string;
  queue: string;
  reason: string;
  status: string;
  entered_at: string;
  fingerprint: string;
  original_state: string;
  priority: number;
  attempts: number;
  max_attempts: number;
  args: Array<Json>;
  kwargs: Record<string, Json>;
  arguments: Record<string, Json>;
  damage: string | null;
  tags: Array<string>;
  metadata: Record<string, Json>;
  created_at: string;
  started_at: string | null;
  worker: string | null;
  error_type: string | null;
  error_message: string | null;
  error_traceback: string | null;
  flow: string | null;
  parents: Array<string>;
  crashes: Array<Array<Json>>;
  progress: Json;
  steps: Array<string>;
  logs: Array<LogEntry>;
  first_failed_at: string;
  requeues: number;
  next_requeue_at: string | null;
  notes: Array<DeadNote>;
  resolved_at: string | null;
  resolved_by: string | null;
}

/** A note on a dead letter. */
export interface DeadNote {
  at: string;
  text: string;
  by?: string | null;
}

/** The job, and a reason of one word. */
export interface DeadLetterBody {
  job_id: string;
  reason?: string;
  note?: string | null;
}

/** Dead letters of one fingerprint. Task, reason, error and message are from the newest. */
export interface DeadGroup {
  fingerprint: string;
  task: string;
  reason: string;
  error_type: string | null;
  message: string | null;
  count: number;
  first_seen: string;
  last_seen: string;
}

/** The counts of one reason. */
export interface DeadStats {
  reason: string;
  total: number;
  pending: number;
  requeued: number;
  manually_resolved: number;
  permanently_failed: number;
  cancelled: number;
  expired: number;
  average_requeues: number;
  oldest: string;
  newest: string;
}

/** Filters of a bulk requeue: at least one, or `everything`. `rate` ("10/s") spreads the starts of the jobs. */
export interface RequeueMany {
  reason?: string | null;
  task?: string | null;
  queue?: string | null;
  fingerprint?: string | null;
  since?: string | null;
  until?: string | null;
  everything?: boolean;
  limit?: number | null;
  rate?: string | null;
  priority_boost?: number | null;
  max_requeues?: number | null;
  note?: string | null;
  dry_run?: boolean;
}

/** The result of a bulk requeue, or of a `dry_run`. */
export interface BulkRequeue {
  matched: number;
  requeued: number;
  permanently_failed: number;
  skipped: number;
  dry_run: boolean;
  until?: string | null;
}

/** Purge dead letters resolved at least `older_than` seconds ago; pending ones only if `status` names them. */
export interface Purge {
  older_than?: number;
  status?: Array<"cancelled" | "expired" | "manually_resolved" | "pending" | "permanently_failed" | "requeued"> | null;
  dry_run?: boolean;
}

/** Options of a requeue; `args` and `kwargs` replace the job's arguments. */
export interface Requeue {
  priority_boost?: number | null;
  max_requeues?: number | null;
  note?: string | null;
  args?: Array<Json> | null;
  kwargs?: Record<string, Json> | null;
}

/** The result of a requeue. For a job requeued too often, `requeued` is False and the record permanently_failed. */
export interface RequeueResult {
  id: string;
  job_id: string;
  requeued: boolean;
  status: string;
  requeues: number;
  message: string;
}

/** The resolution. */
export interface Resolve {
  status: "cancelled" | "manually_resolved" | "permanently_failed";
  note?: string | null;
}

/** A note. */
export interface NewNote {
  text: string;
}

/** A stale job or, if not `is_stale`, one past 75 % of its limit. Times in seconds. */
export interface StaleJob {
  id: string;
  task: string;
  queue: string;
  state: State;
  by: "age" | "state";
  lasted: number;
  threshold: number;
  action: "dead" | "fail" | "review";
  is_stale: boolean;
  applied: boolean;
}

/** Stale jobs to handle by their on_stale action; nothing changes unless `dry_run` is false. */
export interface StaleRequest {
  task?: string | null;
  queue?: string | null;
  limit?: number;
  dry_run?: boolean;
}

/** How long the jobs of a queue have been in a state, in seconds; jobs not due yet count as 0. */
export interface StateAges {
  state: State;
  queue: string;
  jobs: number;
  average: number;
  longest: number;
  over_an_hour: number;
  over_a_day: number;
  stalest: Array<string>;
}

/** Nothing changes unless `dry_run` is false. */
export interface ArchiveRequest {
  dry_run?: boolean;
}

/** The result of a retention run or dry run: the number of archived and deleted jobs. */
export interface ArchiveRun {
  dry_run: boolean;
  archived: number;
  deleted: number;
  history: number;
  steps: number;
  dead_letters: number;
  dead_letters_expired: number;
  dropped: Array<string>;
  jobs: Array<string>;
  seconds: number;
}

/** Filters of the jobs to erase, at least one. Nothing changes unless `dry_run` is false. */
export interface EraseRequest {
  ids?: Array<string> | null;
  tag?: string | null;
  key?: string | null;
  arg?: string | null;
  queue?: string | null;
  task?: string | null;
  worker?: string | null;
  flow?: string | null;
  state?: Array<State> | null;
  since?: string | null;
  until?: string | null;
  dry_run?: boolean;
}

/** What was erased. A dry run counts up to `spooled` and changes nothing. */
export interface Erasure {
  dry_run: boolean;
  jobs?: number;
  running?: number;
  archived?: number;
  dead_letters?: number;
  schedules?: number;
  spooled?: number;
  deliveries?: number;
  questions?: number;
  payloads?: number;
  events?: number;
  audit_entries?: number;
}

/** The size of the archive, and the last retention run of a worker (None without one). */
export interface ArchiveStats {
  jobs: number;
  bytes: number;
  partitions: number;
  swept_at: string | null;
  seconds: number | null;
  archived: number;
  deleted: number;
  dead_letters: number;
  partition: string | null;
  dropped: Array<string>;
}

/** The archived jobs that finished in a month, such as "2026-11", and their size. */
export interface ArchiveMonth {
  month: string | null;
  jobs: number;
  bytes: number;
}

/** A partition of the archive. `since` and `until` bound the finish of its jobs; both are None for the default partition. `bytes` is its size. */
export interface ArchivePartition {
  name: string;
  since: string | null;
  until: string | null;
  jobs: number;
  bytes: number;
}

/** The lifecycle policy of a task, a queue, or any job: seconds, None for no limit. */
export interface LifecyclePolicy {
  task: string | null;
  queue: string | null;
  max_scheduled: number | null;
  max_waiting: number | null;
  max_pending: number | null;
  max_retrying: number | null;
  max_running: number | null;
  max_age: number | null;
  on_stale: "dead" | "fail" | "review";
  keep_completed: number | null;
  keep_failed: number | null;
  keep_cancelled: number | null;
  archive: boolean;
  remove_on_complete: boolean | number;
  remove_on_fail: boolean | number;
  origin: Record<string, string>;
}

/** Terms to set for a task or a queue: seconds, null for no limit, "default" to remove a term set before. */
export interface PolicyChange {
  max_scheduled?: number | string | null;
  max_waiting?: number | string | null;
  max_pending?: number | string | null;
  max_retrying?: number | string | null;
  max_running?: number | string | null;
  max_age?: number | string | null;
  on_stale?: string;
  keep_completed?: number | string | null;
  keep_failed?: number | string | null;
  keep_cancelled?: number | string | null;
  archive?: boolean | string;
  remove_on_complete?: boolean | number | string;
  remove_on_fail?: boolean | number | string;
  task?: string | null;
  queue?: string | null;
}

/** Metrics of a store: those of the last `window` seconds, and the gauges read at `sampled_at`. */
export interface MetricsSnapshot {
  at: string;
  window: number;
  total: MetricFigures;
  queues: Array<QueueMetrics>;
  tasks: Array<TaskMetrics>;
  workers: Array<WorkerMetrics>;
  depth: Record<string, number>;
  oldest: number | null;
  workers_alive: number | null;
  dead: number | null;
  stale: number | null;
  schedule_misses: number | null;
  store_bytes: number | null;
  busy: number | null;
  clients: number | null;
  schedules: number | null;
  sampled_at: string | null;
}

/** Metrics of jobs within a time. */
export interface MetricFigures {
  enqueued: number;
  started: number;
  completed: number;
  failed: number;
  retried: number;
  cancelled: number;
  errors: number;
  throughput: number;
  enqueue_rate: number;
  failure_rate: number;
  error_rate: number | null;
  attempts_avg: number | null;
  retry_success: number | null;
  wait: MetricDurations;
  run: MetricDurations;
}

/** How long something took: mean, shortest, longest and quantiles, which are within 5 %. */
export interface MetricDurations {
  avg?: number | null;
  min?: number | null;
  max?: number | null;
  p50?: number | null;
  p95?: number | null;
  p99?: number | null;
}

/** Metrics and depth of a queue. */
export interface QueueMetrics {
  queue: string;
  figures: MetricFigures;
  depth: Record<string, number>;
  oldest: number;
  workers: number;
  eta: number | null;
}

/** Metrics of one task in one queue. */
export interface TaskMetrics {
  task: string;
  queue: string;
  figures: MetricFigures;
}

/** Metrics of one worker. */
export interface WorkerMetrics {
  worker: string;
  figures: MetricFigures;
}

/** The same for all queues together, for workers that serve all of them, and for each queue. */
export interface StoreScale {
  target_wait: number;
  workers: number;
  slots: number;
  slots_wanted: number;
  workers_wanted: number;
  seconds_behind: number;
  queues: Array<QueueScale>;
}

/** What a queue has and what it wants. `seconds_behind` is the wait of a job that is enqueued now. */
export interface QueueScale {
  queue: string;
  workers: number;
  slots: number;
  slots_wanted: number;
  workers_wanted: number;
  seconds_behind: number;
  paused?: boolean;
}

/** A day in UTC. `max_depth` is the maximum of pending jobs. */
export interface DayMetrics {
  day: string;
  figures: MetricFigures;
  max_depth: number | null;
  queue?: string | null;
  task?: string | null;
}

/** A metric over time, oldest point first; `step` is the seconds per point. */
export interface MetricSeries {
  name: string;
  step: number;
  points: Array<MetricPoint>;
  queue?: string | null;
  task?: string | null;
  worker?: string | null;
}

/** The value of a metric for the step that begins at this moment. */
export interface MetricPoint {
  at: string;
  value: number | null;
}

/** A rule that holds, or held, for these labels. `since` is when that began, `fired_at` when it fired. */
export interface Alert {
  id: string;
  rule: string;
  state: "acknowledged" | "firing" | "pending" | "resolved";
  severity: "critical" | "info" | "warning";
  summary: string;
  labels: Record<string, string>;
  figures: Record<string, number | null>;
  since: string;
  fired_at: string | null;
  acknowledged_at: string | null;
  acknowledged_by: string | null;
  resolved_at: string | null;
  resolved_by: string | null;
  note: string | null;
  runbook: string | null;
  notified: number;
  silenced: boolean;
  no_data: boolean;
}

/** A history entry of an alert (raised, repeated, acknowledged or resolved), with the alert as of then. */
export interface AlertChange {
  cursor: string;
  at: string;
  what: "acknowledged" | "raised" | "repeated" | "resolved";
  alert: Alert;
  by: string | null;
  note: string | null;
}

/** A note. */
export interface NoteBody {
  note?: string | null;
}

/** An alert rule. Times in seconds. */
export interface AlertRule {
  name: string;
  when: string;
  for_: number;
  cooldown: number;
  severity: "critical" | "info" | "warning";
  per: Array<"queue" | "reason" | "task" | "worker">;
  labels: Record<string, string>;
  notify: Array<string> | null;
  summary: string | null;
  runbook: string | null;
  enabled: boolean;
  shipped: boolean;
  changed: boolean;
  state: "acknowledged" | "broken" | "firing" | "no_data" | "off" | "ok" | "pending";
  error?: string | null;
}

/** A new rule. */
export interface NewRule {
  when?: string;
  for_?: number;
  cooldown?: number;
  severity?: "critical" | "info" | "warning";
  per?: Array<"queue" | "reason" | "task" | "worker">;
  labels?: Record<string, string>;
  notify?: Array<string> | null;
  summary?: string | null;
  runbook?: string | null;
  enabled?: boolean;
  metric?: string;
  op?: string;
  threshold?: number;
  window?: number;
  name: string;
}

/** Fields of a rule: `when`, or `metric`, `op`, `threshold` and `window`; times in seconds. */
export interface RuleFields {
  when?: string;
  for_?: number;
  cooldown?: number;
  severity?: "critical" | "info" | "warning";
  per?: Array<"queue" | "reason" | "task" | "worker">;
  labels?: Record<string, string>;
  notify?: Array<string> | null;
  summary?: string | null;
  runbook?: string | null;
  enabled?: boolean;
  metric?: string;
  op?: string;
  threshold?: number;
  window?: number;
}

/** Whether a rule holds for these labels now, None without data, and the values. */
export interface AlertReading {
  labels: Record<string, string>;
  holds: boolean | null;
  figures: Record<string, number | null>;
  summary: string;
}

/** A silence of this rule with these labels until a time; None and {} mean any. */
export interface AlertSilence {
  id: string;
  rule: string | null;
  labels: Record<string, string>;
  at: string;
  until: string;
  by: string | null;
  note: string | null;
}

/** Mute notifications of a rule, of labels, or of everything, for a number of seconds. */
export interface NewSilence {
  rule?: string | null;
  labels?: Record<string, string> | null;
  for_: number;
  note?: string | null;
}

/** An alert channel. `target` is its destination without secrets; `severity` the lowest severity to send. */
export interface AlertChannel {
  name: string;
  kind: "apprise" | "email" | "log" | "slack" | "webhook";
  target: string;
  severity: "critical" | "info" | "warning";
  enabled: boolean;
  signed: boolean;
  origin: "built-in" | "setting" | "store";
  error?: string | null;
  failing_since?: string | null;
  failures?: number;
  waiting?: number;
}

/** A new channel: `slack` and `webhook` need `url`, `email` needs `host` and `to`, `log` needs nothing. */
export interface NewChannel {
  url?: string;
  secret?: string | null;
  host?: string;
  port?: number | null;
  security?: "none" | "starttls" | "tls";
  user?: string | null;
  password?: string | null;
  sender?: string | null;
  to?: Array<string>;
  severity?: "critical" | "info" | "warning";
  enabled?: boolean;
  name: string;
  kind: "email" | "log" | "slack" | "webhook";
}

/** Whether the test message was accepted, and the error if not. */
export interface TestOutcome {
  taken: boolean;
  error?: string | null;
}

/** Fields of a channel; each kind uses its own. */
export interface ChannelFields {
  url?: string;
  secret?: string | null;
  host?: string;
  port?: number | null;
  security?: "none" | "starttls" | "tls";
  user?: string | null;
  password?: string | null;
  sender?: string | null;
  to?: Array<string>;
  severity?: "critical" | "info" | "warning";
  enabled?: boolean;
}

/** Something that happened, as stored. `cursor` is where to continue behind it. */
export interface Event {
  cursor: string;
  type: string;
  at: string;
  job_id?: string | null;
  task?: string | null;
  queue?: string | null;
  worker?: string | null;
  attempt?: number | null;
  data?: Record<string, Json>;
}

/** A webhook. Only create() returns its secret. */
export interface Webhook {
  id: string;
  url: string;
  types: Array<string>;
  queue: string | null;
  task: string | null;
  paused: boolean;
  reason: string | null;
  created_at: string;
  secret?: string | null;
}

/** A new webhook. Without `secret`, one is generated; `insecure` allows plain HTTP to other machines. */
export interface NewWebhook {
  url: string;
  types?: Array<string>;
  queue?: string | null;
  task?: string | null;
  secret?: string | null;
  insecure?: boolean;
}

/** Fields to change; null means any queue or any task. */
export interface WebhookChange {
  url?: string;
  types?: Array<string>;
  queue?: string | null;
  task?: string | null;
  insecure?: boolean;
}

/** Version, store and settings of this server; secrets are redacted. */
export interface System {
  version: string;
  url: string;
  store: Record<string, Json>;
  settings: Record<string, Json>;
  origins: Record<string, string>;
}

/** A table or a key of the store: its name without the common prefix, its purpose and its size. */
export interface StoragePart {
  name: string;
  kind: string;
  entries: number;
  bytes?: number | null;
  expires?: number | null;
}

/** The caller and its role. */
export interface Me {
  name: string;
  role: "admin" | "viewer" | "worker";
  read_only: boolean;
}

/** Audit entries, newest first. `cursor` continues after them. */
export interface AuditList {
  entries: Array<AuditEntry>;
  cursor: string | null;
}

/** One requested write. `cursor` continues a list after it. */
export interface AuditEntry {
  cursor: string;
  at: string;
  who: string;
  what: string;
  target: string;
  outcome: string;
  detail: Record<string, Json>;
}

/** A claim: the tasks a worker can run, its queues by weight (none: all), and the lease in seconds. */
export interface ClaimParameters {
  worker: string;
  tasks: Array<string>;
  queues?: Record<string, number>;
  capabilities?: Array<string>;
  limit?: number;
  lease?: number;
  wait?: number;
  holding?: Array<HeldLease> | null;
}

/** A job that the worker holds. */
export interface HeldLease {
  id: string;
  version: number;
}

/** The claimed jobs. */
export interface ClaimedJobs {
  jobs: Array<ClaimedJob>;
}

/** A claimed job. The worker holds it until `lease_until`, while its `version` is unchanged. */
export interface ClaimedJob {
  id: string;
  version: number;
  task: string;
  queue: string;
  priority: number;
  attempt: number;
  max_attempts: number;
  args: Array<Json>;
  kwargs: Record<string, Json>;
  timeout: number | null;
  metadata: Json;
  created_at: string | null;
  lease_until: string | null;
}

/** A heartbeat, sent every third of the lease: facts about the worker, and the jobs it runs. */
export interface HeartbeatRequest {
  worker: string;
  jobs?: Array<RunningJob>;
  lease?: number;
  tasks?: Array<string>;
  queues?: Record<string, number>;
  capabilities?: Array<string>;
  concurrency?: number;
  completed?: number;
  failed?: number;
  host?: string;
  pid?: number;
}

/** A job that the worker runs, with its progress and log lines. */
export interface RunningJob {
  id: string;
  version: number;
  progress?: Json;
  logs?: Array<ReportedLogLine>;
}

/** A line of a job's log. */
export interface ReportedLogLine {
  message: string;
  level?: "debug" | "error" | "info" | "warning";
  fields?: Record<string, Json>;
}

/** Jobs that the worker has lost and must stop, and an operator's command. */
export interface HeartbeatResult {
  lost: Array<string>;
  command: "pause" | "run" | "stop";
}

/** A job that the worker runs. */
export interface StepsRequest {
  worker: string;
  id: string;
  version: number;
}

/** The results of the steps by name, and the data of the events that came, by name in their order. */
export interface StoredSteps {
  steps: Record<string, Json>;
  events: Record<string, Array<Json>>;
}

/** A finished step of a job that the worker runs. */
export interface FinishedStep {
  worker: string;
  id: string;
  version: number;
  name: string;
  result?: Json;
}

/** Outcomes to settle. */
export interface SettleRequest {
  worker: string;
  outcomes: Array<OutcomeReport>;
}

/** The outcome of an attempt. */
export interface OutcomeReport {
  id: string;
  version: number;
  outcome: "cancel" | "failure" | "release" | "snooze" | "success" | "wait";
  result?: Json;
  spawn?: Array<JobRequest>;
  event?: string | null;
  number?: number;
  error?: Failure | null;
  permanent?: boolean;
  delay?: number | null;
  reason?: string | null;
  cost?: number | null;
}

/** The error of an attempt. */
export interface Failure {
  type?: string;
  message?: string;
  traceback?: string;
}

/** For each outcome, in order: whether it was accepted. It is refused if the worker no longer held the job. */
export interface SettledJobs {
  results: Array<RemoteSettleResult>;
}

/** Whether an outcome was accepted, and the state of the job afterwards; None if the job is gone. */
export interface RemoteSettleResult {
  id: string;
  applied: boolean;
  state: State | null;
}

/** The worker that ends. */
export interface Unregister {
  worker: string;
}

/** A problem document. `type` is the stable name of the error; `detail` is for people. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  field?: string | null;
  instance?: string | null;
}

export interface JobsFindQuery {
  state?: Array<State>;
  queue?: string | null;
  task?: string | null;
  tag?: string | null;
  arg?: string | null;
  worker?: string | null;
  text?: string | null;
  flow?: string | null;
  since?: string | null;
  until?: string | null;
  archived?: boolean;
  total?: boolean;
  limit?: number;
  cursor?: string | null;
}

export interface JobsChunksQuery {
  cursor?: string | null;
  limit?: number;
}

export interface JobsStreamQuery {
  since?: string | null;
}

export interface JobsGetQuery {
  payloads?: boolean;
}

export interface QuestionsFindQuery {
  to?: string | null;
  limit?: number;
}

export interface QueuesPeekQuery {
  limit?: number;
}

export interface SchedulesFindQuery {
  task?: string | null;
  paused?: boolean | null;
}

export interface SchedulesPreviewOfQuery {
  cron?: string | null;
  every?: number | null;
  tz?: string | null;
  n?: number;
  after?: string | null;
}

export interface SchedulesPreviewQuery {
  n?: number;
  after?: string | null;
}

export interface SchedulesHistoryQuery {
  limit?: number;
}

export interface FlowsFindQuery {
  limit?: number;
  cursor?: string | null;
}

export interface DeadFindQuery {
  status?: "any" | "cancelled" | "expired" | "manually_resolved" | "pending" | "permanently_failed" | "requeued";
  reason?: string | null;
  task?: string | null;
  queue?: string | null;
  fingerprint?: string | null;
  since?: string | null;
  until?: string | null;
  limit?: number;
  cursor?: string | null;
}

export interface DeadGroupsQuery {
  status?: "any" | "cancelled" | "expired" | "manually_resolved" | "pending" | "permanently_failed" | "requeued";
  limit?: number;
}

export interface LifecycleStaleQuery {
  task?: string | null;
  queue?: string | null;
  warnings?: boolean;
  limit?: number;
}

export interface LifecyclePolicyQuery {
  task?: string | null;
  queue?: string | null;
}

export interface MetricsSystemQuery {
  window?: string;
}

export interface MetricsQueuesQuery {
  window?: string;
}

export interface MetricsQueueQuery {
  window?: string;
}

export interface MetricsScaleQuery {
  target_wait?: string | null;
  window?: string;
}

export interface MetricsTasksQuery {
  queue?: string | null;
  window?: string;
  limit?: number;
}

export interface MetricsDaysQuery {
  count?: number;
  queue?: string | null;
  task?: string | null;
}

export interface MetricsSeriesQuery {
  queue?: string | null;
  task?: string | null;
  worker?: string | null;
  window?: string;
  step?: string | null;
  until?: string | null;
}

export interface AlertsActiveQuery {
  severity?: "critical" | "info" | "warning" | null;
  acknowledged?: boolean | null;
  pending?: boolean;
}

export interface AlertsHistoryQuery {
  rule?: string | null;
  before?: string | null;
  limit?: number;
  cursor?: string | null;
}

export interface EventsStreamQuery {
  types?: Array<string>;
  queue?: string | null;
  task?: string | null;
  since?: string | null;
}

export interface WebhooksDeliveriesQuery {
  limit?: number;
}

export interface SystemStorageQuery {
  pattern?: string;
  limit?: number;
}

export interface SystemAuditQuery {
  limit?: number;
  cursor?: string | null;
}

/** Jobs: search, submit, inspect and change them. */
export class JobsApi extends Resource {
  /** List and search jobs, newest first. */
  find(query: JobsFindQuery = {}): Promise<JobList> {
    return this.send<JobList>("GET", "/jobs", { query });
  }

  /** Submit a job. */
  create(body: JobRequest): Promise<JobRecord> {
    return this.send<JobRecord>("POST", "/jobs", { body });
  }

  /** Submit many jobs in one commit: all, or none if one is invalid. */
  createMany(body: NewJobs): Promise<StoredJobs> {
    return this.send<StoredJobs>("POST", "/jobs/bulk", { body });
  }

  /** Cancel the matching unfinished jobs. */
  cancelMany(body: JobFilter = {}): Promise<Changed> {
    return this.send<Changed>("POST", "/jobs/cancel", { body });
  }

  /** Run the matching finished jobs again; without a state, the failed ones. */
  retryMany(body: JobFilter = {}): Promise<Changed> {
    return this.send<Changed>("POST", "/jobs/retry", { body });
  }

  /** Run the matching scheduled, retrying or waiting jobs now. */
  promoteMany(body: JobFilter = {}): Promise<Changed> {
    return this.send<Changed>("POST", "/jobs/promote", { body });
  }

  /** Delete the matching jobs that are not running. */
  deleteMany(body: DeleteFilter = {}): Promise<Changed> {
    return this.send<Changed>("POST", "/jobs/delete", { body });
  }

  /** Return the log lines of a job, oldest first. */
  logs(jobId: string): Promise<Array<LogEntry>> {
    return this.send<Array<LogEntry>>("GET", `/jobs/${quoted(jobId)}/logs`);
  }

  /** Return chunks that a job has streamed, oldest first, with secrets redacted. */
  chunks(jobId: string, query: JobsChunksQuery = {}): Promise<ChunkList> {
    return this.send<ChunkList>("GET", `/jobs/${quoted(jobId)}/chunks`, { query });
  }

  /** Stream the chunks of a job as server-sent events, those that it streamed before and those that come. */
  stream(jobId: string, query: JobsStreamQuery = {}): AsyncGenerator<Chunk> {
    return this.listen<Chunk>(`/jobs/${quoted(jobId)}/stream`, { query });
  }

  /** Return the history of a job, oldest first. */
  history(jobId: string): Promise<Array<HistoryEntry>> {
    return this.send<Array<HistoryEntry>>("GET", `/jobs/${quoted(jobId)}/history`);
  }

  /** Explain why a job is not running, or what it is doing. */
  why(jobId: string): Promise<Why> {
    return this.send<Why>("GET", `/jobs/${quoted(jobId)}/why`);
  }

  /** Cancel an unfinished job. A running attempt is asked to stop, and its result is refused. */
  cancel(jobId: string): Promise<JobRecord> {
    return this.send<JobRecord>("POST", `/jobs/${quoted(jobId)}/cancel`);
  }

  /** Run a finished job again, with fresh attempts. */
  retry(jobId: string): Promise<JobRecord> {
    return this.send<JobRecord>("POST", `/jobs/${quoted(jobId)}/retry`);
  }

  /** Run a scheduled, retrying or waiting job now. */
  promote(jobId: string): Promise<JobRecord> {
    return this.send<JobRecord>("POST", `/jobs/${quoted(jobId)}/promote`);
  }

  /** Run a finished job anew from a step, as a new job that keeps the results of the steps before it. */
  fork(jobId: string, body: Fork = {}): Promise<JobRecord> {
    return this.send<JobRecord>("POST", `/jobs/${quoted(jobId)}/fork`, { body });
  }

  /** Return everything about one job, with secrets redacted. */
  get(jobId: string, query: JobsGetQuery = {}): Promise<JobRecord> {
    return this.send<JobRecord>("GET", `/jobs/${quoted(jobId)}`, { query });
  }

  /** Change the priority, time or queue of a job that has not started. */
  update(jobId: string, body: JobChange = {}): Promise<JobRecord> {
    return this.send<JobRecord>("PATCH", `/jobs/${quoted(jobId)}`, { body });
  }

  /** Delete a job that is not running, with its history, also from the archive. */
  delete(jobId: string): Promise<void> {
    return this.send<void>("DELETE", `/jobs/${quoted(jobId)}`);
  }
}

/** Questions that jobs ask people, their answers, and events for waiting jobs. */
export class QuestionsApi extends Resource {
  /** List the jobs that wait for an answer, the oldest first. */
  find(query: QuestionsFindQuery = {}): Promise<Array<OpenQuestion>> {
    return this.send<Array<OpenQuestion>>("GET", "/questions", { query });
  }

  /** Return the question that a job waits with. */
  get(jobId: string): Promise<OpenQuestion> {
    return this.send<OpenQuestion>("GET", `/jobs/${quoted(jobId)}/question`);
  }

  /** Answer the question of a job, once. The audit trail records who did. */
  answer(jobId: string, body: AnswerRequest): Promise<JobRecord> {
    return this.send<JobRecord>("POST", `/jobs/${quoted(jobId)}/answer`, { body });
  }

  /** Send an event to a job that waits, or will wait, for it. */
  signal(jobId: string, body: SignalRequest): Promise<JobRecord> {
    return this.send<JobRecord>("POST", `/jobs/${quoted(jobId)}/signal`, { body });
  }
}

/** Queues with their counts and rules. */
export class QueuesApi extends Resource {
  /** List the queues with their counts, by name. */
  find(): Promise<Array<QueueRecord>> {
    return this.send<Array<QueueRecord>>("GET", "/queues");
  }

  /** Return the next jobs in claim order. */
  peek(queue: string, query: QueuesPeekQuery = {}): Promise<Array<JobRecord>> {
    return this.send<Array<JobRecord>>("GET", `/queues/${quoted(queue)}/peek`, { query });
  }

  /** Return one queue with its counts and rules; an unknown queue is empty. */
  get(queue: string): Promise<QueueRecord> {
    return this.send<QueueRecord>("GET", `/queues/${quoted(queue)}`);
  }

  /** Change rules of a queue. All workers and callers apply them within a second. */
  configure(queue: string, body: QueueChange = {}): Promise<QueueRecord> {
    return this.send<QueueRecord>("PATCH", `/queues/${quoted(queue)}`, { body });
  }

  /** Delete a queue with its rules and finished jobs; 409 while it has unfinished jobs. */
  delete(queue: string): Promise<void> {
    return this.send<void>("DELETE", `/queues/${quoted(queue)}`);
  }

  /** Change rules of one key of a queue, such as a tenant's, in place of those of every key. */
  configureKey(queue: string, body: KeyChange): Promise<QueueRecord> {
    return this.send<QueueRecord>("PATCH", `/queues/${quoted(queue)}/keys`, { body });
  }

  /** Pause a queue: workers start none of its jobs. Running jobs continue. */
  pause(queue: string): Promise<QueueRecord> {
    return this.send<QueueRecord>("POST", `/queues/${quoted(queue)}/pause`);
  }

  /** Resume a queue. */
  resume(queue: string): Promise<QueueRecord> {
    return this.send<QueueRecord>("POST", `/queues/${quoted(queue)}/resume`);
  }

  /** Delete every unfinished job of a queue that does not run, also scheduled and retrying ones. */
  clear(queue: string): Promise<Changed> {
    return this.send<Changed>("POST", `/queues/${quoted(queue)}/clear`);
  }
}

/** Known tasks and their rules. */
export class TasksApi extends Resource {
  /** List the tasks that the web process knows or that have rules, by name. */
  findTasks(): Promise<Array<TaskRecord>> {
    return this.send<Array<TaskRecord>>("GET", "/tasks");
  }

  /** Change rules of a task. Workers apply them from their next claim on. */
  configureTask(task: string, body: TaskChange = {}): Promise<TaskRecord> {
    return this.send<TaskRecord>("PATCH", `/tasks/${quoted(task)}`, { body });
  }

  /** Pause a task: workers start none of its jobs. Other tasks continue. */
  pauseTask(task: string): Promise<TaskRecord> {
    return this.send<TaskRecord>("POST", `/tasks/${quoted(task)}/pause`);
  }

  /** Resume a task. */
  resumeTask(task: string): Promise<TaskRecord> {
    return this.send<TaskRecord>("POST", `/tasks/${quoted(task)}/resume`);
  }
}

/** Circuit breakers at which calls of external services have failed. */
export class BreakersApi extends Resource {
  /** List the circuit breakers with failures, open ones first. The others are closed. */
  find(): Promise<Array<BreakerStatus>> {
    return this.send<Array<BreakerStatus>>("GET", "/breakers");
  }

  /** Close a circuit breaker, as if nothing had failed; 404 if nothing has. Jobs that it put back run when due. */
  reset(breaker: string): Promise<void> {
    return this.send<void>("POST", `/breakers/${quoted(breaker)}/reset`);
  }
}

/** Workers, and commands to them. */
export class WorkersApi extends Resource {
  /** List the live workers. */
  find(): Promise<Array<WorkerInfo>> {
    return this.send<Array<WorkerInfo>>("GET", "/workers");
  }

  /** Return one worker as of its last heartbeat. */
  get(workerId: string): Promise<WorkerInfo> {
    return this.send<WorkerInfo>("GET", `/workers/${quoted(workerId)}`);
  }

  /** Pause a worker from its next heartbeat on. */
  pause(workerId: string): Promise<WorkerInfo> {
    return this.send<WorkerInfo>("POST", `/workers/${quoted(workerId)}/pause`);
  }

  /** Resume a paused worker. */
  resume(workerId: string): Promise<WorkerInfo> {
    return this.send<WorkerInfo>("POST", `/workers/${quoted(workerId)}/resume`);
  }

  /** Stop a worker after its running jobs. */
  stop(workerId: string): Promise<WorkerInfo> {
    return this.send<WorkerInfo>("POST", `/workers/${quoted(workerId)}/stop`);
  }

  /** Change the log level of a worker's process, until the next change or its end. */
  setLogLevel(workerId: string, body: LogLevelBody): Promise<WorkerInfo> {
    return this.send<WorkerInfo>("POST", `/workers/${quoted(workerId)}/log-level`, { body });
  }
}

/** Schedules, which enqueue jobs at their times. */
export class SchedulesApi extends Resource {
  /** List the schedules by id; filter by task or by paused. */
  find(query: SchedulesFindQuery = {}): Promise<Array<ScheduleRecord>> {
    return this.send<Array<ScheduleRecord>>("GET", "/schedules", { query });
  }

  /** Create a schedule. */
  create(body: NewSchedule): Promise<ScheduleRecord> {
    return this.send<ScheduleRecord>("POST", "/schedules", { body });
  }

  /** Return the next run times of a timing, to test an expression. */
  previewOf(query: SchedulesPreviewOfQuery = {}): Promise<Array<string>> {
    return this.send<Array<string>>("GET", "/schedule-preview", { query });
  }

  /** Return the next run times of a schedule. */
  preview(scheduleId: string, query: SchedulesPreviewQuery = {}): Promise<Array<string>> {
    return this.send<Array<string>>("GET", `/schedules/${quoted(scheduleId)}/preview`, { query });
  }

  /** Return the last runs of a schedule, newest first. */
  history(scheduleId: string, query: SchedulesHistoryQuery = {}): Promise<Array<ScheduleRun>> {
    return this.send<Array<ScheduleRun>>("GET", `/schedules/${quoted(scheduleId)}/history`, { query });
  }

  /** Pause a schedule. */
  pause(scheduleId: string): Promise<ScheduleRecord> {
    return this.send<ScheduleRecord>("POST", `/schedules/${quoted(scheduleId)}/pause`);
  }

  /** Resume a schedule. Runs missed during the pause are not made up. */
  resume(scheduleId: string): Promise<ScheduleRecord> {
    return this.send<ScheduleRecord>("POST", `/schedules/${quoted(scheduleId)}/resume`);
  }

  /** Enqueue the job of a schedule now, paused or not. */
  runNow(scheduleId: string): Promise<JobRecord> {
    return this.send<JobRecord>("POST", `/schedules/${quoted(scheduleId)}/run-now`);
  }

  /** Return one schedule. */
  get(scheduleId: string): Promise<ScheduleRecord> {
    return this.send<ScheduleRecord>("GET", `/schedules/${quoted(scheduleId)}`);
  }

  /** Change the timing, the call, the queue or the priority of a schedule. */
  update(scheduleId: string, body: ScheduleChange = {}): Promise<ScheduleRecord> {
    return this.send<ScheduleRecord>("PATCH", `/schedules/${quoted(scheduleId)}`, { body });
  }

  /** Delete a schedule and its history. The next worker creates a schedule declared in code again. */
  delete(scheduleId: string): Promise<void> {
    return this.send<void>("DELETE", `/schedules/${quoted(scheduleId)}`);
  }
}

/** Flows: jobs created together, and their dependencies. */
export class FlowsApi extends Resource {
  /** List flows, newest first. */
  find(query: FlowsFindQuery = {}): Promise<FlowList> {
    return this.send<FlowList>("GET", "/flows", { query });
  }

  /** Return one flow with its jobs and its graph. */
  get(flowId: string): Promise<FlowDetail> {
    return this.send<FlowDetail>("GET", `/flows/${quoted(flowId)}`);
  }

  /** Cancel all unfinished jobs of a flow. */
  cancel(flowId: string): Promise<Changed> {
    return this.send<Changed>("POST", `/flows/${quoted(flowId)}/cancel`);
  }

  /** Retry the failed and cancelled jobs of a flow, with the jobs cancelled because of them. */
  retry(flowId: string): Promise<Changed> {
    return this.send<Changed>("POST", `/flows/${quoted(flowId)}/retry`);
  }

  /** Change the budget of a flow that was enqueued with one. */
  setBudget(flowId: string, body: FlowBudget): Promise<Spending> {
    return this.send<Spending>("POST", `/flows/${quoted(flowId)}/budget`, { body });
  }
}

/** Dead letters: inspect failed jobs, requeue or resolve them. */
export class DeadApi extends Resource {
  /** List dead letters, newest first; pending ones unless a status is given. */
  find(query: DeadFindQuery = {}): Promise<DeadList> {
    return this.send<DeadList>("GET", "/dead", { query });
  }

  /** Make a dead letter of a job by hand. A job that has not started fails. */
  add(body: DeadLetterBody): Promise<DeadLetter> {
    return this.send<DeadLetter>("POST", "/dead", { body });
  }

  /** Group dead letters by the fingerprint of their error, largest group first. */
  groups(query: DeadGroupsQuery = {}): Promise<Array<DeadGroup>> {
    return this.send<Array<DeadGroup>>("GET", "/dead/groups", { query });
  }

  /** Count dead letters by reason. */
  stats(): Promise<Array<DeadStats>> {
    return this.send<Array<DeadStats>>("GET", "/dead/stats");
  }

  /** Requeue the pending dead letters that match, newest first. */
  requeueMany(body: RequeueMany = {}): Promise<BulkRequeue> {
    return this.send<BulkRequeue>("POST", "/dead/requeue", { body });
  }

  /** Delete dead letters that were resolved long ago. */
  purge(body: Purge = {}): Promise<Changed> {
    return this.send<Changed>("POST", "/dead/purge", { body });
  }

  /** Return the history of the job of a dead letter, oldest first. */
  history(deadLetterId: string): Promise<Array<HistoryEntry>> {
    return this.send<Array<HistoryEntry>>("GET", `/dead/${quoted(deadLetterId)}/history`);
  }

  /** Run the job of a pending dead letter again, with fresh attempts and a higher priority. */
  requeue(deadLetterId: string, body: Requeue = {}): Promise<RequeueResult> {
    return this.send<RequeueResult>("POST", `/dead/${quoted(deadLetterId)}/requeue`, { body });
  }

  /** Resolve a pending dead letter. Its job does not change. */
  resolve(deadLetterId: string, body: Resolve): Promise<DeadLetter> {
    return this.send<DeadLetter>("POST", `/dead/${quoted(deadLetterId)}/resolve`, { body });
  }

  /** Add a note to a dead letter of any status. */
  note(deadLetterId: string, body: NewNote): Promise<DeadLetter> {
    return this.send<DeadLetter>("POST", `/dead/${quoted(deadLetterId)}/notes`, { body });
  }

  /** Return one dead letter by its id, or the newest of the job with this id. */
  get(deadLetterId: string): Promise<DeadLetter> {
    return this.send<DeadLetter>("GET", `/dead/${quoted(deadLetterId)}`);
  }

  /** Delete a dead letter of any status. Its job does not change. */
  delete(deadLetterId: string): Promise<void> {
    return this.send<void>("DELETE", `/dead/${quoted(deadLetterId)}`);
  }
}

/** Stale jobs, retention, the archive, lifecycle policies, and erasures. */
export class LifecycleApi extends Resource {
  /** List stale jobs, the most overdue first. Nothing changes. */
  stale(query: LifecycleStaleQuery = {}): Promise<Array<StaleJob>> {
    return this.send<Array<StaleJob>>("GET", "/lifecycle/stale", { query });
  }

  /** Apply the on_stale action of stale jobs; a dry run unless `dry_run` is false. */
  dealWithStale(body: StaleRequest = {}): Promise<Array<StaleJob>> {
    return this.send<Array<StaleJob>>("POST", "/lifecycle/stale", { body });
  }

  /** Return how long jobs have been in their state, for each open state and queue. */
  ages(): Promise<Array<StateAges>> {
    return this.send<Array<StateAges>>("GET", "/lifecycle/ages");
  }

  /** Archive or delete finished jobs past their retention now; a dry run unless `dry_run` is false. */
  archive(body: ArchiveRequest = {}): Promise<ArchiveRun> {
    return this.send<ArchiveRun>("POST", "/lifecycle/archive", { body });
  }

  /** Return the size of the archive and the last retention run of a worker. */
  archiveStats(): Promise<ArchiveStats> {
    return this.send<ArchiveStats>("GET", "/lifecycle/archive");
  }

  /** Erase all that the store and its archive hold about the matching jobs; a dry run unless `dry_run` is false. */
  erase(body: EraseRequest = {}): Promise<Erasure> {
    return this.send<Erasure>("POST", "/lifecycle/erase", { body });
  }

  /** Return the number and size of archived jobs by the month they finished in. */
  archiveMonths(): Promise<Array<ArchiveMonth>> {
    return this.send<Array<ArchiveMonth>>("GET", "/lifecycle/archive/months");
  }

  /** Return an archived job to the store, to run again. */
  restore(jobId: string): Promise<JobRecord> {
    return this.send<JobRecord>("POST", `/lifecycle/archive/${quoted(jobId)}/restore`);
  }

  /** List the partitions of the archive, oldest first. */
  partitions(): Promise<Array<ArchivePartition>> {
    return this.send<Array<ArchivePartition>>("GET", "/lifecycle/partitions");
  }

  /** Return the lifecycle policy of a task, a queue or all jobs, and where each is set. */
  policy(query: LifecyclePolicyQuery = {}): Promise<LifecyclePolicy> {
    return this.send<LifecyclePolicy>("GET", "/lifecycle/policy", { query });
  }

  /** Change the lifecycle policy of a task or a queue. It overrides code and settings. */
  configure(body: PolicyChange = {}): Promise<LifecyclePolicy> {
    return this.send<LifecyclePolicy>("PATCH", "/lifecycle/policy", { body });
  }
}

/** Metrics of the store, current and past. */
export class MetricsApi extends Resource {
  /** Return throughput, errors and times of the window by queue, task and worker, and the waiting jobs. */
  system(query: MetricsSystemQuery = {}): Promise<MetricsSnapshot> {
    return this.send<MetricsSnapshot>("GET", "/metrics", { query });
  }

  /** Return the metrics of each queue. */
  queues(query: MetricsQueuesQuery = {}): Promise<Array<QueueMetrics>> {
    return this.send<Array<QueueMetrics>>("GET", "/metrics/queues", { query });
  }

  /** Return the metrics of one queue. */
  queue(queue: string, query: MetricsQueueQuery = {}): Promise<QueueMetrics> {
    return this.send<QueueMetrics>("GET", `/metrics/queues/${quoted(queue)}`, { query });
  }

  /** Return how many workers each queue wants, and how many seconds it is behind. */
  scale(query: MetricsScaleQuery = {}): Promise<StoreScale> {
    return this.send<StoreScale>("GET", "/metrics/scale", { query });
  }

  /** Return the metrics of tasks: most failed attempts first, then the busiest. */
  tasks(query: MetricsTasksQuery = {}): Promise<Array<TaskMetrics>> {
    return this.send<Array<TaskMetrics>>("GET", "/metrics/tasks", { query });
  }

  /** Return daily totals in UTC, today last. */
  days(query: MetricsDaysQuery = {}): Promise<Array<DayMetrics>> {
    return this.send<Array<DayMetrics>>("GET", "/metrics/days", { query });
  }

  /** Return a metric over time, such as `throughput`, `error_rate`, `wait_p95` or `depth`. */
  series(name: string, query: MetricsSeriesQuery = {}): Promise<MetricSeries> {
    return this.send<MetricSeries>("GET", `/metrics/series/${quoted(name)}`, { query });
  }
}

/** Alerts, their history, their rules and silences. */
export class AlertsApi extends Resource {
  /** List the firing alerts, most severe first. */
  active(query: AlertsActiveQuery = {}): Promise<Array<Alert>> {
    return this.send<Array<Alert>>("GET", "/alerts", { query });
  }

  /** List the history of alerts, newest first. The `cursor` of the last entry continues the list. */
  history(query: AlertsHistoryQuery = {}): Promise<Array<AlertChange>> {
    return this.send<Array<AlertChange>>("GET", "/alert-history", { query });
  }

  /** Acknowledge an alert, which stops its repeated notifications. */
  acknowledge(alertId: string, body: NoteBody = {}): Promise<Alert> {
    return this.send<Alert>("POST", `/alerts/${quoted(alertId)}/acknowledge`, { body });
  }

  /** Resolve an alert by hand. It fires again if its rule still holds. */
  resolve(alertId: string, body: NoteBody = {}): Promise<Alert> {
    return this.send<Alert>("POST", `/alerts/${quoted(alertId)}/resolve`, { body });
  }

  /** Return one alert by its id, or the only open alert of the rule with this name. */
  get(alertId: string): Promise<Alert> {
    return this.send<Alert>("GET", `/alerts/${quoted(alertId)}`);
  }

  /** List the rules with their states, by name. */
  rules(): Promise<Array<AlertRule>> {
    return this.send<Array<AlertRule>>("GET", "/alert-rules");
  }

  /** Create a rule. */
  createRule(body: NewRule): Promise<AlertRule> {
    return this.send<AlertRule>("POST", "/alert-rules", { body });
  }

  /** Evaluate a rule that is not stored. No notification is sent. */
  testRule(body: RuleFields = {}): Promise<Array<AlertReading>> {
    return this.send<Array<AlertReading>>("POST", "/alert-rule-test", { body });
  }

  /** Evaluate a stored rule. No notification is sent. */
  testStoredRule(name: string): Promise<Array<AlertReading>> {
    return this.send<Array<AlertReading>>("GET", `/alert-rules/${quoted(name)}/test`);
  }

  /** Return one rule with its state. */
  rule(name: string): Promise<AlertRule> {
    return this.send<AlertRule>("GET", `/alert-rules/${quoted(name)}`);
  }

  /** Change a rule, also a built-in one. */
  updateRule(name: string, body: RuleFields = {}): Promise<AlertRule> {
    return this.send<AlertRule>("PATCH", `/alert-rules/${quoted(name)}`, { body });
  }

  /** Delete a rule. A built-in rule returns to its defaults. */
  deleteRule(name: string): Promise<void> {
    return this.send<void>("DELETE", `/alert-rules/${quoted(name)}`);
  }

  /** List the active silences. */
  silences(): Promise<Array<AlertSilence>> {
    return this.send<Array<AlertSilence>>("GET", "/alert-silences");
  }

  /** Mute notifications for a time. */
  silence(body: NewSilence): Promise<AlertSilence> {
    return this.send<AlertSilence>("POST", "/alert-silences", { body });
  }

  /** End a silence. */
  unsilence(silenceId: string): Promise<void> {
    return this.send<void>("DELETE", `/alert-silences/${quoted(silenceId)}`);
  }
}

/** Alert channels: where notifications are sent. */
export class ChannelsApi extends Resource {
  /** List the channels with their health, without secrets. */
  find(): Promise<Array<AlertChannel>> {
    return this.send<Array<AlertChannel>>("GET", "/alert-channels");
  }

  /** Create a channel. */
  create(body: NewChannel): Promise<AlertChannel> {
    return this.send<AlertChannel>("POST", "/alert-channels", { body });
  }

  /** Send a test message now and return whether the channel accepted it. */
  test(name: string): Promise<TestOutcome> {
    return this.send<TestOutcome>("POST", `/alert-channels/${quoted(name)}/test`);
  }

  /** Return one channel. */
  get(name: string): Promise<AlertChannel> {
    return this.send<AlertChannel>("GET", `/alert-channels/${quoted(name)}`);
  }

  /** Change a stored channel. Omitted fields and secrets stay. */
  update(name: string, body: ChannelFields = {}): Promise<AlertChannel> {
    return this.send<AlertChannel>("PATCH", `/alert-channels/${quoted(name)}`, { body });
  }

  /** Delete a stored channel that no rule uses. */
  delete(name: string): Promise<void> {
    return this.send<void>("DELETE", `/alert-channels/${quoted(name)}`);
  }
}

/** Events of the store, live and recent. */
export class EventsApi extends Resource {
  /** Stream events as server-sent events. */
  stream(query: EventsStreamQuery = {}): AsyncGenerator<Event> {
    return this.listen<Event>("/events", { query });
  }
}

/** Webhooks: HTTP endpoints that receive events. */
export class WebhooksApi extends Resource {
  /** List the webhooks, oldest first. The query of a URL is hidden, because it may contain a token. */
  find(): Promise<Array<Webhook>> {
    return this.send<Array<Webhook>>("GET", "/webhooks");
  }

  /** Create a webhook. A generated secret is returned here and never again. */
  create(body: NewWebhook): Promise<Webhook> {
    return this.send<Webhook>("POST", "/webhooks", { body });
  }

  /** List the newest deliveries of a webhook. Each delivery is a job. */
  deliveries(webhookId: string, query: WebhooksDeliveriesQuery = {}): Promise<Array<JobRecord>> {
    return this.send<Array<JobRecord>>("GET", `/webhooks/${quoted(webhookId)}/deliveries`, { query });
  }

  /** Pause a webhook. Events during the pause are not sent. */
  pause(webhookId: string): Promise<Webhook> {
    return this.send<Webhook>("POST", `/webhooks/${quoted(webhookId)}/pause`);
  }

  /** Resume a webhook, with events from now on. */
  resume(webhookId: string): Promise<Webhook> {
    return this.send<Webhook>("POST", `/webhooks/${quoted(webhookId)}/resume`);
  }

  /** Send one event of the type `webhook.test` now and return whether it was accepted. */
  test(webhookId: string): Promise<TestOutcome> {
    return this.send<TestOutcome>("POST", `/webhooks/${quoted(webhookId)}/test`);
  }

  /** Return one webhook. */
  get(webhookId: string): Promise<Webhook> {
    return this.send<Webhook>("GET", `/webhooks/${quoted(webhookId)}`);
  }

  /** Change a webhook. Pending deliveries go to the new URL, too. */
  update(webhookId: string, body: WebhookChange = {}): Promise<Webhook> {
    return this.send<Webhook>("PATCH", `/webhooks/${quoted(webhookId)}`, { body });
  }

  /** Delete a webhook. Pending deliveries are dropped. */
  delete(webhookId: string): Promise<void> {
    return this.send<void>("DELETE", `/webhooks/${quoted(webhookId)}`);
  }
}

/** Version, store, settings and the audit trail. */
export class SystemApi extends Resource {
  /** Return version, store and settings. */
  get(): Promise<System> {
    return this.send<System>("GET", "/system");
  }

  /** List the tables or keys of the store with kind, entries and bytes, without values. */
  storage(query: SystemStorageQuery = {}): Promise<Array<StoragePart>> {
    return this.send<Array<StoragePart>>("GET", "/system/storage", { query });
  }

  /** The caller and its role. */
  me(): Promise<Me> {
    return this.send<Me>("GET", "/me");
  }

  /** List the audit trail of changes over HTTP, newest first. */
  audit(query: SystemAuditQuery = {}): Promise<AuditList> {
    return this.send<AuditList>("GET", "/audit", { query });
  }
}

/** For workers in any language: claim jobs, renew their leases, settle them. */
export class WorkerApi extends Resource {
  /** Claim jobs, or wait for some. */
  claim(body: ClaimParameters): Promise<ClaimedJobs> {
    return this.send<ClaimedJobs>("POST", "/worker/claim", { body });
  }

  /** Renew the leases of running jobs, store their progress and logs, and return the lost ones. */
  renew(body: HeartbeatRequest): Promise<HeartbeatResult> {
    return this.send<HeartbeatResult>("POST", "/worker/renew", { body });
  }

  /** Read the steps that earlier runs of a job stored, and the events that came for it. */
  steps(body: StepsRequest): Promise<StoredSteps> {
    return this.send<StoredSteps>("POST", "/worker/steps", { body });
  }

  /** Store the result of a step, for good, before the run continues. */
  step(body: FinishedStep): Promise<void> {
    return this.send<void>("POST", "/worker/step", { body });
  }

  /** Settle attempts. */
  settle(body: SettleRequest): Promise<SettledJobs> {
    return this.send<SettledJobs>("POST", "/worker/settle", { body });
  }

  /** Unregister a worker, after it has settled or released its jobs. */
  leave(body: Unregister): Promise<void> {
    return this.send<void>("POST", "/worker/leave", { body });
  }
}

/** A client of one headrace server; each property is a resource of its REST API. */
export class HeadraceClient {
  readonly jobs: JobsApi;
  readonly questions: QuestionsApi;
  readonly queues: QueuesApi;
  readonly tasks: TasksApi;
  readonly breakers: BreakersApi;
  readonly workers: WorkersApi;
  readonly schedules: SchedulesApi;
  readonly flows: FlowsApi;
  readonly dead: DeadApi;
  readonly lifecycle: LifecycleApi;
  readonly metrics: MetricsApi;
  readonly alerts: AlertsApi;
  readonly channels: ChannelsApi;
  readonly events: EventsApi;
  readonly webhooks: WebhooksApi;
  readonly system: SystemApi;
  readonly worker: WorkerApi;

  constructor(url: string = "http://127.0.0.1:8080", options: ClientOptions = {}) {
    const connection = new Connection(url, options);
    this.jobs = new JobsApi(connection);
    this.questions = new QuestionsApi(connection);
    this.queues = new QueuesApi(connection);
    this.tasks = new TasksApi(connection);
    this.breakers = new BreakersApi(connection);
    this.workers = new WorkersApi(connection);
    this.schedules = new SchedulesApi(connection);
    this.flows = new FlowsApi(connection);
    this.dead = new DeadApi(connection);
    this.lifecycle = new LifecycleApi(connection);
    this.metrics = new MetricsApi(connection);
    this.alerts = new AlertsApi(connection);
    this.channels = new ChannelsApi(connection);
    this.events = new EventsApi(connection);
    this.webhooks = new WebhooksApi(connection);
    this.system = new SystemApi(connection);
    this.worker = new WorkerApi(connection);
  }
}
