// A client of headrace's REST API, version VERSION_OF_API. One file without dependencies, for Node 18+, Deno, Bun and
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
