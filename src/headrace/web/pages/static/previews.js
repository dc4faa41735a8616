// Previews a form while the user types: requests the page with the fields as its query, and shows its preview.
const PAUSE = 250; // ms without typing
const SECRET = ["form_token", "back", "args", "kwargs"]; // servers log URLs
let timer = null;
let request = null;

async function preview(form) {
  request?.abort();
  request = new AbortController();
  const fields = [...new FormData(form)].filter(([name, value]) => value !== "" && !SECRET.includes(name));
  const path = `${form.dataset.preview}?${new URLSearchParams([...fields, ["try", "yes"]])}`;
  try {
    const answer = await fetch(path, { signal: request.signal, headers: { "X-Headrace-Part": "main" }, credentials: "same-origin" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("preview");
    if (fresh) form.querySelector("#preview").replaceChildren(...fresh.childNodes);
  } catch (error) {
    if (error.name !== "AbortError") form.querySelector("#preview").textContent = "The server can’t be reached.";
  }
}

function onInput(event) {
  const form = event.target.closest?.("form[data-preview]");
  if (!form) return;
  clearTimeout(timer);
  timer = setTimeout(() => preview(form), PAUSE);
}

export function startPreviews() {
  document.addEventListener("input", onInput);
}
