// Hashes that the interface does not return, computed from the binary form.

import { toHex } from "./address.js";
import { keccak256 } from "./keccak.js";

/** Offsets of the signature of a block or transaction, with its length prefix. */
const SIGNATURE = { start: 48, text: 52, end: 116 };
/** Offsets of the transactions in a block, and of the list in a response to a challenge. */
const BLOCK_LIST = 164;
const ENTITY_LIST = 4;
const LENGTH_BYTES = 4;
const MULTISIG = 0x1004;
/** Offset of the inner transaction of a multisig transaction, with its length prefix. */
const INNER = 128;

const wordAt = (bytes, position) => new DataView(bytes.buffer, bytes.byteOffset).getUint32(position, true);

/** Hashes a block or transaction up to `end`, without its signature. */
function hashOf(bytes, end) {
  const hashed = new Uint8Array(end - (SIGNATURE.end - SIGNATURE.start));
  hashed.set(bytes.subarray(0, SIGNATURE.start));
  hashed.set(bytes.subarray(SIGNATURE.end, end), SIGNATURE.start);
  return toHex(keccak256(hashed));
}

/**
 * Returns the hash of a transaction and of its inner one. Cosignatures follow the inner transaction and are not hashed.
 */
function transactionHashes(bytes) {
  if (wordAt(bytes, 0) !== MULTISIG) return { hash: hashOf(bytes, bytes.length) };
  const first = INNER + LENGTH_BYTES,
    end = first + wordAt(bytes, INNER);
  return { hash: hashOf(bytes, end), innerHash: toHex(keccak256(bytes.subarray(first, end))) };
}

/**
 * Returns a lookup of the hashes of a list of transactions by signature. They are computed on demand.
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

export const blockHash = (bytes) => hashOf(bytes, bytes.length);

/** Returns a lookup of the hashes of a block's transactions by signature. */
export const hashesInBlock = (bytes) => hashesFrom(bytes, BLOCK_LIST);

/** The same for a response to a challenge that contains a list of transactions. */
export const hashesInAnswer = (bytes) => hashesFrom(bytes, ENTITY_LIST);
