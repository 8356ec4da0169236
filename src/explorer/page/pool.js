// Unconfirmed transactions, asked for as other nodes do.

import { toHex } from "./address.js";
import { hashesInAnswer } from "./binary.js";
import { onBlocks } from "./chain.js";
import { COSIGNATURE } from "./kinds.js";
import { listen } from "./live.js";
import { post, postForBytes } from "./node.js";

/** Bytes by which a node is challenged. The signature in its answer is of no interest here. */
const CHALLENGE_BYTES = 64;
/** Time between two questions at least; so much longer for each transaction that is there. */
const PAUSE_MS = 3000;
const PAUSE_PER_TRANSACTION_MS = 30;
const PATH = "transactions/unconfirmed";

/**
 * @typedef {object} Waiting
 * @property {any} transaction
 * @property {string | undefined} hash unknown if it came in while the node was asked
 * @property {string | undefined} innerHash that of the inner transaction, if it is a multisig transaction
 */

/** @type {Waiting[] | null} the newest first; null until the node has been asked */
let waiting = null;
/** Tells hashes by signatures, as far as they are known. */
let hashesOf = () => ({});
const followers = new Set();
let askedAt = -Infinity;
let timer = null;

function question() {
  const challenge = crypto.getRandomValues(new Uint8Array(CHALLENGE_BYTES));
  return { entity: { hashShortIds: [] }, challenge: { data: toHex(challenge) } };
}

/**
 * Unconfirmed transactions with their hashes. The node is asked for these if it has not told them before.
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

/** Asks the node for all that it has. */
export async function refreshPool() {
  const { entity } = await post(PATH, question());
  const transactions = entity.data.filter(({ type }) => type !== COSIGNATURE);
  transactions.sort((one, other) => other.timeStamp - one.timeStamp);
  waiting = await withHashes(transactions);
  followers.forEach((follower) => follower());
}

/** Asks the node as soon as it may be asked again, if somebody looks. */
function refreshSoon() {
  if (timer !== null || followers.size === 0) return;
  const least = PAUSE_MS + PAUSE_PER_TRANSACTION_MS * (waiting?.length ?? 0);
  timer = setTimeout(
    () => {
      timer = null;
      if (document.hidden) return;
      askedAt = Date.now();
      // What goes wrong the next question mends, or the state of the connection tells.
      refreshPool().catch(() => {});
    },
    Math.max(0, askedAt + least - Date.now()),
  );
}

/** Begins to follow the pool. */
export function followPool() {
  listen("/unconfirmed", refreshSoon);
  document.addEventListener("visibilitychange", refreshSoon);
}

/** Unconfirmed transactions, the newest first; null if they are not known yet. */
export const unconfirmed = () => waiting;

/** The unconfirmed transaction that has a hash, or whose inner transaction has it, if it is known. */
export const knownUnconfirmed = (hash) => waiting?.find((one) => one.hash === hash || one.innerHash === hash);

/**
 * Calls a function now and with every change, until the signal is given.
 * @param {() => void} follower
 * @param {AbortSignal} signal
 */
export function onUnconfirmed(follower, signal) {
  followers.add(follower);
  signal.addEventListener("abort", () => followers.delete(follower));
  onBlocks(refreshSoon, signal);
  follower();
}
