// The last blocks of the chain, kept in step with the node.

import { addressOf } from "./address.js";
import { feesOf } from "./kinds.js";
import { listen, watch } from "./live.js";
import { blockAt, get, parseExactly } from "./node.js";

/** Number of blocks kept, and number requested at first. */
const MOST = 60;
const FIRST = 13;
/** Time without a block after which the node is polled, and the polling interval while it has not answered at all. */
const SILENCE_MS = 60_000;
const PATIENCE_MS = 5000;

/**
 * @typedef {object} Summary
 * @property {number} height
 * @property {number} time seconds of network time
 * @property {string} harvester address of the account that signed the block
 * @property {bigint} fees micro XEM
 * @property {number} count of its transactions
 * @property {string} signature identifies the block
 */

/** @type {Map<number, Summary>} */
const blocks = new Map();
const followers = new Set();
const mourners = new Set();
let heardAt = 0;
/** The error if nothing is known. */
let trouble = null;
let isCatchingUp = false;
/** Blocks known before a gap that may have been replaced since; null if there was no gap. */
let doubtful = null;
let isTelling = false;

const summarise = ({ height, timeStamp, signer, signature, transactions }) => ({
  height,
  time: timeStamp,
  harvester: addressOf(signer),
  fees: transactions.reduce((sum, transaction) => sum + feesOf(transaction), 0n),
  count: transactions.length,
  signature,
});

/** Returns the known blocks, newest first. */
export const lastBlocks = () => [...blocks.values()].sort((one, other) => other.height - one.height);

/** Returns the last known block. */
export const tip = () => lastBlocks()[0];

function keep(block) {
  blocks.set(block.height, summarise(block));
  for (const { height } of lastBlocks().slice(MOST)) blocks.delete(height);
}

/** Notifies the followers, at most once per animation frame: a node that synchronizes reports very many blocks. */
function tell() {
  if (isTelling) return;
  isTelling = true;
  requestAnimationFrame(() => {
    isTelling = false;
    followers.forEach((follower) => follower());
  });
}

/** Sets a new tip. Known blocks above it were rolled back. */
function extend(block) {
  heardAt = Date.now();
  const isReplaced = tip()?.height >= block.height;
  for (const height of blocks.keys()) if (height > block.height) blocks.delete(height);
  keep(block);
  if (isReplaced) mourners.forEach((mourner) => mourner(block.height));
  tell();
}

/**
 * Returns the lowest height of `known`, newest first, whose block is no longer in the chain; null if there is none. All
 * blocks below one that is still in the chain are in it too.
 */
async function lowestReplaced(known, last) {
  let lowest = null;
  for (const { height, signature } of known) {
    if (height <= last.height) {
      const there = height === last.height ? last : await blockAt(height);
      if (there.signature === signature) return lowest;
    }
    lowest = height;
  }
  // Nothing is known of the blocks below.
  return lowest && 1;
}

/** Requests the missing last blocks, and checks that the known ones are still in the chain. */
async function catchUp() {
  doubtful ??= lastBlocks();
  const last = await get("chain/last-block");
  const lowest = await lowestReplaced(doubtful, last);
  doubtful = null;
  const from = Math.max(1, last.height - FIRST + 1);
  if (lowest !== null) for (const height of blocks.keys()) if (height >= lowest) blocks.delete(height);
  // Blocks before a gap are dropped.
  if (tip()?.height < from - 1) blocks.clear();
  extend(last);
  if (lowest !== null) mourners.forEach((mourner) => mourner(lowest));
  const missing = Array.from({ length: last.height - from }, (_, index) => from + index);
  const found = await Promise.all(missing.filter((height) => !blocks.has(height)).map((height) => blockAt(height)));
  found.forEach(keep);
  tell();
}

async function tryToCatchUp() {
  if (isCatchingUp) return;
  isCatchingUp = true;
  try {
    await catchUp();
    trouble = null;
  } catch (error) {
    trouble = error;
    tell();
  } finally {
    isCatchingUp = false;
  }
}

/** Returns the error of the last request; null if it succeeded. */
export const chainTrouble = () => trouble;

export function followChain() {
  listen("/blocks", (body) => {
    const block = parseExactly(body);
    const isNext = tip()?.height + 1 >= block.height;
    // The blocks known so far may have been replaced.
    if (!isNext) tryToCatchUp();
    extend(block);
  });
  watch((state) => state === "connected" && tryToCatchUp());
  setInterval(() => {
    const isDue = trouble !== null || Date.now() - heardAt > SILENCE_MS;
    if (!document.hidden && isDue) tryToCatchUp();
  }, PATIENCE_MS);
  tryToCatchUp();
}

/**
 * Calls a function with the lowest replaced height after each reorg, until the signal aborts. Retries it while it
 * fails.
 * @param {(height: number) => any} mourner
 * @param {AbortSignal} signal
 */
export function onReplaced(mourner, signal) {
  const call = async (height) => {
    try {
      await mourner(height);
    } catch {
      setTimeout(() => signal.aborted || call(height), PATIENCE_MS);
    }
  };
  mourners.add(call);
  signal.addEventListener("abort", () => mourners.delete(call));
}

/**
 * Calls a function now and on every change, until the signal aborts.
 * @param {() => void} follower
 * @param {AbortSignal} signal
 */
export function onBlocks(follower, signal) {
  followers.add(follower);
  signal.addEventListener("abort", () => followers.delete(follower));
  follower();
}
