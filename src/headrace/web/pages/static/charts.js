// Shows the time and the values of a chart under the pointer.
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

function showValues(event) {
  const plot = event.target.closest?.(".plot");
  if (!plot) return;
  const canvas = plot.querySelector(".canvas");
  const box = canvas.getBoundingClientRect();
  const { times, lines } = JSON.parse(plot.dataset.plot);
  if (!times.length) return;
  const fraction = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  const index = Math.round(fraction * (times.length - 1));
  const values = lines.map(({ name, texts }) => `${name} ${texts[index]}`).join(" · ");
  plot.closest("figure").querySelector(".readout").textContent = `${clock.format(new Date(times[index]))}  ${values}`;
  const cross = canvas.querySelector(".cross");
  cross.hidden = false;
  // Set by script: the Content-Security-Policy allows no style attribute.
  cross.style.left = `${(100 * index) / Math.max(times.length - 1, 1)}%`;
}

function hideValues(event) {
  const plot = event.target.closest?.(".plot");
  if (!plot || plot.contains(event.relatedTarget)) return;
  plot.querySelector(".cross").hidden = true;
  plot.closest("figure").querySelector(".readout").textContent = "";
}

export function startCharts() {
  document.addEventListener("pointermove", showValues);
  document.addEventListener("pointerout", hideValues);
}
