// Lists of all blocks, transactions, namespaces and mosaics, a page at a time, the newest first.

import { addressOf } from "./address.js";
import { hashesInBlock } from "./binary.js";
import { newestBlocks } from "./blocks.js";
import { chainFailure, firstShown, lastBlocks, onBlocks } from "./chain.js";
import { h } from "./dom.js";
import { grouped, time, xem } from "./format.js";
import { feesOf } from "./kinds.js";
import { mosaicLink } from "./mosaics.js";
import { blockAt, get, postForBytes } from "./node.js";
import { accountLink, blockLink, link, loaded, namespaceLink, nothing, pager, problem, refill, table } from "./parts.js";
import { transactionTable } from "./transactions.js";

/** Entries per page, and blocks per page: each block takes a request, and the node limits the requests per second. */
const PAGE = 25;
const BLOCKS = 20;
/** Blocks requested at a time where a few may fill the page. */
const AT_ONCE = 5;

/** Returns the heights of a page, highest first. */
async function heights(before, signal) {
  const last = before ? Number(before) - 1 : (await get("chain/height", {}, signal)).height;
  return Array.from({ length: Math.max(0, Math.min(BLOCKS, last)) }, (_, index) => last - index);
}

/** Links to the newest page and to the next one. */
const pages = (list, isNewest, next) =>
  (!isNewest || next) && pager(!isNewest && link(list, "← ", "Newest"), next && link(next, "Older", " →"));

/** A page with a heading, whose content is loaded. */
const page = (signal, title, load) => ({
  title,
  body: [h("h1", { tabindex: -1 }, title), loaded(signal, load)],
});

const olderThan = (list, shown) => shown.at(-1) > 1 && `${list}/before/${shown.at(-1)}`;

/** The newest blocks, live. */
function newest(signal) {
  const older = h("div", {}, nothing("Loading…"));
  onBlocks(() => {
    const shown = lastBlocks().slice(0, BLOCKS);
    const heights = shown.map(({ height }) => height);
    if (shown.length > 0) refill(older, pages("blocks", true, olderThan("blocks", heights)));
    else if (chainFailure()) refill(older, problem(chainFailure()));
  }, signal);
  const list = newestBlocks("Blocks, newest first", BLOCKS, signal);
  return { title: "Blocks", wish: { first: firstShown }, body: [h("h1", { tabindex: -1 }, "Blocks"), list, older] };
}

/**
 * @param {AbortSignal} signal
 * @param {string} [before] shows the blocks below this height
 */
export function blocks(signal, before) {
  if (!before) return newest(signal);
  return page(signal, "Blocks", async () => {
    const shown = await heights(before, signal);
    if (shown.length === 0) return nothing("There are no older blocks.");
    const found = await Promise.all(shown.map((height) => blockAt(height, signal)));
    const fees = ({ transactions }) => transactions.reduce((sum, transaction) => sum + feesOf(transaction), 0n);
    return [
      table(
        "Blocks, newest first",
        [
          { name: "Height", class: "number", cell: ({ height }) => blockLink(height) },
          { name: "Time (UTC)", class: "nowrap", cell: ({ timeStamp }) => time(timeStamp) },
          { name: "Harvester", class: "wide", cell: ({ signer }) => accountLink(addressOf(signer)) },
          { name: "Transactions", class: "number", cell: ({ transactions }) => grouped(transactions.length) },
          { name: "Fees", class: "number wide", cell: (block) => xem(fees(block)) },
        ],
        found,
      ),
      pages("blocks", false, olderThan("blocks", shown)),
    ];
  });
}

/** Returns the transactions of a block with their hashes, last first. */
async function withHashes({ height, transactions }, signal) {
  const hashOf = hashesInBlock(await postForBytes("block/at/public", { height }, signal));
  return transactions
    .map((transaction) => ({ transaction, height, hash: hashOf(transaction.signature).hash }))
    .reverse();
}

/**
 * Returns the last transactions of blocks, and the number of blocks used. Of the first block only transactions below
 * `index` count; `rest` is the number of transactions of the last used block that did not fit.
 */
async function lastTransactions(heights, index, signal) {
  const parts = [];
  let left = PAGE,
    count = 0,
    rest = 0;
  while (left > 0 && count < heights.length) {
    const some = heights.slice(count, count + AT_ONCE);
    for (const { height, transactions } of await Promise.all(some.map((height) => blockAt(height, signal)))) {
      const end = count === 0 ? Math.min(index, transactions.length) : transactions.length;
      rest = Math.max(0, end - left);
      if (end > rest) parts.push({ height, transactions: transactions.slice(rest, end) });
      left -= end - rest;
      count += 1;
      if (left === 0) break;
    }
  }
  const found = await Promise.all(parts.map((part) => withHashes(part, signal)));
  return { found: found.flat(), count, rest };
}

/**
 * @param {AbortSignal} signal
 * @param {string} [before] shows the transactions of the blocks below this height
 * @param {string} [index] of the highest of these blocks only those below this index
 */
export function transactions(signal, before, index = "Infinity") {
  return page(signal, "Transactions", async () => {
    const all = await heights(before, signal);
    if (all.length === 0) return nothing("There are no older blocks.");
    const { found, count, rest } = await lastTransactions(all, Number(index), signal);
    const shown = all.slice(0, count);
    const range = `of the blocks ${grouped(shown.at(-1))} to ${grouped(shown[0])}`;
    const next = rest > 0 ? `transactions/before/${shown.at(-1) + 1}/${rest}` : olderThan("transactions", shown);
    return [
      h("p", { class: "quiet" }, `Transactions ${range}, newest first.`),
      found.length > 0 ? transactionTable(`Transactions ${range}`, found) : nothing(`No transactions ${range}.`),
      pages("transactions", !before, next),
    ];
  });
}

/** Returns a page of a list with ids of the node. */
async function numbered(path, before, signal) {
  const { data } = await get(path, before ? { pageSize: PAGE, id: before } : { pageSize: PAGE }, signal);
  return { data, next: data.length === PAGE && data.at(-1).meta.id };
}

/**
 * @param {AbortSignal} signal
 * @param {string} [before] shows those with lower ids
 */
export function namespaces(signal, before) {
  return page(signal, "Namespaces", async () => {
    const { data, next } = await numbered("namespace/root/page", before, signal);
    if (data.length === 0) return nothing("No namespace is rented.");
    return [
      table(
        "Rented namespaces, newest first",
        [
          { name: "Namespace", cell: ({ namespace }) => namespaceLink(namespace.fqn) },
          { name: "Owner", cell: ({ namespace }) => accountLink(namespace.owner) },
          { name: "Since block", class: "number", cell: ({ namespace }) => blockLink(namespace.height) },
        ],
        data,
      ),
      pages("namespaces", !before, next && `namespaces/before/${next}`),
    ];
  });
}

/**
 * @param {AbortSignal} signal
 * @param {string} [before] shows those with lower ids
 */
export function mosaics(signal, before) {
  return page(signal, "Mosaics", async () => {
    const { data, next } = await numbered("mosaic/definition/page", before, signal);
    if (data.length === 0) return nothing("No mosaic is defined besides nem:xem.");
    return [
      table(
        "Mosaics, newest definition first",
        [
          { name: "Mosaic", cell: ({ mosaic }) => mosaicLink(mosaic.id) },
          { name: "Creator", cell: ({ mosaic }) => accountLink(addressOf(mosaic.creator)) },
        ],
        data,
      ),
      pages("mosaics", !before, next && `mosaics/before/${next}`),
    ];
  });
}
