// Keeps the page fresh. A stream tells that something changed; the page then asks for its own parts again, at most once
// a second, and only while somebody can see it. Without a stream it asks every few seconds.
import { morph } from "./morph.js";
import { tellTimes } from "./times.js";

const LEAST = 1000; // ms between two looks
const POLL = 3000;
const PATIENCE = 8000; // ms that a stream may take to open
const SLOWEST = 30000;

let stream = null;
let due = null;
let looking = false;
let again = false;
let last = 0;
let changed = 0; // when something happened that this page should show
let failures = 0;

export function startLive() {
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : wake()));
  window.addEventListener("pagehide", rest);
  window.addEventListener("pageshow", (event) => event.persisted && wake());
  tails().forEach(follow);
  wake(false);
  if (isAwaited()) later(LEAST);
}

function wake(look = true) {
  connect();
  if (look) refresh();
}

function rest() {
  // A browser keeps few connections to one host: a page nobody sees gives its own back.
  stream?.close();
  stream = null;
  clearTimeout(due);
  due = null;
}

function connect() {
  if (stream || document.hidden) return;
  stream = new EventSource(`${document.body.dataset.root}/live`);
  const opening = setTimeout(() => stream?.readyState !== EventSource.OPEN && tell("polling"), PATIENCE);
  stream.onopen = () => {
    clearTimeout(opening);
    failures = 0;
    tell("live");
    clearTimeout(due);
    due = null;
    // What happened after the page was made and before the server listens for it is told to nobody.
    notice();
    setTimeout(notice, LEAST);
  };
  stream.addEventListener("changed", (event) => concerns(event.data) && notice());
  stream.onerror = () => {
    if (stream?.readyState === EventSource.CLOSED) stream = null; // refused: the browser does not try again
    tell(failures ? "lost" : "polling");
    later(POLL);
  };
  if (isPolling()) later(POLL);
}

// Something on the page was still being counted when it was made.
function isAwaited() {
  return document.querySelector("[data-soon]") !== null;
}

function notice() {
  changed = performance.now();
  refresh();
}

function isPolling() {
  return stream?.readyState !== EventSource.OPEN;
}

// Topics are "queue:emails", "job:…"; a page without topics is about everything, and "*" is about every page.
function concerns(data) {
  const mine = document.getElementById("main").dataset.topics.split(" ").filter(Boolean);
  if (!mine.length) return true;
  let topics;
  try {
    topics = JSON.parse(data);
  } catch {
    return true;
  }
  return topics.includes("*") || topics.some((topic) => mine.includes(topic));
}

function later(ms) {
  if (due === null && !document.hidden) due = setTimeout(() => { due = null; look(); }, ms);
}

export function refresh() {
  if (looking) again = true;
  else if (due !== null && isPolling()) { clearTimeout(due); due = null; later(0); }
  else later(Math.max(0, last + LEAST - Date.now()));
}

async function look() {
  looking = true;
  last = Date.now();
  const began = performance.now();
  let isOld = false;
  try {
    const answer = await fetch(location.href, { headers: { "X-Headrace-Part": "main" }, credentials: "same-origin" });
    if (answer.status === 401 || answer.redirected) return location.reload();
    if (answer.status >= 500 || answer.status === 429) throw new Error(String(answer.status));
    take(await answer.text());
    // Counts are shared by all who look, for a moment: they may be older than what this look was for.
    isOld = began - Number(answer.headers.get("X-Headrace-Age")) < changed;
    if (failures) tell(isPolling() ? "polling" : "live");
    failures = 0;
  } catch {
    failures += 1;
    tell("lost");
  } finally {
    looking = false;
  }
  if (again || isOld) { again = false; refresh(); }
  else if (isAwaited()) later(LEAST);
  else if (isPolling() || failures) { if (!stream) connect(); later(Math.min(POLL * 2 ** Math.min(failures, 4), SLOWEST)); }
}

function take(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  const main = fresh.getElementById("main");
  if (!main) return;
  tellTimes(fresh);
  const here = document.querySelector(".here")?.id;
  const read = new Set([...tails()].filter((log) => !isAtEnd(log)).map((log) => log.id));
  for (const id of ["nav", "main"]) {
    const part = fresh.getElementById(id);
    if (part) morph(document.getElementById(id), part);
  }
  if (here) document.getElementById(here)?.classList.add("here");
  tails().forEach((log) => read.has(log.id) || follow(log));
  if (fresh.title) document.title = fresh.title;
  document.dispatchEvent(new CustomEvent("headrace:fresh"));
}

function tails() {
  return document.querySelectorAll("[data-tail]");
}

// A log is followed from its first line on while its end is in sight; who scrolled up is reading.
function isAtEnd(log) {
  return log.scrollHeight - log.scrollTop - log.clientHeight < 24;
}

function follow(log) {
  log.scrollTop = log.scrollHeight;
}

const WORDS = { live: "live", polling: `asking every ${POLL / 1000} s`, lost: "no connection", off: "static page" };

function tell(state) {
  const link = document.getElementById("link");
  if (link.dataset.link === state) return;
  link.dataset.link = state;
  link.querySelector("span").textContent = WORDS[state];
}
