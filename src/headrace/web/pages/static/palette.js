// Ctrl-K: finds views, queues, tasks, a job by its id, and what can be done; all from one list that the server makes.
import { send } from "./forms.js";
import { toggleTheme } from "./theme.js";

const dialog = document.getElementById("palette");
const field = document.getElementById("palette-text");
const list = document.getElementById("palette-list");
let found = [];
let at = 0;
let answered = null; // what was typed when the list was made
let asking = null;
let waiting = null;

export function openPalette() {
  if (dialog.open) return;
  field.value = "";
  dialog.showModal();
  ask();
}

async function ask() {
  clearTimeout(waiting);
  asking?.abort();
  asking = new AbortController();
  const typed = field.value;
  const path = `${document.body.dataset.root}/palette?${new URLSearchParams({ q: typed })}`;
  try {
    const answer = await fetch(path, { signal: asking.signal, credentials: "same-origin" });
    found = answer.ok ? await answer.json() : [];
  } catch (error) {
    if (error.name === "AbortError") return;
    found = [];
  }
  at = 0;
  answered = typed;
  draw();
}

function draw() {
  list.replaceChildren(...found.map(entry));
  if (!found.length) {
    const nothing = document.createElement("li");
    nothing.className = "nothing";
    nothing.textContent = "Nothing is called that.";
    list.append(nothing);
  }
  mark();
}

function entry(one, place) {
  const item = document.createElement("li");
  item.id = `palette-${place}`;
  item.setAttribute("role", "option");
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  icon.classList.add("icon");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${one.icon}`);
  icon.append(use);
  const name = document.createElement("span");
  name.textContent = one.name;
  const kind = document.createElement("small");
  kind.textContent = one.kind;
  item.append(icon, name, kind);
  item.addEventListener("click", () => choose(one));
  return item;
}

function mark() {
  [...list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === at && found.length > 0)));
  const item = list.children[at];
  item?.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-activedescendant", item?.id ?? "");
}

function choose(one) {
  dialog.close();
  if (one.goto) location.assign(one.goto);
  else if (one.post) send(one.post, [["form_token", document.body.dataset.token]]);
  else if (one.script === "theme") toggleTheme();
}

async function pressed(event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by) {
    event.preventDefault();
    at = (at + by + found.length) % Math.max(found.length, 1);
    mark();
  } else if (event.key === "Enter") {
    event.preventDefault();
    if (answered !== field.value) await ask(); // typed faster than answered: the list is still another one's
    if (found[at]) choose(found[at]);
  }
}

export function startPalette() {
  document.getElementById("find").addEventListener("click", openPalette);
  field.addEventListener("keydown", pressed);
  field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 60); });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
