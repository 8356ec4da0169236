// Unconfirmed transactions, told by the stream; otherwise requested over the interface for peers.

import { toHex } from "./address.js";
import { hashesInAnswer } from "./binary.js";
import { onBlocks } from "./chain.js";
import { COSIGNATURE } from "./kinds.js";
import { hear, isStreaming, restart } from "./live.js";
import { blockAt, post, postForBytes } from "./node.js";
import { listen } from "./socket.js";

/** Bytes of a challenge. The signature in the response is ignored. */
const CHALLENGE_BYTES = 64;
/** Minimum polling interval, plus a delay for each transaction. */
const PAUSE_MS = 3000;
const PAUSE_PER_TRANSACTION_MS = 30;
const PATH = "transactions/unconfirmed";
/** Time after the start of a stream in which it tells what was there before. */
const RETELLING_MS = 300;

/**
 * @typedef {object} Waiting
 * @property {any} transaction
 * @property {string | undefined} hash unknown if the transaction arrived during the request
 * @property {string | undefined} innerHash of the inner transaction of a multisig transaction
 * @property {string[]} [missing] addresses of the cosignatories whose signatures are missing
 */

/** @type {Map<string, Waiting> | null} by signature; null until the first response */
let waiting = null;
/** Whether the stream tells all unconfirmed transactions. */
let isTold = false;
/** Whether the transactions of a block are being removed. */
let isRemoving = false;
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

const tell = () => followers.forEach((follower) => follower());

/** Requests all unconfirmed transactions. */
export async function refreshPool() {
  const { entity } = await post(PATH, question());
  const transactions = await withHashes(entity.data.filter(({ type }) => type !== COSIGNATURE));
  waiting = new Map(transactions.map((one) => [one.transaction.signature, one]));
  tell();
}

/**
 * Keeps the unconfirmed transactions that the stream tells. A stream tells those that are there, then the changes.
 * @param {(known: Map<string, Waiting>) => void} changed called at most once per animation frame
 * @param {AbortSignal} [signal]
 */
export function followTold(changed, signal) {
  let known = null,
    told = new Map(),
    isChanging = false;
  const change = () => {
    if (known === null || isChanging) return;
    isChanging = true;
    requestAnimationFrame(() => {
      isChanging = false;
      if (!signal?.aborted) changed(known);
    });
  };
  const remove = (isIt) => {
    for (const all of [known ?? told, told]) for (const [key, one] of all) if (isIt(one)) all.delete(key);
    change();
  };
  const opened = () => {
    const own = new Map();
    told = own;
    setTimeout(() => {
      if (told !== own) return;
      known = own;
      change();
    }, RETELLING_MS);
  };
  const arrived = ({ transaction, meta, multisig }) => {
    const one = { transaction, hash: meta.hash.data, innerHash: meta.innerHash?.data, missing: addresses(multisig) };
    told.set(transaction.signature, one);
    known?.set(transaction.signature, one);
    change();
  };
  hear("opened", opened, signal);
  hear("unconfirmed", arrived, signal);
  hear("left", ({ hash }) => remove((one) => one.hash === hash), signal);
  return { remove };
}

/** Returns the addresses of the cosignatories whose signatures are missing. */
const addresses = (multisig) => multisig?.missing.map(({ address }) => address);

/** Removes the transactions of a block that the stream tells. */
async function removeConfirmed({ height, transactions: count }) {
  if (!isTold || count === 0 || !waiting?.size) return;
  // Blocks come faster than they are requested.
  if (isRemoving) return retellSoon();
  isRemoving = true;
  try {
    const { transactions } = await blockAt(height);
    const confirmed = new Set(transactions.map(({ signature }) => signature));
    told.remove(({ transaction }) => confirmed.has(transaction.signature));
  } catch {
    retellSoon();
  } finally {
    isRemoving = false;
  }
}

/** Lets the node tell all unconfirmed transactions again. */
function retellSoon() {
  timer ??= setTimeout(() => {
    timer = null;
    restart();
  }, PAUSE_MS);
}

/** Schedules a request at the earliest allowed time, if a page shows the result. */
function refreshSoon() {
  if (timer !== null || followers.size === 0) return;
  const least = PAUSE_MS + PAUSE_PER_TRANSACTION_MS * (waiting?.size ?? 0);
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

/** What the stream tells, while it tells all unconfirmed transactions. */
let told = null;

export function followPool() {
  hear("opened", (_, { pool }) => {
    isTold = Boolean(pool);
    if (!isTold) waiting = null;
  });
  told = followTold((known) => {
    if (!isTold) return;
    waiting = known;
    tell();
  });
  hear("block", removeConfirmed);
  listen("/unconfirmed", refreshSoon);
  document.addEventListener("visibilitychange", () => isStreaming() || refreshSoon());
}

/**
 * Returns the unconfirmed transactions, newest first; null if not known yet.
 * @returns {Waiting[] | null}
 */
export const unconfirmed = () =>
  waiting && [...waiting.values()].sort((one, other) => other.transaction.timeStamp - one.transaction.timeStamp);

/** Returns whether the stream has told all unconfirmed transactions. */
export const isPoolTold = () => isTold && waiting !== null;

/** Returns the known unconfirmed transaction with a hash or inner hash. */
export const knownUnconfirmed = (hash) =>
  waiting && [...waiting.values()].find((one) => one.hash === hash || one.innerHash === hash);

/**
 * Calls a function now and on every change, until the signal aborts.
 * @param {() => void} follower
 * @param {AbortSignal} signal
 */
export function onUnconfirmed(follower, signal) {
  followers.add(follower);
  signal.addEventListener("abort", () => followers.delete(follower));
  onBlocks(() => isStreaming() || refreshSoon(), signal);
  follower();
}
