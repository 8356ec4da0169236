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

/** What a transaction is called. */
export const nameOf = ({ type }) => NAMES[type] ?? `Kind ${type}`;

/** What a transaction does: itself, or what is in it. */
export const innerOf = (transaction) => (transaction.type === MULTISIG ? transaction.otherTrans : transaction);

/** The fees of a transaction: its own, that of what is in it, and those of signatures. */
export function feesOf({ fee, otherTrans, signatures = [] }) {
  const others = [...signatures, ...(otherTrans ? [otherTrans] : [])];
  return others.reduce((sum, other) => sum + BigInt(other.fee), BigInt(fee));
}

/** Whether a mosaic is the currency of the network itself. */
export const isXem = ({ namespaceId, name }) => namespaceId === "nem" && name === "xem";

/** The name of a mosaic as one text. */
export const mosaicName = ({ namespaceId, name }) => `${namespaceId}:${name}`;

/**
 * What a transfer moves, exactly: `[{mosaicId, quantity}]` in the smallest units.
 *
 * One with mosaics says how many of each are sent for one XEM of its amount.
 */
export function moved({ amount, mosaics = [] }) {
  if (mosaics.length === 0) return [{ mosaicId: { namespaceId: "nem", name: "xem" }, quantity: BigInt(amount) }];
  const times = (quantity) => (BigInt(quantity) * BigInt(amount)) / 1_000_000n;
  return mosaics.map(({ mosaicId, quantity }) => ({ mosaicId, quantity: times(quantity) }));
}
