// The end of the chain: the last blocks, kept in step with the node.

import { addressOf } from "./address.js";
import { feesOf } from "./kinds.js";
import { listen, watch } from "./live.js";
import { blockAt, get, parseExactly } from "./node.js";

/** Blocks that are kept, and those that are asked for at first. */
const MOST = 60;
const FIRST = 13;
/** Time after which the node is asked if it has told of no block, and the same while it has not answered at all. */
const SILENCE_MS = 60_000;
const PATIENCE_MS = 5000;

/**
 * @typedef {object} Summary
 * @property {number} height
 * @property {number} time seconds of network time
 * @property {string} harvester address of the account that signed the block
 * @property {bigint} fees micro XEM
 * @property {number} count of its transactions
 * @property {string} signature tells it from any other block
 */

/** @type {Map<number, Summary>} */
const blocks = new Map();
const followers = new Set();
const mourners = new Set();
let heardAt = 0;
/** Why nothing is known. */
let trouble = null;
let isCatchingUp = false;
/** Blocks that were known when something was missed and may have been replaced since; null if nothing was missed. */
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

/** The blocks that are known, the newest first. */
export const lastBlocks = () => [...blocks.values()].sort((one, other) => other.height - one.height);

/** The last block that is known. */
export const tip = () => lastBlocks()[0];

function keep(block) {
  blocks.set(block.height, summarise(block));
  for (const { height } of lastBlocks().slice(MOST)) blocks.delete(height);
}

/** Tells the followers, once for all that comes before the next drawing: a node that catches up tells very many blocks. */
function tell() {
  if (isTelling) return;
  isTelling = true;
  requestAnimationFrame(() => {
    isTelling = false;
    followers.forEach((follower) => follower());
  });
}

/** A new end of the chain. Blocks above it have been rolled back. */
function extend(block) {
  heardAt = Date.now();
  const isReplaced = tip()?.height >= block.height;
  for (const height of blocks.keys()) if (height > block.height) blocks.delete(height);
  keep(block);
  if (isReplaced) mourners.forEach((mourner) => mourner(block.height));
  tell();
}

/**
 * The lowest height of blocks, the newest first, whose block is not in the chain any more; null if there is none. From the
 * first one on that is still there, all below are.
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
  // Of what is below nothing is known.
  return lowest && 1;
}

/** Asks for the last blocks that are not known, and whether the known ones are still there. */
async function catchUp() {
  doubtful ??= lastBlocks();
  const last = await get("chain/last-block");
  const lowest = await lowestReplaced(doubtful, last);
  doubtful = null;
  const from = Math.max(1, last.height - FIRST + 1);
  if (lowest !== null) for (const height of blocks.keys()) if (height >= lowest) blocks.delete(height);
  // Nothing is kept from before a gap.
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

/** Why the node has not been asked with success; null if it has. */
export const chainTrouble = () => trouble;

/** Begins to follow the chain. */
export function followChain() {
  listen("/blocks", (body) => {
    const block = parseExactly(body);
    const isNext = tip()?.height + 1 >= block.height;
    // What is known until now is what is in doubt.
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
 * Calls a function with the lowest height whose block was replaced, whenever that happens, until the signal is given. What
 * it wants done is tried again while the node does not answer.
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
 * Calls a function now and with every change, until the signal is given.
 * @param {() => void} follower
 * @param {AbortSignal} signal
 */
export function onBlocks(follower, signal) {
  followers.add(follower);
  signal.addEventListener("abort", () => followers.delete(follower));
  follower();
}
