// A headrace worker for Node 18+, without a dependency:
//   HEADRACE_TOKEN=… node worker.mjs http://localhost:8080
// It claims jobs of the tasks below, renews them while they run, and settles them in batches.
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const tasks = {
  "node.add": async (job) => job.args[0] + job.args[1],
  "node.flaky": async (job) => {
    if (job.attempt === 1) throw new Error("not the first time");
    return { attempt: job.attempt };
  },
  "node.slow": async (job, { progress, signal }) => {
    for (let done = 1; done <= 10 && !signal.aborted; done++) {
      await sleep(job.args[0] / 10);
      progress(done / 10);
    }
  },
  "node.order": async (job, { step, spawn }) => {
    const receipt = await step("charge", () => ({ order: job.args[0], run: job.attempt }));
    if (job.attempt === 1) throw new Error("the mail server is away"); // the next run does not charge again
    spawn({ task: "node.add", args: [receipt.order, receipt.run], queue: "node" });
    return receipt;
  },
};

const url = `${process.argv[2]}/api/v1`;
const worker = `node-${hostname()}-${process.pid}`;
const lease = 6, concurrency = 4, queues = { node: 1 };
const running = new Map(); // id -> { version, abort, progress }
let ended = []; // outcomes that are not settled yet
let stopping = false, completed = 0, failed = 0;

async function post(path, body) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${process.env.HEADRACE_TOKEN}` };
  const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify({ worker, ...body }) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.status === 204 ? null : answer.json();
}

// step(name, work) of one run: work runs once in all runs of the job, and its result is stored before the run continues.
function stepsOf({ id, version }) {
  let known;
  return async (name, work) => {
    known ??= (await post("/worker/steps", { id, version })).steps;
    if (!(name in known)) {
      known[name] = (await work()) ?? null;
      await post("/worker/step", { id, version, name, result: known[name] });
    }
    return known[name];
  };
}

async function run(job) {
  const { id, version } = job;
  const held = { version, abort: new AbortController(), progress: undefined };
  const signal = held.abort.signal, spawned = [];
  running.set(id, held);
  try {
    const progress = (p) => (held.progress = p), spawn = (call) => void spawned.push(call);
    const result = await tasks[job.task](job, { progress, signal, spawn, step: stepsOf(job) });
    if (!signal.aborted) ended.push({ id, version, outcome: "success", result: result ?? null, spawn: spawned });
    completed += 1;
  } catch (error) {
    const told = { type: error.name, message: String(error.message), traceback: error.stack ?? "" };
    ended.push({ id, version, outcome: "failure", error: told });
    failed += 1;
  }
  running.delete(id);
}

async function beat() {
  const jobs = [...running].map(([id, { version, progress }]) => ({ id, version, progress }));
  const about = { tasks: Object.keys(tasks), queues, concurrency, completed, failed, host: hostname(), pid: process.pid };
  const { lost, command } = await post("/worker/renew", { jobs, lease, ...about });
  for (const id of lost) running.get(id)?.abort.abort(); // another worker has it, or it was cancelled
  if (command === "stop") stopping = true;
}

const complain = (error) => console.error(String(error));
const pulse = setInterval(() => beat().catch(complain), (lease * 1000) / 3);
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => (stopping = true));

while (!stopping || running.size || ended.length) {
  try {
    const outcomes = ended.splice(0, 1000);
    if (outcomes.length) await post("/worker/settle", { outcomes }).catch((e) => { ended.unshift(...outcomes); throw e; });
    const free = stopping ? 0 : concurrency - running.size;
    const wait = running.size ? 0 : 5;
    const { jobs } = free ? await post("/worker/claim", { tasks: Object.keys(tasks), queues, limit: free, lease, wait }) : { jobs: [] };
    jobs.forEach(run);
    if (running.size && !ended.length) await sleep(20);
  } catch (error) {
    complain(error);
    await sleep(1000);
  }
}
clearInterval(pulse);
await post("/worker/leave", {});
