// Definitions of mosaics, and amounts that need them.

import { h } from "./dom.js";
import { grouped, units, xem } from "./format.js";
import { isXem, mosaicName } from "./kinds.js";
import { get, remembering } from "./node.js";

/** The kind of a levy that is a part of what is sent, in hundredths of a percent; others are always the same. */
export const PERCENTILE_LEVY = 2;
const HUNDREDTHS_OF_PERCENT = 10_000n;

/** The last definition of a mosaic by its name, also of one that has expired. */
export const definitionOf = remembering((name) => get("mosaic/definition/last", { mosaicId: name }));

/** A property of a definition as text. */
export const property = ({ properties }, name) => properties.find((one) => one.name === name)?.value;

export const divisibilityOf = (definition) => Number(property(definition, "divisibility") ?? 0);

/** The link to a mosaic. */
export const mosaicLink = (mosaicId) =>
  h("a", { href: `#/mosaic/${mosaicName(mosaicId)}`, class: "name" }, mosaicName(mosaicId));

/** An amount of a mosaic whose definition is known, without its name. */
export const quantityOf = (quantity, definition) =>
  h("span", { class: "amount" }, units(quantity, divisibilityOf(definition)));

/**
 * An amount of any mosaic, with its name. It is there at once, in the smallest units until the definition has come.
 * @param {{mosaicId: {namespaceId: string, name: string}, quantity: bigint}} amount
 */
export function mosaicAmount({ mosaicId, quantity }) {
  if (isXem(mosaicId)) return xem(quantity);
  const number = h("span", { class: "amount" }, grouped(quantity));
  definitionOf(mosaicName(mosaicId)).then(
    (definition) => {
      number.textContent = units(quantity, divisibilityOf(definition));
    },
    () => {
      number.title = "in the smallest units: the definition cannot be had";
    },
  );
  return h("span", {}, number, "\u00a0", mosaicLink(mosaicId));
}

/** What has to be paid besides a mosaic; null if nothing has. */
export function levyOf({ levy }, quantity) {
  if (!levy?.type) return null;
  const part = levy.type === PERCENTILE_LEVY ? (quantity * BigInt(levy.fee)) / HUNDREDTHS_OF_PERCENT : BigInt(levy.fee);
  return mosaicAmount({ mosaicId: levy.mosaicId, quantity: part });
}
