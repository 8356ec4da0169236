// Unconfirmed transactions, requested over the interface for peers.

import { toHex } from "./address.js";
import { hashesInAnswer } from "./binary.js";
import { onBlocks } from "./chain.js";
import { COSIGNATURE } from "./kinds.js";
import { listen } from "./live.js";
import { post, postForBytes } from "./node.js";

/** Bytes of a challenge. The signature in the response is ignored. */
const CHALLENGE_BYTES = 64;
/** Minimum polling interval, plus a delay for each transaction. */
const PAUSE_MS = 3000;
const PAUSE_PER_TRANSACTION_MS = 30;
const PATH = "transactions/unconfirmed";

/**
 * @typedef {object} Waiting
 * @property {any} transaction
 * @property {string | undefined} hash unknown if the transaction arrived during the request
 * @property {string | undefined} innerHash of the inner transaction of a multisig transaction
 */

/** @type {Waiting[] | null} newest first; null until the first response */
let waiting = null;
/** Looks up hashes by signature, as far as known. */
let hashesOf = () => ({});
const followers = new Set();
let askedAt = -Infinity;
let timer = null;

function question() {
  const challenge = crypto.getRandomValues(new Uint8Array(CHALLENGE_BYTES));
  return { entity: { hashShortIds: [] }, challenge: { data: toHex(challenge) } };
}

/**
 * Returns unconfirmed transactions with their hashes, which are requested if not known yet.
 * @param {any[]} transactions
 * @returns {Promise<Waiting[]>}
 */
export async function withHashes(transactions) {
  const paired = () => transactions.map((transaction) => ({ transaction, ...hashesOf(transaction.signature) }));
  const known = paired();
  if (known.every(({ hash }) => hash)) return known;
  hashesOf = hashesInAnswer(await postForBytes(PATH, question()));
  return paired();
}

/** Requests all unconfirmed transactions. */
export async function refreshPool() {
  const { entity } = await post(PATH, question());
  const transactions = entity.data.filter(({ type }) => type !== COSIGNATURE);
  transactions.sort((one, other) => other.timeStamp - one.timeStamp);
  waiting = await withHashes(transactions);
  followers.forEach((follower) => follower());
}

/** Schedules a request at the earliest allowed time, if a page shows the result. */
function refreshSoon() {
  if (timer !== null || followers.size === 0) return;
  const least = PAUSE_MS + PAUSE_PER_TRANSACTION_MS * (waiting?.length ?? 0);
  timer = setTimeout(
    () => {
      timer = null;
      if (document.hidden) return;
      askedAt = Date.now();
      // An error is repaired by the next request, or the connection state shows it.
      refreshPool().catch(() => {});
    },
    Math.max(0, askedAt + least - Date.now()),
  );
}

export function followPool() {
  listen("/unconfirmed", refreshSoon);
  document.addEventListener("visibilitychange", refreshSoon);
}

/** Returns the unconfirmed transactions, newest first; null if not known yet. */
export const unconfirmed = () => waiting;

/** Returns the known unconfirmed transaction with a hash or inner hash. */
export const knownUnconfirmed = (hash) => waiting?.find((one) => one.hash === hash || one.innerHash === hash);

/**
 * Calls a function now and on every change, until the signal aborts.
 * @param {() => void} follower
 * @param {AbortSignal} signal
 */
export function onUnconfirmed(follower, signal) {
  followers.add(follower);
  signal.addEventListener("abort", () => followers.delete(follower));
  onBlocks(refreshSoon, signal);
  follower();
}
