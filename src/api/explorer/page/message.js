// Messages of transfers.

import { fromHex, toHex } from "./address.js";
import { foreign, h } from "./dom.js";
import { plural } from "./format.js";

const ENCRYPTED = 2;
/** First byte of a message that is to be shown as bytes. */
const HEX_MARK = "fe";
/** Maximum length of an excerpt in a list: characters of a text, hexadecimal digits of bytes. */
const EXCERPT = 80;

/** Characters above U+FFFF in CESU-8: three bytes for each half of a surrogate pair. */
const SURROGATES = /ed(a[0-9a-f]|b[0-9a-f])/;

/**
 * Converts CESU-8 to UTF-8. nem-sdk and NanoWallet encode messages as CESU-8, one UTF-16 unit after another.
 * @param {string} payload in hex, which is not valid UTF-8
 */
function fromCesu8(payload) {
  return payload
    .match(/../g)
    .join(" ")
    .replace(/ed (a.) (..) ed (b.) (..)/g, (_, high, highRest, low, lowRest) => {
      const half = (second, third) => 0xd000 | ((second & 0x3f) << 6) | (third & 0x3f);
      const [one, other] = [
        [high, highRest],
        [low, lowRest],
      ].map(([second, third]) => half(parseInt(second, 16), parseInt(third, 16)));
      return toHex(new TextEncoder().encode(String.fromCharCode(one, other)));
    })
    .replaceAll(" ", "");
}

const decoded = (payload) => new TextDecoder("utf-8", { fatal: true }).decode(fromHex(payload));

/** Returns the text of a plain message, or null if it is not text. */
export function textOf(payload) {
  try {
    return decoded(payload);
  } catch {
    if (!SURROGATES.test(payload)) return null;
  }
  try {
    return decoded(fromCesu8(payload));
  } catch {
    return null;
  }
}

/**
 * Returns the kind of a message.
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

/** Shows a message in one line of a list; null if there is none. */
export function excerpt(content) {
  const { kind, payload, text } = read(content);
  if (kind === "none") return null;
  if (kind === "encrypted") return h("span", { class: "excerpt" }, "encrypted message");
  if (kind === "hex") return h("code", { class: "excerpt" }, payload.slice(0, EXCERPT));
  return h("span", { class: "excerpt" }, foreign(Array.from(text.trim()).slice(0, EXCERPT).join("")));
}
