// What somebody wrote along with a transfer.

import { fromHex } from "./address.js";
import { foreign, h } from "./dom.js";
import { plural } from "./format.js";

const ENCRYPTED = 2;
/** The first byte of a message that its writer wants to be shown as bytes. */
const HEX_MARK = "fe";
/** Bytes of a message in a list. */
const EXCERPT = 80;

/** The text of a plain message, or null if it is none. */
function textOf(payload) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(fromHex(payload));
  } catch {
    return null;
  }
}

/**
 * What kind of message it is.
 * @param {{payload?: string, type?: number}} message
 * @returns {{kind: "none" | "encrypted" | "hex" | "text", payload: string, text?: string}}
 */
function read({ payload = "", type } = {}) {
  if (!payload) return { kind: "none", payload };
  if (type === ENCRYPTED) return { kind: "encrypted", payload };
  const text = payload.startsWith(HEX_MARK) ? null : textOf(payload);
  return text === null ? { kind: "hex", payload: payload.replace(/^fe/, "") } : { kind: "text", payload, text };
}

const dump = (payload) => h("code", { class: "bytes" }, payload);

/** A message as a whole. */
export function message(content) {
  const { kind, payload, text } = read(content);
  const size = plural(payload.length / 2, "byte");
  switch (kind) {
    case "none":
      return h("p", { class: "quiet" }, "No message.");
    case "encrypted":
      return h(
        "div",
        {},
        h("p", { class: "quiet" }, `Encrypted, ${size}: only sender and recipient can read it.`),
        dump(payload),
      );
    case "hex":
      return h("div", {}, h("p", { class: "quiet" }, `Bytes, not text: ${size}.`), dump(payload));
    default:
      return h("blockquote", { class: "message" }, foreign(text));
  }
}

/** A message in one line of a list; null if there is none. */
export function excerpt(content) {
  const { kind, payload, text } = read(content);
  if (kind === "none") return null;
  if (kind === "encrypted") return h("span", { class: "excerpt" }, "encrypted message");
  if (kind === "hex") return h("code", { class: "excerpt" }, payload.slice(0, EXCERPT));
  return h("span", { class: "excerpt" }, foreign(Array.from(text.trim()).slice(0, EXCERPT).join("")));
}
