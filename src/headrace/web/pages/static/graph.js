// A graph is zoomed by buttons, by Ctrl and the wheel or a pinch, and dragged. The browser scrolls it, so that keys and
// fingers work as anywhere; only its size is changed here, and set again whenever the page was made fresh.
const LEAST = 0.1;
const MOST = 3;
let scale = null; // null: as large as fits

function natural(svg) {
  const { width, height } = svg.viewBox.baseVal;
  return { width, height };
}

function apply() {
  const place = document.getElementById("graph");
  const svg = document.getElementById("graph-svg");
  if (!place || !svg) return;
  const { width, height } = natural(svg);
  const by = scale ?? Math.min(1, Math.max(place.clientWidth / width, 0.35));
  svg.setAttribute("width", width * by);
  svg.setAttribute("height", height * by);
  return by;
}

function zoom(by, x, y) {
  const place = document.getElementById("graph");
  const before = apply();
  scale = Math.min(Math.max(before * by, LEAST), MOST);
  const grown = scale / before;
  apply();
  place.scrollLeft = (place.scrollLeft + x) * grown - x; // what is under the pointer stays there
  place.scrollTop = (place.scrollTop + y) * grown - y;
}

function pressed(event) {
  const button = event.target.closest("[data-zoom-by]");
  if (!button) return;
  const place = document.getElementById("graph");
  if (button.dataset.zoomBy === "fit") scale = null;
  else zoom(Number(button.dataset.zoomBy), place.clientWidth / 2, place.clientHeight / 2);
  apply();
}

function wheeled(event) {
  const place = event.target.closest?.("#graph");
  if (!place || !event.ctrlKey) return;
  event.preventDefault();
  const box = place.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
}

function drag(event) {
  const place = event.target.closest?.("#graph");
  if (!place || event.button !== 0 || event.pointerType !== "mouse") return;
  const from = { x: event.clientX + place.scrollLeft, y: event.clientY + place.scrollTop };
  let moved = false;
  const move = (next) => {
    if (!moved && Math.hypot(next.clientX - event.clientX, next.clientY - event.clientY) < 4) return;
    moved = true;
    place.classList.add("held");
    place.scrollLeft = from.x - next.clientX;
    place.scrollTop = from.y - next.clientY;
  };
  const drop = () => {
    document.removeEventListener("pointermove", move);
    place.classList.remove("held");
    if (!moved) return;
    const stop = (click) => click.preventDefault(); // a drag that began on a job is no click on it
    place.addEventListener("click", stop, { capture: true });
    setTimeout(() => place.removeEventListener("click", stop, { capture: true }));
  };
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", drop, { once: true });
}

function offer() {
  document.querySelector("[data-zoom]")?.removeAttribute("hidden");
  apply();
}

export function startGraph() {
  document.addEventListener("click", pressed);
  document.addEventListener("wheel", wheeled, { passive: false });
  document.addEventListener("pointerdown", drag);
  document.addEventListener("dragstart", (event) => event.target.closest?.("#graph") && event.preventDefault());
  document.addEventListener("headrace:fresh", offer);
  window.addEventListener("resize", apply);
  offer();
}
