// A form that tells what would come of it while somebody fills it in: the page is asked with the fields as its query,
// and answers with its preview.
const PAUSE = 250; // ms without typing
const SECRET = ["form_token", "back", "args", "kwargs"]; // addresses are written down in logs
let waiting = null;
let asking = null;

async function attempt(form) {
  asking?.abort();
  asking = new AbortController();
  const fields = [...new FormData(form)].filter(([name, value]) => value !== "" && !SECRET.includes(name));
  const path = `${form.dataset.try}?${new URLSearchParams([...fields, ["try", "yes"]])}`;
  try {
    const answer = await fetch(path, { signal: asking.signal, headers: { "X-Headrace-Part": "main" }, credentials: "same-origin" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("preview");
    if (fresh) form.querySelector("#preview").replaceChildren(...fresh.childNodes);
  } catch (error) {
    if (error.name !== "AbortError") form.querySelector("#preview").textContent = "The server can’t be reached.";
  }
}

function typed(event) {
  const form = event.target.closest?.("form[data-try]");
  if (!form) return;
  clearTimeout(waiting);
  waiting = setTimeout(() => attempt(form), PAUSE);
}

export function startTrials() {
  document.addEventListener("input", typed);
  for (const form of document.querySelectorAll("form[data-try]")) if ("tryNow" in form.dataset) attempt(form);
}
