// Formats times relative to now and in the user's time zone, in the format of formatting.py.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });

const seconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

function distance(ms) {
  const elapsed = Math.abs(ms) / 1000;
  if (elapsed < 1) return "now";
  const [length, unit] = UNITS.find(([length]) => elapsed >= length);
  const text = `${Math.floor(elapsed / length)} ${unit}`;
  return ms > 0 ? `${text} ago` : `in ${text}`;
}

export function span(ms) {
  const seconds = Math.max(ms, 0) / 1000;
  if (seconds < 0.9995) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const whole = Math.round(seconds);
  const index = UNITS.findIndex(([length]) => whole >= length);
  const [length, unit] = UNITS[index];
  const [below, belowUnit] = UNITS[index + 1] ?? [1, "s"];
  const first = Math.floor(whole / length);
  const second = Math.floor((whole % length) / below);
  return second && first < 100 ? `${first} ${unit} ${second} ${belowUnit}` : `${first} ${unit}`;
}

export function updateTimes(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    if ("clock" in time.dataset) set(time, clock.format(moment));
    if ("clockSeconds" in time.dataset) set(time, seconds.format(moment));
    if ("exact" in time.dataset) set(time, exact.format(moment));
    if ("when" in time.dataset) set(time, distance(Date.now() - moment));
    if ("since" in time.dataset) set(time, span(Date.now() - moment));
    const title = exact.format(moment);
    if (time.hasAttribute("title") && time.title !== title) time.title = title;
  }
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function startTimes() {
  updateTimes();
  setInterval(() => document.hidden || updateTimes(), 1000);
}
