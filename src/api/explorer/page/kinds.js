// The kinds of transactions.

export const TRANSFER = 0x0101;
export const IMPORTANCE_TRANSFER = 0x0801;
export const AGGREGATE_MODIFICATION = 0x1001;
export const COSIGNATURE = 0x1002;
export const MULTISIG = 0x1004;
export const NAMESPACE = 0x2001;
export const MOSAIC_DEFINITION = 0x4001;
export const SUPPLY_CHANGE = 0x4002;

const NAMES = {
  [TRANSFER]: "Transfer",
  [IMPORTANCE_TRANSFER]: "Delegated harvesting",
  [AGGREGATE_MODIFICATION]: "Multisig change",
  [COSIGNATURE]: "Cosignature",
  [MULTISIG]: "Multisig",
  [NAMESPACE]: "Namespace",
  [MOSAIC_DEFINITION]: "Mosaic definition",
  [SUPPLY_CHANGE]: "Mosaic supply",
};

/** Returns the name of a transaction's kind. */
export const nameOf = ({ type }) => NAMES[type] ?? `Kind ${type}`;

/** Returns the effective transaction: itself, or the inner one of a multisig transaction. */
export const innerOf = (transaction) => (transaction.type === MULTISIG ? transaction.otherTrans : transaction);

/** Returns the total fee of a transaction: its own, that of its inner one, and those of its cosignatures. */
export function feesOf({ fee, otherTrans, signatures = [] }) {
  const others = [...signatures, ...(otherTrans ? [otherTrans] : [])];
  return others.reduce((sum, other) => sum + BigInt(other.fee), BigInt(fee));
}

/** Returns whether a mosaic is `nem:xem`. */
export const isXem = ({ namespaceId, name }) => namespaceId === "nem" && name === "xem";

/** Returns the name of a mosaic as one text. */
export const mosaicName = ({ namespaceId, name }) => `${namespaceId}:${name}`;

/**
 * Returns what a transfer moves, exactly: `[{mosaicId, quantity}]` in smallest units.
 *
 * A transfer with mosaics states the quantity of each per XEM of its amount.
 */
export function moved({ amount, mosaics = [] }) {
  if (mosaics.length === 0) return [{ mosaicId: { namespaceId: "nem", name: "xem" }, quantity: BigInt(amount) }];
  const times = (quantity) => (BigInt(quantity) * BigInt(amount)) / 1_000_000n;
  return mosaics.map(({ mosaicId, quantity }) => ({ mosaicId, quantity: times(quantity) }));
}
