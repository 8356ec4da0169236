// DOM elements. Text from the chain is inserted by `text` and `textContent` only; no HTML is parsed.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Characters that change the order or the look of their surroundings: control characters, direction marks and invisible
 * ones. They are shown as code points. Line feed and tab are left as they are.
 */
const INVISIBLE =
  /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff])/u;

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Fills an element.
 * @param {Element} element
 * @param {Record<string, any>} properties attributes; `on…` are listeners; false and null ones are left out
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

/** Appends children; null and false ones are left out. */
export function append(element, ...children) {
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
}

/**
 * Creates an element.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Shows a foreign text: isolated from its surroundings, with invisible characters made visible. */
export function foreign(text, tag = "bdi") {
  const parts = String(text).split(INVISIBLE);
  // Every second part is a match of the pattern.
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
