// The page of a block.

import { addressOf } from "./address.js";
import { blockHash, hashesInBlock } from "./binary.js";
import { knownHeight, onBlocks, onReplaced } from "./chain.js";
import { h } from "./dom.js";
import { duration, grouped, plural, time, xem } from "./format.js";
import { feesOf } from "./kinds.js";
import { blockAt, get, ifThere, postForBytes } from "./node.js";
import { copyable, facts, link, loaded, nothing, pager, refill, section, whole, wholeAccountLink } from "./parts.js";
import { transactionTable } from "./transactions.js";

/** Transactions per page. */
const PAGE = 25;

/** Returns the account that gets the fees: the harvester, or its present owner if it is a remote account. */
async function beneficiary(harvester, signal) {
  const { account } = await get("account/get/forwarded", { address: harvester }, signal);
  return account.address;
}

async function load(height, signal) {
  const question = { height };
  const [block, bytes, previous] = await Promise.all([
    blockAt(height, signal),
    postForBytes("block/at/public", question, signal),
    height > 1 ? blockAt(height - 1, signal) : null,
  ]);
  const harvester = addressOf(block.signer);
  const owner = await beneficiary(harvester, signal);
  return { block, previous, harvester, owner, hash: blockHash(bytes), hashOf: hashesInBlock(bytes) };
}

function properties({ block, previous, harvester, owner, hash }) {
  const fees = block.transactions.reduce((sum, transaction) => sum + feesOf(transaction), 0n);
  return facts([
    ["Hash", copyable(hash)],
    [
      "Time (UTC)",
      [
        time(block.timeStamp),
        previous &&
          h("span", { class: "quiet" }, `, ${duration(block.timeStamp - previous.timeStamp)} after the previous block`),
      ],
    ],
    [block.height === 1 ? "Signed by" : "Harvester", wholeAccountLink(harvester)],
    ["Harvests for", owner === harvester ? null : [wholeAccountLink(owner), h("span", { class: "quiet" }, " (now)")]],
    ["Transactions", grouped(block.transactions.length)],
    ["Fees", xem(fees)],
    ["Previous block", previous ? link(`block/${previous.height}`, whole(block.prevBlockHash.data)) : null],
    ["Signature", block.signature ? copyable(block.signature) : null],
  ]);
}

/** Returns a page of the transactions of a block. */
function transactionsOf({ block, hashOf }, page) {
  const all = block.transactions,
    first = (page - 1) * PAGE;
  if (all.length === 0) return nothing("No transactions in this block.");
  const entries = all
    .slice(first, first + PAGE)
    .map((transaction) => ({ transaction, height: block.height, hash: hashOf(transaction.signature).hash }));
  const to = (number, text) => link(`block/${block.height}/page/${number}`, text);
  return [
    transactionTable(`Transactions of block ${block.height}`, entries),
    all.length > PAGE &&
      pager(
        page > 1 && to(page - 1, "Previous"),
        h("span", {}, `${first + 1}–${first + entries.length} of ${grouped(all.length)}`),
        first + PAGE < all.length && to(page + 1, "Next"),
      ),
  ];
}

/** Links to the adjacent blocks; to the next one as soon as it exists. */
function neighbours(height, signal) {
  const next = h("span", {});
  onBlocks(() => {
    if (knownHeight() > height) refill(next, link(`block/${height + 1}`, "Next block", " →"));
  }, signal);
  return h(
    "nav",
    { class: "pager", "aria-label": "Blocks" },
    height > 1 && link(`block/${height - 1}`, "← ", "Previous block"),
    next,
  );
}

/** Returns the height of the tip, which is requested only if this block may be above the known tip. */
async function lastHeight(height, signal) {
  const known = knownHeight();
  return height <= known ? known : (await get("chain/height", {}, signal)).height;
}

/** Shows a notice once the block is replaced. */
function replacement({ block: { height }, hash }, signal) {
  const place = h("div", { role: "status" });
  const look = async (lowest) => {
    if (lowest > height) return;
    const bytes = await ifThere(postForBytes("block/at/public", { height }, signal));
    if (bytes && blockHash(bytes) === hash) return;
    const again = h("button", { type: "button" }, "Show the present block");
    again.addEventListener("click", () => location.reload());
    refill(place, h("p", { class: "problem" }, "This block was replaced: it is no longer in the chain. ", again));
  };
  onReplaced(look, signal);
  return place;
}

/** Shows a block, or that it does not exist yet. */
async function show(height, page, signal) {
  const last = await lastHeight(height, signal);
  if (height < 1 || height > last) {
    return nothing(["There is no block of this height; the last one is ", link(`block/${last}`, grouped(last)), "."]);
  }
  const found = await load(height, signal);
  return [
    replacement(found, signal),
    properties(found),
    section(plural(found.block.transactions.length, "transaction"), transactionsOf(found, page)),
  ];
}

/**
 * @param {AbortSignal} signal
 * @param {string} text its height
 * @param {string} [page]
 */
export function block(signal, text, page = "1") {
  const height = Number(text);
  return {
    title: `Block ${grouped(height)}`,
    body: [
      h("div", { class: "heading" }, h("h1", { tabindex: -1 }, `Block ${grouped(height)}`), neighbours(height, signal)),
      loaded(signal, () => show(height, Math.max(1, Number(page)), signal)),
    ],
  };
}
