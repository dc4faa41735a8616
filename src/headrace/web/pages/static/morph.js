// Makes one tree of elements like another by touching only what differs, so that focus, selection, scroll positions,
// open folds and what somebody is typing survive. Children that have an id are matched by it, others by their place.

// Asked of the attribute: a form's `id` is its field of that name, if it has one.
const idOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("id") : null);

const SELF_KEPT = { DETAILS: ["open"], DIALOG: ["open"] };

export function morph(from, to) {
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE || from.hasAttribute("data-keep") || from.isEqualNode(to)) return;
  morphAttributes(from, to);
  if (isBeingEdited(from)) return;
  if (from.tagName === "TEXTAREA") {
    if (from.textContent !== to.textContent) from.value = from.textContent = to.textContent;
    return;
  }
  morphChildren(from, to);
}

function morphAttributes(from, to) {
  const kept = SELF_KEPT[from.tagName] ?? [];
  for (const { name, value } of to.attributes) {
    if (kept.includes(name)) continue;
    if (from.getAttribute(name) !== value) {
      from.setAttribute(name, value);
      if (name === "value" && from.tagName === "INPUT" && !isBeingEdited(from) && from.type !== "checkbox") from.value = value;
    }
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !kept.includes(name) && !name.startsWith("data-local")) {
      from.removeAttribute(name);
    }
  }
}

function isBeingEdited(element) {
  if (!element.matches("input, textarea, select")) return false;
  if (element === document.activeElement || element.type === "checkbox") return true;
  return "defaultValue" in element ? element.value !== element.defaultValue : element.tagName === "SELECT";
}

function morphChildren(from, to) {
  const keyed = new Map();
  for (const child of from.children) if (idOf(child)) keyed.set(idOf(child), child);
  let place = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const match = matching(place, wanted, keyed);
    if (!match) {
      from.insertBefore(document.importNode(wanted, true), place);
      continue;
    }
    if (match === place) place = place.nextSibling;
    else from.insertBefore(match, place);
    morph(match, wanted);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function matching(place, wanted, keyed) {
  if (idOf(wanted)) {
    const known = keyed.get(idOf(wanted));
    return known && known.tagName === wanted.tagName ? known : null;
  }
  const alike = place && !idOf(place) && place.nodeType === wanted.nodeType && place.nodeName === wanted.nodeName;
  return alike ? place : null;
}
