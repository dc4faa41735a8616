// Zooms a graph by buttons, by Ctrl and the wheel or by a pinch, and drags it. The browser scrolls it, so that keys and
// fingers work as usual. The script only sets the size, again after each update of the page.
const MIN_SCALE = 0.1;
const MAX_SCALE = 3;
let scale = null; // null: fit the container

function naturalSize(svg) {
  const { width, height } = svg.viewBox.baseVal;
  return { width, height };
}

function apply() {
  const container = document.getElementById("graph");
  const svg = document.getElementById("graph-svg");
  if (!container || !svg) return;
  const { width, height } = naturalSize(svg);
  const factor = scale ?? Math.min(1, Math.max(container.clientWidth / width, 0.35));
  svg.setAttribute("width", width * factor);
  svg.setAttribute("height", height * factor);
  return factor;
}

function zoom(factor, x, y) {
  const container = document.getElementById("graph");
  const before = apply();
  scale = Math.min(Math.max(before * factor, MIN_SCALE), MAX_SCALE);
  const growth = scale / before;
  apply();
  container.scrollLeft = (container.scrollLeft + x) * growth - x; // keep the point under the pointer in place
  container.scrollTop = (container.scrollTop + y) * growth - y;
}

function zoomByButton(event) {
  const button = event.target.closest("[data-zoom-by]");
  if (!button) return;
  const container = document.getElementById("graph");
  if (button.dataset.zoomBy === "fit") scale = null;
  else zoom(Number(button.dataset.zoomBy), container.clientWidth / 2, container.clientHeight / 2);
  apply();
}

function zoomByWheel(event) {
  const container = event.target.closest?.("#graph");
  if (!container || !event.ctrlKey) return;
  event.preventDefault();
  const box = container.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
}

function drag(event) {
  const container = event.target.closest?.("#graph");
  if (!container || event.button !== 0 || event.pointerType !== "mouse") return;
  const from = { x: event.clientX + container.scrollLeft, y: event.clientY + container.scrollTop };
  let moved = false;
  const move = (next) => {
    if (!moved && Math.hypot(next.clientX - event.clientX, next.clientY - event.clientY) < 4) return;
    moved = true;
    container.classList.add("dragging");
    container.scrollLeft = from.x - next.clientX;
    container.scrollTop = from.y - next.clientY;
  };
  const drop = () => {
    document.removeEventListener("pointermove", move);
    container.classList.remove("dragging");
    if (!moved) return;
    const stop = (click) => click.preventDefault(); // the end of a drag is not a click on a job
    container.addEventListener("click", stop, { capture: true });
    setTimeout(() => container.removeEventListener("click", stop, { capture: true }));
  };
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", drop, { once: true });
}

function showZoom() {
  document.querySelector("[data-zoom]")?.removeAttribute("hidden");
  apply();
}

export function startGraph() {
  document.addEventListener("click", zoomByButton);
  document.addEventListener("wheel", zoomByWheel, { passive: false });
  document.addEventListener("pointerdown", drag);
  document.addEventListener("dragstart", (event) => event.target.closest?.("#graph") && event.preventDefault());
  document.addEventListener("headrace:updated", showZoom);
  window.addEventListener("resize", apply);
  showZoom();
}
