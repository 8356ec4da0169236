// Mosaic definitions, and amounts that depend on them.

import { onBlocks } from "./chain.js";
import { h } from "./dom.js";
import { grouped, units, xem } from "./format.js";
import { isXem, mosaicName } from "./kinds.js";
import { get, remembering } from "./node.js";

/** Levy type that is a fraction of the amount, in hundredths of a percent; other levies are absolute. */
export const PERCENTILE_LEVY = 2;
const HUNDREDTHS_OF_PERCENT = 10_000n;

/** Divisibilities by name, as last loaded. */
const divisibilities = new Map();

/** Returns the last definition of a mosaic by name, also of an expired one. */
export const definitionOf = remembering(async (name) => {
  const definition = await get("mosaic/definition/last", { mosaicId: name });
  divisibilities.set(name, divisibilityOf(definition));
  return definition;
});
// A block or a rollback may change them.
onBlocks(definitionOf.forget);

/** Returns a property of a definition as text. */
export const property = ({ properties }, name) => properties.find((one) => one.name === name)?.value;

export const divisibilityOf = (definition) => Number(property(definition, "divisibility") ?? 0);

export const mosaicLink = (mosaicId) =>
  h("a", { href: `#/mosaic/${mosaicName(mosaicId)}`, class: "name" }, mosaicName(mosaicId));

/** Shows an amount of a mosaic with a known definition, without the name. */
export const quantityOf = (quantity, definition) =>
  h("span", { class: "amount" }, units(quantity, divisibilityOf(definition)));

/**
 * Shows an amount of any mosaic with its name: in smallest units until its definition is loaded for the first time, then in
 * whole ones.
 * @param {{mosaicId: {namespaceId: string, name: string}, quantity: bigint}} amount
 */
export function mosaicAmount({ mosaicId, quantity }) {
  if (isXem(mosaicId)) return xem(quantity);
  const name = mosaicName(mosaicId);
  const number = h("span", { class: "amount" }, units(quantity, divisibilities.get(name) ?? 0));
  definitionOf(name).then(
    (definition) => {
      number.textContent = units(quantity, divisibilityOf(definition));
    },
    () => {
      number.textContent = grouped(quantity);
      number.title = "in the smallest units: the definition could not be loaded";
    },
  );
  return h("span", {}, number, "\u00a0", mosaicLink(mosaicId));
}

/** Returns the levy on an amount; null if there is none. */
export function levyOf({ levy }, quantity) {
  if (!levy?.type) return null;
  const part = levy.type === PERCENTILE_LEVY ? (quantity * BigInt(levy.fee)) / HUNDREDTHS_OF_PERCENT : BigInt(levy.fee);
  return mosaicAmount({ mosaicId: levy.mosaicId, quantity: part });
}
