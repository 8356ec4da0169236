// Elements. Text from the chain comes in by `text` and `textContent` only; nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Characters that change the order or the look of what stands around them: control characters, marks of direction and
 * invisible ones. They are shown by their numbers. A line feed and a tab are left as they are.
 */
const INVISIBLE =
  /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff])/u;

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Fills an element.
 * @param {Element} element
 * @param {Record<string, any>} properties attributes; `on…` are listeners; one that is false or null is left out
 * @param {(Child | Child[])[]} children
 */
function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, ...children);
  return element;
}

/** Appends children; those that are null or false are left out. */
export function append(element, ...children) {
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
}

/**
 * An element.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** An element of a drawing. */
export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** A text by somebody else: set apart from what stands around it, with nothing invisible in it. */
export function foreign(text, tag = "bdi") {
  const parts = String(text).split(INVISIBLE);
  // Every second part is what the pattern has found.
  return h(
    tag,
    { class: "foreign", dir: "auto" },
    parts.map((part, index) => (index % 2 ? invisible(part) : part)),
  );
}

function invisible(character) {
  const number = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return h("span", { class: "invisible" }, `U+${number}`);
}
