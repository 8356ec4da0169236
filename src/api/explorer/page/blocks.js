// The newest blocks of the chain, live.

import { lastBlocks, lastReorg, onBlocks } from "./chain.js";
import { h } from "./dom.js";
import { clock, grouped, plural, time, xem } from "./format.js";
import { accountLink, blockLink, refill, table } from "./parts.js";

/** Says that blocks were replaced while the page was open. */
function reorgNote({ count, from, time: seen }) {
  return h(
    "p",
    { class: "reorg" },
    `${plural(count, "block")} ${count === 1 ? "was" : "were"} replaced at height `,
    blockLink(from),
    `, seen at ${clock(seen)}`,
  );
}

/** Returns the blocks as a table, and among them for a while those that were replaced. */
function blockTable(caption, most) {
  const replaced = lastReorg()?.blocks ?? [];
  const gone = new Set(replaced);
  const shown = [...lastBlocks().slice(0, most), ...replaced].sort((one, other) => other.height - one.height);
  const cell = (content, goneContent = content) => (block) =>
    gone.has(block) ? h("del", {}, goneContent(block)) : content(block);
  const columns = [
    { name: "Height", class: "number", cell: cell(({ height }) => blockLink(height), ({ height }) => grouped(height)) },
    { name: "Time (UTC)", class: "nowrap clock", cell: cell((block) => time(block.time)) },
    { name: "Harvester", cell: cell(({ harvester }) => accountLink(harvester)) },
    { name: "Transactions", class: "number", cell: cell(({ count }) => grouped(count)) },
    { name: "Fees", class: "number wide", cell: cell(({ fees }) => xem(fees)) },
  ];
  return table(caption, columns, shown.slice(0, most + gone.size));
}

/**
 * Shows the newest blocks as they come. Replaced ones leave visibly, and a note says so.
 * @param {string} caption of the table
 * @param {number} most maximum number of rows
 * @param {AbortSignal} signal
 */
export function newestBlocks(caption, most, signal) {
  const note = h("div", { role: "status" }),
    blocks = h("div");
  /** The reorg that is told. */
  let told = null;
  onBlocks(() => {
    const reorg = lastReorg();
    if (reorg !== told) refill(note, reorgNote(reorg));
    told = reorg;
    if (lastBlocks().length > 0) refill(blocks, blockTable(caption, most));
  }, signal);
  return [note, blocks];
}
