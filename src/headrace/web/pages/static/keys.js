// Keys: j and k select rows, g and a letter opens a view, / searches, ? lists all keys.
import { openPalette } from "./palette.js";
import { toggleTheme } from "./theme.js";

const GO_TIMEOUT = 1500; // ms between g and its letter
let goPressedAt = 0;

function isTyping(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
}

function selectRow(step) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  if (!rows.length) return;
  const index = rows.findIndex((row) => row.classList.contains("current"));
  const next = rows[Math.min(Math.max(index + step, 0), rows.length - 1)];
  rows[index]?.classList.remove("current");
  next.classList.add("current");
  next.querySelector("[data-open]")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function pickRow() {
  const box = document.querySelector("tr.current [name=id]");
  box?.click();
}

const KEYS = {
  j: () => selectRow(1),
  k: () => selectRow(-1),
  x: pickRow,
  t: toggleTheme,
  g: () => (goPressedAt = Date.now()),
  "/": () => {
    const field = document.querySelector("[data-search]");
    if (field) field.select();
    else openPalette();
  },
  "?": () => document.getElementById("keys").showModal(),
};

function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && isTyping(event.target)) event.target.blur();
  if (isTyping(event.target)) return;
  if (Date.now() - goPressedAt < GO_TIMEOUT) {
    goPressedAt = 0;
    const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (link) {
      event.preventDefault();
      link.click();
      return;
    }
  }
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

export function startKeys() {
  document.addEventListener("keydown", onKey);
  document.getElementById("keys-open").addEventListener("click", KEYS["?"]);
}
