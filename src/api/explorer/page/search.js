// Search.

import { addressOf, parseAddress } from "./address.js";
import { get, ifThere, transactionByHash } from "./node.js";
import { knownUnconfirmed } from "./pool.js";

const HEX = /^[0-9a-f]{64}$/;
const NAME = /^[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*$/;
const MOSAIC = /^[a-z0-9._-]+:[a-z0-9][a-z0-9'_ -]*$/;

/** Resolves 64 digits: a published public key, otherwise the hash of a transaction or of one of the last blocks. */
async function ofDigits(digits) {
  const address = addressOf(digits);
  const { account } = await get("account/get", { address });
  if (account.publicKey === digits) return `account/${address}`;
  const isTransaction = knownUnconfirmed(digits) || (await transactionByHash(digits));
  const block = isTransaction ? null : await ifThere(get("block/get", { hash: digits }));
  return block ? `block/${block.height}` : `transaction/${digits}`;
}

/**
 * Returns the path within the page for a search text; null if it can match nothing.
 * @param {string} text a height, a hash, an address, a public key, or the name of a namespace or a mosaic
 */
export async function find(text) {
  const trimmed = text.trim(),
    small = trimmed.toLowerCase();
  const height = small.replace(/[,_\s]/g, "");
  if (/^\d{1,15}$/.test(height)) return `block/${Number(height)}`;
  if (HEX.test(small)) return ofDigits(small);
  const address = parseAddress(trimmed);
  if (address) return `account/${address}`;
  if (MOSAIC.test(small)) return `mosaic/${small}`;
  if (NAME.test(small)) return `namespace/${small}`;
  return null;
}
