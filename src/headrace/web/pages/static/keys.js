// The keyboard: rows by j and k, views by g and a letter, the search by /, all of it by ?.
import { openPalette } from "./palette.js";
import { toggleTheme } from "./theme.js";

const PATIENCE = 1500; // ms between g and its letter
let going = 0;

function isTyping(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
}

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("here"));
  const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  rows[at]?.classList.remove("here");
  next.classList.add("here");
  next.querySelector("[data-open]")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function pick() {
  const box = document.querySelector("tr.here [name=id]");
  box?.click();
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  x: pick,
  t: toggleTheme,
  g: () => (going = Date.now()),
  "/": () => {
    const field = document.querySelector("[data-search]");
    if (field) field.select();
    else openPalette();
  },
  "?": () => document.getElementById("keys").showModal(),
};

function pressed(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && isTyping(event.target)) event.target.blur();
  if (isTyping(event.target)) return;
  if (Date.now() - going < PATIENCE) {
    going = 0;
    const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (link) {
      event.preventDefault();
      link.click();
      return;
    }
  }
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

export function startKeys() {
  document.addEventListener("keydown", pressed);
  document.getElementById("keys-open").addEventListener("click", KEYS["?"]);
}
