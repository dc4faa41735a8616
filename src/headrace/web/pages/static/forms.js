// Sends forms in the background, asks for confirmation if the server does, and shows the result as a toast.
import { refresh } from "./live.js";

const TOAST_MS = 6000;
const DOUBLE_CLICK_MS = 700;
let sentAt = -DOUBLE_CLICK_MS;

export function toast(text, ok = true) {
  const note = document.createElement("p");
  note.className = `toast ${ok ? "ok" : "bad"}`;
  note.textContent = text;
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), ok ? TOAST_MS : 2 * TOAST_MS);
}

export async function send(path, fields) {
  const body = new URLSearchParams(fields);
  let answer;
  try {
    const response = await fetch(path, { method: "POST", body, headers: { Accept: "application/json" }, credentials: "same-origin" });
    answer = (response.headers.get("content-type") ?? "").includes("json") ? await response.json() : { ok: false, text: `The server answered ${response.status}.` };
    answer.text ??= answer.detail ?? answer.title;
  } catch {
    answer = { ok: false, text: "The server can’t be reached; nothing was changed." };
  }
  if (answer.ask) return (await confirmed(answer)) ? send(path, [...body, ["confirmed", answer.confirmed]]) : null;
  if (answer.goto) {
    sessionStorage.setItem("headrace_toast", JSON.stringify([answer.text, answer.ok]));
    location.assign(answer.goto);
    return answer;
  }
  toast(answer.text, answer.ok === true);
  refresh();
  return answer;
}

function confirmed({ ask, detail, label }) {
  const dialog = document.getElementById("confirm");
  document.getElementById("confirm-text").textContent = ask;
  document.getElementById("confirm-detail").textContent = detail;
  document.getElementById("confirm-yes").textContent = label;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

async function submit(event) {
  const form = event.target;
  if (form.method !== "post" || "plain" in form.dataset) return;
  event.preventDefault();
  // The second click of a double click would answer the question that has moved up.
  if ("once" in form.dataset && event.timeStamp - sentAt < DOUBLE_CLICK_MS) return;
  sentAt = event.timeStamp;
  const fields = [...new FormData(form, event.submitter)];
  const buttons = form.querySelectorAll("button");
  buttons.forEach((button) => (button.disabled = true));
  const answer = await send(event.submitter?.getAttribute("formaction") ?? form.getAttribute("action"), fields);
  buttons.forEach((button) => (button.disabled = false));
  if (answer?.ok) {
    form.closest("details[data-form]")?.removeAttribute("open");
    if ("clear" in form.dataset) form.reset();
  }
}

function pickAll(event) {
  if (!event.target.matches("[data-pick-all]")) return;
  const boxes = event.target.closest("table").querySelectorAll("tbody [name=id]");
  boxes.forEach((box) => (box.checked = event.target.checked));
}

function showPickedCount() {
  const bar = document.getElementById("picked-bar");
  if (!bar) return;
  const picked = document.querySelectorAll("tbody [name=id]:checked").length;
  bar.hidden = picked === 0;
  const noun = bar.dataset.noun ?? "job";
  document.getElementById("picked-count").textContent = picked === 1 ? `1 ${noun} picked` : `${picked} ${noun}s picked`;
}

async function copyText(event) {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  toast("Copied.");
}

export function startForms() {
  document.addEventListener("submit", submit);
  document.addEventListener("change", (event) => { pickAll(event); showPickedCount(); });
  document.addEventListener("change", (event) => event.target.matches("[data-submit]") && event.target.form.requestSubmit());
  document.addEventListener("click", copyText);
  document.addEventListener("headrace:updated", showPickedCount);
  showPickedCount();
  const storedToast = sessionStorage.getItem("headrace_toast");
  if (storedToast) {
    sessionStorage.removeItem("headrace_toast");
    toast(...JSON.parse(storedToast));
  }
  for (const note of document.querySelectorAll("#toasts .toast")) setTimeout(() => note.remove(), 2 * TOAST_MS);
}
