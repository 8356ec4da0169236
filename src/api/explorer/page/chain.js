// The last blocks of the chain, kept in step with the node.

import { addressOf } from "./address.js";
import { now } from "./format.js";
import { feesOf } from "./kinds.js";
import { hear, isStreaming, restart, watch } from "./live.js";
import { blockAt, get, parseExactly } from "./node.js";
import { listen } from "./socket.js";

/** Number of blocks kept, and number requested at first. */
const MOST = 60;
const FIRST = 13;
/** Time without a block after which the node is polled, and the polling interval while it has not answered at all. */
const SILENCE_MS = 60_000;
const PATIENCE_MS = 5000;
/** Time for which replaced blocks are still shown. */
const REPLACED_MS = 12_000;

/**
 * @typedef {object} Summary
 * @property {number} height
 * @property {number} time seconds of network time
 * @property {string} harvester address of the account that signed the block
 * @property {bigint} fees micro XEM
 * @property {number} count of its transactions
 * @property {string} id identifies the block: its hash if the stream tells it, otherwise its signature
 */

/** @type {Map<number, Summary>} */
const blocks = new Map();
const followers = new Set();
const mourners = new Set();
let heardAt = 0;
/** The error if nothing is known. */
let failure = null;
let isCatchingUp = false;
/** Blocks known before a gap that may have been replaced since; null if there was no gap. */
let doubtful = null;
let isTelling = false;
/** The height of the chain by the state of the node, which is told before any block. */
let saidHeight = 0;
/** The last reorg that was seen: its replaced blocks are shown for a while, as far as they were known. */
let reorg = null;

const summarise = ({ height, timeStamp, signer, signature, transactions }) => ({
  height,
  time: timeStamp,
  harvester: addressOf(signer),
  fees: transactions.reduce((sum, transaction) => sum + feesOf(transaction), 0n),
  count: transactions.length,
  id: signature,
});

/** Returns a block that the stream tells. */
const summaryOf = ({ height, timeStamp, signer, totalFee, transactions, hash }) => ({
  height,
  time: timeStamp,
  harvester: addressOf(signer),
  fees: BigInt(totalFee),
  count: transactions,
  id: hash,
});

/** Returns the known blocks, newest first. */
export const lastBlocks = () => [...blocks.values()].sort((one, other) => other.height - one.height);

/** Returns the last known block. */
export const tip = () => lastBlocks()[0];

/** Returns the height of the chain, as far as known; 0 if it is not. */
export const knownHeight = () => Math.max(saidHeight, tip()?.height ?? 0);

/**
 * The last reorg that was seen while this page was open; null if there was none.
 * @returns {{from: number, count: number, time: number, blocks: Summary[]} | null} its lowest height, the number of replaced
 *   blocks, when it was seen, and the blocks that are still shown
 */
export const lastReorg = () => reorg;

function keep(block) {
  blocks.set(block.height, block);
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

/** Drops the blocks from a height on, which were replaced; `gone` are those of them that are known, newest first. */
function drop(from, gone = lastBlocks().filter(({ height }) => height >= from)) {
  const count = (gone[0]?.height ?? knownHeight()) - from + 1;
  for (const height of blocks.keys()) if (height >= from) blocks.delete(height);
  saidHeight = Math.min(saidHeight, from - 1);
  if (count > 0) note({ from, count, time: now(), blocks: gone });
  mourners.forEach((mourner) => mourner(from));
  tell();
}

/** Shows the replaced blocks for a while. */
function note(next) {
  // A rollback may be told in parts.
  const isSame = reorg?.blocks.length > 0 && next.from < reorg.from;
  reorg = isSame ? { ...next, count: next.count + reorg.count, blocks: [...reorg.blocks, ...next.blocks] } : next;
  const shown = reorg;
  setTimeout(() => {
    shown.blocks = [];
    tell();
  }, REPLACED_MS);
}

/** Sets a new tip. Known blocks above it were rolled back. */
function extend(block) {
  heardAt = Date.now();
  const isKnown = blocks.get(block.height)?.id === block.signature;
  const from = isKnown ? block.height + 1 : block.height;
  if (tip()?.height >= from) drop(from);
  keep(summarise(block));
  tell();
}

/** Adds a block that the stream tells. */
function add(block) {
  heardAt = Date.now();
  failure = null;
  const { height, id } = block;
  // There was a rollback while no stream was open.
  const isOther = (one) => one.height === height && one.id !== id;
  if (doubtful?.some(isOther)) drop(height, doubtful.filter((one) => one.height >= height));
  if (doubtful?.some(isOther) || doubtful?.[0]?.height <= height) doubtful = null;
  if (tip()?.height < height - 1) blocks.clear();
  keep(block);
  tell();
}

/** Begins with a new stream. It tells blocks from the height `first` on again, or there is a gap before what it tells. */
function begin({ height }, { isGap, first }) {
  heardAt = Date.now();
  if (isGap || first !== null) {
    doubtful = lastBlocks();
    blocks.clear();
  }
  // Who shows something of a block looks whether it is still there.
  if (isGap && doubtful.length > 0) mourners.forEach((mourner) => mourner(1));
  saidHeight = height;
  tell();
}

/**
 * Returns the height from which a new stream tells blocks to show the last ones; null if they are known.
 * @param {boolean} isGap whether there are blocks of which nothing was told since the last stream
 */
export async function firstShown(isGap) {
  const isKnown = blocks.size >= MOST || blocks.has(1);
  if (isKnown && !isGap) return null;
  try {
    const { height } = await get("chain/height");
    return Math.max(1, height - MOST + 1);
  } catch (error) {
    failure = error;
    tell();
    throw error;
  }
}

/**
 * Returns the lowest height of `known`, newest first, whose block is no longer in the chain; null if there is none. All
 * blocks below one that is still in the chain are in it too.
 */
async function lowestReplaced(known, last) {
  let lowest = null;
  for (const { height, id } of known) {
    if (height <= last.height) {
      const there = height === last.height ? last : await blockAt(height);
      if (there.signature === id) return lowest;
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
  const gone = doubtful.filter(({ height }) => height >= lowest);
  doubtful = null;
  const from = Math.max(1, last.height - FIRST + 1);
  if (lowest !== null) for (const height of blocks.keys()) if (height >= lowest) blocks.delete(height);
  if (lowest > 1) note({ from: lowest, count: gone.length, time: now(), blocks: gone });
  // Blocks before a gap are dropped.
  if (tip()?.height < from - 1) blocks.clear();
  extend(last);
  if (lowest !== null) mourners.forEach((mourner) => mourner(lowest));
  const missing = Array.from({ length: last.height - from }, (_, index) => from + index);
  const found = await Promise.all(missing.filter((height) => !blocks.has(height)).map((height) => blockAt(height)));
  found.map(summarise).forEach(keep);
  tell();
}

async function tryToCatchUp() {
  if (isCatchingUp) return;
  isCatchingUp = true;
  try {
    await catchUp();
    failure = null;
  } catch (error) {
    failure = error;
    tell();
  } finally {
    isCatchingUp = false;
  }
}

/** Returns the error of the last request; null if it succeeded. */
export const chainFailure = () => failure;

/** Opens the stream anew if the node has other blocks than it has told: some proxies lose connections silently. */
async function checkStream() {
  heardAt = Date.now();
  const { height } = await get("chain/height");
  if (height !== knownHeight()) restart();
}

/** Repairs what is missing. */
const repair = () => (isStreaming() ? checkStream().catch(restart) : tryToCatchUp());

export function followChain() {
  hear("opened", begin);
  hear("synchronising", ({ height }) => {
    saidHeight = Math.max(saidHeight, height);
    tell();
  });
  hear("block", (block) => add(summaryOf(block)));
  hear("rollback", ({ height }) => drop(height + 1));
  listen("/blocks", (body) => {
    const block = parseExactly(body);
    const isNext = tip()?.height + 1 >= block.height;
    // The blocks known so far may have been replaced.
    if (!isNext) tryToCatchUp();
    extend(block);
  });
  watch((state) => state === "connected" && !isStreaming() && tryToCatchUp());
  setInterval(() => {
    const isDue = (failure !== null && !isStreaming()) || Date.now() - heardAt > SILENCE_MS;
    if (!document.hidden && isDue) repair();
  }, PATIENCE_MS);
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
 * @param {AbortSignal} [signal]
 */
export function onBlocks(follower, signal) {
  followers.add(follower);
  signal?.addEventListener("abort", () => followers.delete(follower));
  follower();
}
