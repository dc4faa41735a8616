// Changes a tree of elements into another and touches only differences, so that focus, selection, scroll positions,
// open folds and typed text survive. Children with an id are matched by it, others by their position.

// Read from the attribute: the property `id` of a form is its field of that name, if it has one.
const idOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("id") : null);

const KEPT_ATTRIBUTES = { DETAILS: ["open"], DIALOG: ["open"] };

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
  const kept = KEPT_ATTRIBUTES[from.tagName] ?? [];
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
  let position = from.firstChild;
  for (const target of [...to.childNodes]) {
    const match = matching(position, target, keyed);
    if (!match) {
      from.insertBefore(document.importNode(target, true), position);
      continue;
    }
    if (match === position) position = position.nextSibling;
    else from.insertBefore(match, position);
    morph(match, target);
  }
  while (position) {
    const next = position.nextSibling;
    position.remove();
    position = next;
  }
}

function matching(position, target, keyed) {
  if (idOf(target)) {
    const known = keyed.get(idOf(target));
    return known && known.tagName === target.tagName ? known : null;
  }
  const isSameKind = position && !idOf(position) && position.nodeType === target.nodeType && position.nodeName === target.nodeName;
  return isSameKind ? position : null;
}
