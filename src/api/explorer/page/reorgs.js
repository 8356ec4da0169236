// The latest reorgs.

import { isLocal, onAccess } from "./access.js";
import { onReplaced } from "./chain.js";
import { h } from "./dom.js";
import { grouped, time } from "./format.js";
import { get } from "./node.js";
import { accountLink, refill, section, table } from "./parts.js";

/** Maximum number of rows. */
const MOST = 10;

/** Returns the heights that a reorg replaced. */
const heights = ({ replaced }) => {
  const [first, last] = [replaced[0].height, replaced.at(-1).height];
  return first === last ? grouped(first) : `${grouped(first)}–${grouped(last)}`;
};

/** Returns up to three harvesters of the replaced blocks. */
function harvesters({ replaced }) {
  const all = [...new Set(replaced.map(({ harvester }) => harvester))];
  return all.slice(0, 3).map((address, index) => [index > 0 && ", ", accountLink(address)]);
}

function reorgTable(reorgs) {
  const columns = [
    { name: "Time (UTC)", class: "nowrap clock", cell: (reorg) => time(reorg.timeStamp) },
    { name: "Heights", class: "number", cell: heights },
    { name: "Harvesters", cell: harvesters },
    { name: "Unconfirmed again", class: "number", cell: (reorg) => grouped(reorg.returnedTransactions) },
    { name: "Harvested here", class: "number wide", cell: ({ replaced }) => grouped(replaced.filter((b) => b.isOwn).length) },
  ];
  return table("Replaced blocks, newest first", columns, reorgs.slice(0, MOST));
}

/**
 * The blocks replaced since the node started; hidden if there are none. The node returns them to local clients only, as
 * they show which blocks were harvested here.
 * @param {AbortSignal} signal
 */
export function reorgs(signal) {
  const place = h("div", { hidden: true });
  const show = () =>
    isLocal() &&
    get("local/reorgs", {}, signal).then(
      ({ data }) => {
        place.hidden = data.length === 0;
        if (data.length > 0) refill(place, section("Replaced blocks", reorgTable(data)));
      },
      // Another part shows that the node does not answer.
      () => {},
    );
  onReplaced(show, signal);
  onAccess(show, signal);
  show();
  return place;
}
