// Ctrl-K: the command palette. The server returns views, queues, tasks, a job by its id, and actions.
import { send } from "./forms.js";
import { toggleTheme } from "./theme.js";

const dialog = document.getElementById("palette");
const field = document.getElementById("palette-text");
const list = document.getElementById("palette-list");
let entries = [];
let selected = 0;
let listedFor = null; // the typed text that the list answers
let request = null;
let timer = null;

export function openPalette() {
  if (dialog.open) return;
  field.value = "";
  dialog.showModal();
  search();
}

async function search() {
  clearTimeout(timer);
  request?.abort();
  request = new AbortController();
  const typed = field.value;
  const path = `${document.body.dataset.root}/palette?${new URLSearchParams({ q: typed })}`;
  try {
    const answer = await fetch(path, { signal: request.signal, credentials: "same-origin" });
    entries = answer.ok ? await answer.json() : [];
  } catch (error) {
    if (error.name === "AbortError") return;
    entries = [];
  }
  selected = 0;
  listedFor = typed;
  draw();
}

function draw() {
  list.replaceChildren(...entries.map(listItem));
  if (!entries.length) {
    const empty = document.createElement("li");
    empty.className = "nothing";
    empty.textContent = "No matches.";
    list.append(empty);
  }
  showSelected();
}

function listItem(entry, index) {
  const item = document.createElement("li");
  item.id = `palette-${index}`;
  item.setAttribute("role", "option");
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  icon.classList.add("icon");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${entry.icon}`);
  icon.append(use);
  const name = document.createElement("span");
  name.textContent = entry.name;
  const kind = document.createElement("small");
  kind.textContent = entry.kind;
  item.append(icon, name, kind);
  item.addEventListener("click", () => choose(entry));
  return item;
}

function showSelected() {
  [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === selected && entries.length > 0)));
  const item = list.children[selected];
  item?.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-activedescendant", item?.id ?? "");
}

function choose(entry) {
  dialog.close();
  if (entry.goto) location.assign(entry.goto);
  else if (entry.post) send(entry.post, [["form_token", document.body.dataset.token]]);
  else if (entry.script === "theme") toggleTheme();
}

async function onKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    selected = (selected + step + entries.length) % Math.max(entries.length, 1);
    showSelected();
  } else if (event.key === "Enter") {
    event.preventDefault();
    if (listedFor !== field.value) await search(); // the list still answers an earlier text
    if (entries[selected]) choose(entries[selected]);
  }
}

export function startPalette() {
  document.getElementById("find").addEventListener("click", openPalette);
  field.addEventListener("keydown", onKey);
  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 60); });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
