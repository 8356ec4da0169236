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
 */

/** @type {Map<number, Summary>} */
const blocks = new Map();
const followers = new Set();
const mourners = new Set();
let heardAt = 0;
/** Why nothing is known. */
let trouble = null;
let isCatchingUp = false;
let isTelling = false;

const summarise = ({ height, timeStamp, signer, transactions }) => ({
  height,
  time: timeStamp,
  harvester: addressOf(signer),
  fees: transactions.reduce((sum, transaction) => sum + feesOf(transaction), 0n),
  count: transactions.length,
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

/** Asks for the last blocks that are not known. */
async function catchUp() {
  const last = await get("chain/last-block");
  const from = Math.max(1, last.height - FIRST + 1);
  // Nothing is kept from before a gap.
  if (tip()?.height < from - 1) blocks.clear();
  extend(last);
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
    extend(block);
    if (!isNext) tryToCatchUp();
  });
  watch((state) => state === "connected" && tryToCatchUp());
  setInterval(() => {
    const isDue = trouble !== null || Date.now() - heardAt > SILENCE_MS;
    if (!document.hidden && isDue) tryToCatchUp();
  }, PATIENCE_MS);
  tryToCatchUp();
}

/**
 * Calls a function with the lowest height whose block was replaced, whenever that happens, until the signal is given.
 * @param {(height: number) => void} mourner
 * @param {AbortSignal} signal
 */
export function onReplaced(mourner, signal) {
  mourners.add(mourner);
  signal.addEventListener("abort", () => mourners.delete(mourner));
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
