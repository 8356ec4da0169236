// Blocks that were replaced, as the node remembers them.

import { onReplaced } from "./chain.js";
import { h } from "./dom.js";
import { grouped, plural, time } from "./format.js";
import { get } from "./node.js";
import { accountLink, refill, section, table } from "./parts.js";
import { IS_LOCAL } from "./settings.js";

/** Rows that are shown. */
const MOST = 10;

/** Which heights a reorg has replaced. */
const heights = ({ replaced }) => {
  const [first, last] = [replaced[0].height, replaced.at(-1).height];
  return first === last ? grouped(first) : `${grouped(first)}–${grouped(last)}`;
};

/** Who has harvested the replaced blocks: some of them. */
function harvesters({ replaced }) {
  const all = [...new Set(replaced.map(({ harvester }) => harvester))];
  return all.slice(0, 3).map((address, index) => [index > 0 && ", ", accountLink(address)]);
}

function reorgTable(reorgs) {
  const columns = [
    { name: "Time (UTC)", class: "nowrap", cell: (reorg) => time(reorg.timeStamp) },
    { name: "Heights", class: "number", cell: heights },
    { name: "Harvesters", cell: harvesters },
    { name: "Unconfirmed again", class: "number", cell: (reorg) => plural(reorg.returnedTransactions, "transaction") },
    { name: "Harvested here", class: "number", cell: ({ replaced }) => grouped(replaced.filter((b) => b.isOwn).length) },
  ];
  return table("Blocks that others have replaced, the newest first", columns, reorgs.slice(0, MOST));
}

/**
 * The blocks that were replaced since the node was started; nothing where there are none. The node tells its own machine
 * only, as what is harvested here is nobody else's business.
 * @param {AbortSignal} signal
 */
export function reorgs(signal) {
  const place = h("div", { hidden: true });
  if (!IS_LOCAL) return place;
  const show = () =>
    get("local/reorgs", {}, signal).then(
      ({ data }) => {
        place.hidden = data.length === 0;
        if (data.length > 0) refill(place, section("Replaced blocks", reorgTable(data)));
      },
      // That the node does not answer is said elsewhere.
      () => {},
    );
  onReplaced(show, signal);
  show();
  return place;
}
