// Reads a chart under the pointer: the time and each line's value there.
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

function read(event) {
  const plot = event.target.closest?.(".plot");
  if (!plot) return;
  const canvas = plot.querySelector(".canvas");
  const box = canvas.getBoundingClientRect();
  const { times, lines } = JSON.parse(plot.dataset.plot);
  if (!times.length) return;
  const part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  const place = Math.round(part * (times.length - 1));
  const said = lines.map(({ name, texts }) => `${name} ${texts[place]}`).join(" · ");
  plot.closest("figure").querySelector(".readout").textContent = `${clock.format(new Date(times[place]))}  ${said}`;
  const cross = canvas.querySelector(".cross");
  cross.hidden = false;
  cross.style.left = `${(100 * place) / Math.max(times.length - 1, 1)}%`; // by the CSSOM, which the policy allows
}

function leave(event) {
  const plot = event.target.closest?.(".plot");
  if (!plot || plot.contains(event.relatedTarget)) return;
  plot.querySelector(".cross").hidden = true;
  plot.closest("figure").querySelector(".readout").textContent = "";
}

export function startCharts() {
  document.addEventListener("pointermove", read);
  document.addEventListener("pointerout", leave);
}
