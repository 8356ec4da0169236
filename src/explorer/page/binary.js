// Hashes of what the interface answers without them, computed from its binary form.

import { toHex } from "./address.js";
import { keccak256 } from "./keccak.js";

/** Where a block or a transaction has its signature, with the length of that in front. */
const SIGNATURE = { start: 48, text: 52, end: 116 };
/** Where a block has its transactions, and where an answer to a challenge has its list. */
const BLOCK_LIST = 164;
const ENTITY_LIST = 4;
const LENGTH_BYTES = 4;
const MULTISIG = 0x1004;
/** Where a multisig transaction has its inner one, with the length of that in front. */
const INNER = 128;

const wordAt = (bytes, position) => new DataView(bytes.buffer, bytes.byteOffset).getUint32(position, true);

/** The hash of a block or a transaction whose own part ends somewhere; its signature is left out. */
function hashOf(bytes, end) {
  const hashed = new Uint8Array(end - (SIGNATURE.end - SIGNATURE.start));
  hashed.set(bytes.subarray(0, SIGNATURE.start));
  hashed.set(bytes.subarray(SIGNATURE.end, end), SIGNATURE.start);
  return toHex(keccak256(hashed));
}

/**
 * The hash of a transaction, and that of its inner one. The signatures of others stand behind the inner transaction, and
 * are left out.
 */
function transactionHashes(bytes) {
  if (wordAt(bytes, 0) !== MULTISIG) return { hash: hashOf(bytes, bytes.length) };
  const first = INNER + LENGTH_BYTES,
    end = first + wordAt(bytes, INNER);
  return { hash: hashOf(bytes, end), innerHash: toHex(keccak256(bytes.subarray(first, end))) };
}

/**
 * Tells the hashes of a list of transactions by their signatures. They are computed when they are asked for.
 * @returns {(signature: string) => {hash?: string, innerHash?: string}}
 */
function hashesFrom(bytes, start) {
  const found = new Map();
  let position = start + LENGTH_BYTES;
  for (let left = wordAt(bytes, start); left > 0; left--) {
    const length = wordAt(bytes, position);
    position += LENGTH_BYTES;
    const transaction = bytes.subarray(position, position + length);
    found.set(toHex(transaction.subarray(SIGNATURE.text, SIGNATURE.end)), transaction);
    position += length;
  }
  return (signature) => (found.has(signature) ? transactionHashes(found.get(signature)) : {});
}

/** The hash of a block. */
export const blockHash = (bytes) => hashOf(bytes, bytes.length);

/** Tells the hashes of the transactions of a block by their signatures. */
export const hashesInBlock = (bytes) => hashesFrom(bytes, BLOCK_LIST);

/** The same of an answer to a challenge, which holds a list of transactions. */
export const hashesInAnswer = (bytes) => hashesFrom(bytes, ENTITY_LIST);
