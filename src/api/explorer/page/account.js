// The page of an account.

import { inGroups, isAddress } from "./address.js";
import { h } from "./dom.js";
import { duration, grouped, plural, time, units, xem } from "./format.js";
import { mosaicName } from "./kinds.js";
import { divisibilityOf, mosaicLink, quantityOf } from "./mosaics.js";
import { Problem, get, nodeInfo } from "./node.js";
import {
  badge,
  blockLink,
  copyable,
  facts,
  link,
  loaded,
  namespaceLink,
  nothing,
  pager,
  refill,
  section,
  table,
  wholeAccountLink,
} from "./parts.js";
import { line } from "./plot.js";
import { PAGE, entryOf, payments } from "./payments.js";
import { TARGET_SECONDS } from "./settings.js";
import { transactionTable } from "./transactions.js";

/** Maximum number of mosaics and namespaces shown. */
const MOST = 50;
/** Number of heights at which the balance is requested. */
const POINTS = 120;
/** Feature bit of historical account data, and the node's error if it has such data only from some block on. */
const KEEPS_HISTORY = 2;
const BEGINNING = /begins at height (\d+)/;
const HEIGHT = 140;

const HARVESTING = {
  LOCKED: "not on this node",
  UNLOCKED: "harvests on this node",
  UNKNOWN: "unknown",
};
const DELEGATION = {
  ACTIVE: "delegated",
  INACTIVE: null,
  ACTIVATING: "delegation begins after some blocks",
  DEACTIVATING: "delegation ends after some blocks",
  REMOTE: "harvests for another account",
};

function properties({ account, meta }) {
  return facts([
    ["Balance", xem(account.balance)],
    ["Vested", [xem(account.vestedBalance), h("span", { class: "quiet" }, ", counts for harvesting")]],
    ["Importance", account.importance > 0 ? `${(100 * Number(account.importance)).toPrecision(4)}\u00a0%` : "none"],
    [
      "Harvesting",
      [
        HARVESTING[meta.status] ?? meta.status,
        DELEGATION[meta.remoteStatus] && [", ", badge(DELEGATION[meta.remoteStatus])],
      ],
    ],
    ["Harvested blocks", grouped(account.harvestedBlocks)],
    ["Public key", account.publicKey ? copyable(account.publicKey) : "unknown: the account has signed nothing"],
  ]);
}

const accountList = (accounts) =>
  h(
    "ul",
    { class: "plain" },
    accounts.map(({ address }) => h("li", {}, wholeAccountLink(address))),
  );

/** Cosignatories of the account, and the accounts that it cosigns, if there are any. */
function multisig({ account, meta }) {
  const { cosignatoriesCount: all, minCosignatories } = account.multisigInfo;
  const rule = `Multisig: ${minCosignatories || all} of ${plural(all, "cosignatory", "cosignatories")} must sign.`;
  return [
    meta.cosignatories.length > 0 && section("Cosignatories", h("p", {}, rule), accountList(meta.cosignatories)),
    meta.cosignatoryOf.length > 0 && section("Signs for", accountList(meta.cosignatoryOf)),
  ];
}

/** Returns the balance over time; null if the node does not keep it. */
async function balances(address, signal) {
  const { metaData } = await nodeInfo();
  if (!(metaData.features & KEEPS_HISTORY)) return null;
  const { height } = await get("chain/height", {}, signal);
  try {
    return await balancesFrom(1, height, address, signal);
  } catch (error) {
    // The node may keep it only from some block on, which its error names.
    const begin = error instanceof Problem && error.message.match(BEGINNING);
    if (!begin) throw error;
    return balancesFrom(Number(begin[1]), height, address, signal);
  }
}

async function balancesFrom(first, last, address, signal) {
  const increment = Math.max(1, Math.ceil((last - first) / POINTS));
  const { data } = await get(
    "account/historical/get",
    { address, startHeight: first, endHeight: last, increment },
    signal,
  );
  return data;
}

/** Draws the balances as a line. It does not start at zero if they differ little. */
function balancePlot(data) {
  const amounts = data.map(({ balance }) => BigInt(balance));
  const least = amounts.reduce((one, other) => (other < one ? other : one));
  const most = amounts.reduce((one, other) => (other > one ? other : one));
  const isNarrow = least < most && 2n * least > most;
  const bottom = isNarrow ? Number(least - (most - least) / 4n) : 0;
  const first = data[0].height,
    last = data.at(-1).height;
  return h(
    "figure",
    { class: "balance" },
    line(
      data.map(({ height, balance }) => [height, Number(balance)]),
      { stepped: true, height: HEIGHT, bottom },
    ),
    h(
      "figcaption",
      {},
      `From block ${grouped(first)} to ${grouped(last)}, about ${duration((last - first) * TARGET_SECONDS)}: `,
      `between ${units(least, 6)} and ${units(most, 6)} XEM.`,
      isNarrow && " The plot does not start at zero.",
    ),
  );
}

function history(address, present, signal) {
  const part = section(
    "Balance over time",
    present(async () => {
      const data = await balances(address, signal);
      part.hidden = data === null;
      if (data === null) return null;
      return data.length < 2 ? nothing("There is no data of earlier blocks.") : balancePlot(data);
    }),
  );
  return part;
}

async function mosaics(address, signal) {
  const [owned, definitions] = await Promise.all(
    ["account/mosaic/owned", "account/mosaic/owned/definition"].map((path) => get(path, { address }, signal)),
  );
  const byName = new Map(definitions.data.map((definition) => [mosaicName(definition.id), definition]));
  if (owned.data.length === 0) return nothing("The account owns no mosaics.");
  const shown = owned.data.slice(0, MOST).map((one) => ({ ...one, definition: byName.get(mosaicName(one.mosaicId)) }));
  return [
    table(
      "Mosaics of the account",
      [
        { name: "Mosaic", cell: ({ mosaicId }) => mosaicLink(mosaicId) },
        {
          name: "Amount",
          class: "number",
          cell: ({ quantity, definition }) => (definition ? quantityOf(quantity, definition) : grouped(quantity)),
        },
        {
          name: "Divisibility",
          class: "number wide",
          cell: ({ definition }) => (definition ? String(divisibilityOf(definition)) : "–"),
        },
      ],
      shown,
    ),
    rest(owned.data.length),
  ];
}

const rest = (count) => count > MOST && h("p", { class: "quiet" }, `${grouped(count - MOST)} more are not shown.`);

async function namespaces(address, signal) {
  const { data } = await get("account/namespace/page", { address, pageSize: MOST }, signal);
  if (data.length === 0) return nothing("The account has no namespaces.");
  return table(
    "Namespaces of the account",
    [
      { name: "Namespace", cell: ({ fqn }) => namespaceLink(fqn) },
      { name: "Since block", class: "number", cell: ({ height }) => blockLink(height) },
    ],
    data,
  );
}

async function harvests(address, signal) {
  const { data } = await get("account/harvests", { address, pageSize: PAGE }, signal);
  if (data.length === 0) return nothing("The account has harvested no block.");
  return table(
    "The last blocks that the account harvested, newest first",
    [
      { name: "Height", class: "number", cell: ({ height }) => blockLink(height) },
      { name: "Time (UTC)", cell: ({ timeStamp }) => time(timeStamp) },
      { name: "Fees", class: "number", cell: ({ totalFee }) => xem(totalFee) },
    ],
    data,
  );
}

/** Returns a page of its transactions below an id, newest first; the id of the last one leads to the next page. */
async function olderTransactions(address, before, signal) {
  const { data } = await get("account/transfers/all", { address, pageSize: PAGE, id: before }, signal);
  const older = data.length === PAGE && link(`account/${address}/before/${data.at(-1).meta.id}`, "Older", " →");
  return [
    data.length > 0
      ? transactionTable("Transactions of the account, newest first", data.map(entryOf), { of: address })
      : nothing("No transactions."),
    pager(link(`account/${address}`, "← ", "Newest"), older),
  ];
}

/** Returns all parts of the page. */
function parts(address, signal) {
  const lists = payments(address, signal);
  const present = (load) => {
    const place = loaded(signal, load);
    // An error is repaired by the next change.
    lists.onChange(() => load().then((found) => signal.aborted || refill(place, found), () => {}));
    return place;
  };
  return [
    present(async () => {
      const found = await get("account/get", { address }, signal);
      return [properties(found), multisig(found)];
    }),
    history(address, present, signal),
    h(
      "div",
      { class: "columns even" },
      section(
        "Mosaics",
        present(() => mosaics(address, signal)),
      ),
      section(
        "Namespaces",
        loaded(signal, () => namespaces(address, signal)),
      ),
    ),
    lists.sections,
    section(
      "Harvested blocks",
      loaded(signal, () => harvests(address, signal)),
    ),
  ];
}

/**
 * @param {AbortSignal} signal
 * @param {string} address
 * @param {string} [before] shows only the transactions with ids below this one
 */
export function account(signal, address, before) {
  const heading = [h("h1", { tabindex: -1 }, "Account"), h("p", { class: "subject" }, copyable(address, inGroups(address)))];
  const title = `Account ${inGroups(address).slice(0, 13)}…`;
  if (!isAddress(address)) {
    return {
      title,
      body: [
        ...heading,
        nothing("This is not an address of this network. It has a typing error or belongs to another network."),
      ],
    };
  }
  const older = () =>
    section(
      "Older transactions",
      loaded(signal, () => olderTransactions(address, before, signal)),
    );
  const back = h("p", {}, link(`account/${address}`, "Whole account"));
  if (before) return { title, body: [...heading, back, older()] };
  return { title, wish: { address }, body: [...heading, parts(address, signal)] };
}
