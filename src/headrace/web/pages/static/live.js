// Keeps the page up to date. An event stream reports changes; the page then reloads its content, at most once a second,
// and only while it is visible. Without a stream it polls every few seconds.
import { morph } from "./morph.js";
import { updateTimes } from "./times.js";

const MIN_INTERVAL = 1000; // ms between two reloads
const POLL = 3000;
const OPEN_TIMEOUT = 8000; // ms that a stream may take to open
const MAX_INTERVAL = 30000;

let stream = null;
let timer = null;
let isLoading = false;
let hasMissedChange = false;
let loadedAt = 0;
let changedAt = 0; // time of the last change that this page should show
let failures = 0;

export function startLive() {
  document.addEventListener("visibilitychange", () => (document.hidden ? pause() : resume()));
  window.addEventListener("pagehide", pause);
  window.addEventListener("pageshow", (event) => event.persisted && resume());
  followedLogs().forEach(scrollToEnd);
  resume(false);
  if (isCounting()) scheduleReload(MIN_INTERVAL);
}

function resume(shouldReload = true) {
  connect();
  if (shouldReload) refresh();
}

function pause() {
  // A browser has few connections to one host: a hidden page closes its own.
  stream?.close();
  stream = null;
  clearTimeout(timer);
  timer = null;
}

function connect() {
  if (stream || document.hidden) return;
  stream = new EventSource(`${document.body.dataset.root}/live`);
  const opening = setTimeout(() => stream?.readyState !== EventSource.OPEN && showState("polling"), OPEN_TIMEOUT);
  stream.onopen = () => {
    clearTimeout(opening);
    failures = 0;
    showState("live");
    clearTimeout(timer);
    timer = null;
    // Changes between the rendering of the page and the opening of the stream are not sent.
    onChange();
    setTimeout(onChange, MIN_INTERVAL);
  };
  stream.addEventListener("changed", (event) => isRelevant(event.data) && onChange());
  stream.onerror = () => {
    if (stream?.readyState === EventSource.CLOSED) stream = null; // refused: the browser does not reconnect
    showState(failures ? "lost" : "polling");
    scheduleReload(POLL);
  };
  if (isPolling()) scheduleReload(POLL);
}

// Whether a value of the page was still being counted when it was rendered.
function isCounting() {
  return document.querySelector("[data-counting]") !== null;
}

function onChange() {
  changedAt = performance.now();
  refresh();
}

function isPolling() {
  return stream?.readyState !== EventSource.OPEN;
}

// Topics are such as "queue:emails" or "job:…". A page without topics shows every change; "*" concerns every page.
function isRelevant(data) {
  const pageTopics = document.getElementById("main").dataset.topics.split(" ").filter(Boolean);
  if (!pageTopics.length) return true;
  let topics;
  try {
    topics = JSON.parse(data);
  } catch {
    return true;
  }
  return topics.includes("*") || topics.some((topic) => pageTopics.includes(topic));
}

function scheduleReload(ms) {
  if (timer === null && !document.hidden) timer = setTimeout(() => { timer = null; reload(); }, ms);
}

export function refresh() {
  if (isLoading) hasMissedChange = true;
  else if (timer !== null && isPolling()) { clearTimeout(timer); timer = null; scheduleReload(0); }
  else scheduleReload(Math.max(0, loadedAt + MIN_INTERVAL - Date.now()));
}

async function reload() {
  isLoading = true;
  loadedAt = Date.now();
  const began = performance.now();
  let isOld = false;
  try {
    const answer = await fetch(location.href, { headers: { "X-Headrace-Part": "main" }, credentials: "same-origin" });
    if (answer.status === 401 || answer.redirected) return location.reload();
    if (answer.status >= 500 || answer.status === 429) throw new Error(String(answer.status));
    apply(await answer.text());
    // All requests share counts for a moment: they may be older than the change that caused this reload.
    isOld = began - Number(answer.headers.get("X-Headrace-Age")) < changedAt;
    if (failures) showState(isPolling() ? "polling" : "live");
    failures = 0;
  } catch {
    failures += 1;
    showState("lost");
  } finally {
    isLoading = false;
  }
  if (hasMissedChange || isOld) { hasMissedChange = false; refresh(); }
  else if (isCounting()) scheduleReload(MIN_INTERVAL);
  else if (isPolling() || failures) { if (!stream) connect(); scheduleReload(Math.min(POLL * 2 ** Math.min(failures, 4), MAX_INTERVAL)); }
}

function apply(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  const main = fresh.getElementById("main");
  if (!main) return;
  updateTimes(fresh);
  const current = document.querySelector(".current")?.id;
  const scrolledUp = new Set([...followedLogs()].filter((log) => !isAtEnd(log)).map((log) => log.id));
  for (const id of ["nav", "main"]) {
    const part = fresh.getElementById(id);
    if (part) morph(document.getElementById(id), part);
  }
  if (current) document.getElementById(current)?.classList.add("current");
  followedLogs().forEach((log) => scrolledUp.has(log.id) || scrollToEnd(log));
  if (fresh.title) document.title = fresh.title;
  document.dispatchEvent(new CustomEvent("headrace:updated"));
}

function followedLogs() {
  return document.querySelectorAll("[data-tail]");
}

// A log scrolls to new lines while its end is visible; it stays in place after the user scrolled up.
function isAtEnd(log) {
  return log.scrollHeight - log.scrollTop - log.clientHeight < 24;
}

function scrollToEnd(log) {
  log.scrollTop = log.scrollHeight;
}

const STATE_TEXTS = { live: "live", polling: `polling every ${POLL / 1000} s`, lost: "no connection", off: "static page" };

function showState(state) {
  const link = document.getElementById("link");
  if (link.dataset.link === state) return;
  link.dataset.link = state;
  link.querySelector("span").textContent = STATE_TEXTS[state];
}
