// Lists of transactions.

import { addressOf } from "./address.js";
import { h } from "./dom.js";
import { plural, time, xem } from "./format.js";
import * as kinds from "./kinds.js";
import { excerpt } from "./message.js";
import { mosaicAmount, mosaicLink } from "./mosaics.js";
import { accountLink, badge, namespaceLink, table, transactionLink } from "./parts.js";

/**
 * @typedef {object} Entry
 * @property {any} transaction
 * @property {string} [hash]
 * @property {number} [height] of its block; missing if it is unconfirmed
 */

const CHANGES = { 1: "added", 2: "removed" };

/** Returns the other account of a transaction; null if there is none. */
function counterpart(transaction) {
  const { type, recipient, remoteAccount } = transaction;
  if (type === kinds.TRANSFER) return recipient;
  if (type === kinds.IMPORTANCE_TRANSFER) return addressOf(remoteAccount);
  return null;
}

/** Returns what a transfer moves, in one line. */
function movedShortly(transaction) {
  const [first, ...others] = kinds.moved(transaction);
  return h("span", {}, mosaicAmount(first), others.length > 0 && ` and ${plural(others.length, "other mosaic")}`);
}

/** Returns what a transaction does, in one line. */
function content(transaction) {
  const { type } = transaction;
  switch (type) {
    case kinds.TRANSFER:
      return movedShortly(transaction);
    case kinds.IMPORTANCE_TRANSFER:
      return transaction.mode === 1 ? "switched on" : "switched off";
    case kinds.AGGREGATE_MODIFICATION:
      return Object.entries(CHANGES).map(([kind, word]) => {
        const count = transaction.modifications.filter((one) => one.modificationType === Number(kind)).length;
        return count > 0 && h("span", {}, `${plural(count, "cosignatory", "cosignatories")} ${word} `);
      });
    case kinds.NAMESPACE:
      return namespaceLink([transaction.parent, transaction.newPart].filter(Boolean).join("."));
    case kinds.MOSAIC_DEFINITION:
      return mosaicLink(transaction.mosaicDefinition.id);
    case kinds.SUPPLY_CHANGE:
      return [transaction.supplyType === 1 ? "more of " : "less of ", mosaicLink(transaction.mosaicId)];
    default:
      return null;
  }
}

/** The kind of a transaction; a multisig transaction is marked beside the kind of its inner one. */
const kindOf = (transaction) => [
  kinds.nameOf(kinds.innerOf(transaction)),
  transaction.type === kinds.MULTISIG && [" ", badge("multisig")],
];

/**
 * A table of transactions.
 * @param {string} caption
 * @param {Entry[]} entries
 * @param {{of?: string, fate?: (entry: any) => any}} [options] the account whose list it is: its transfers are marked as
 *   incoming or outgoing; and what a column tells of each transaction
 */
export function transactionTable(caption, entries, { of, fate } = {}) {
  const what = ({ transaction }) => {
    const inner = kinds.innerOf(transaction);
    return [h("div", {}, direction(inner, of), content(inner)), inner.message && excerpt(inner.message)];
  };
  const parties = ({ transaction }) => {
    const inner = kinds.innerOf(transaction),
      to = counterpart(inner);
    return [accountLink(addressOf(inner.signer)), to && [h("span", { class: "to" }, " to "), accountLink(to)]];
  };
  const columns = [
    { name: "Time (UTC)", class: "nowrap when", cell: ({ transaction }) => time(transaction.timeStamp) },
    { name: "Kind", class: "kind", cell: ({ transaction }) => kindOf(transaction) },
    { name: "From, to", class: "parties", cell: parties },
    { name: "Content", class: "what", cell: what },
    { name: "Fee", class: "number wide", cell: ({ transaction }) => xem(kinds.feesOf(transaction)) },
    ...(fate ? [{ name: "State", class: "fate", cell: fate }] : []),
    { name: "Transaction", class: "number", cell: reference },
  ];
  return table(caption, columns, entries, "stacking");
}

/** Marks a transfer as incoming or outgoing, before its amount. */
function direction({ type, signer, recipient }, of) {
  if (!of || type !== kinds.TRANSFER) return null;
  const isOut = addressOf(signer) === of,
    isIn = recipient === of;
  if (isOut && isIn) return badge("to itself");
  if (isOut) return h("span", { class: "out" }, "out ");
  return isIn && h("span", { class: "in" }, "in ");
}

const reference = ({ hash }) => (hash ? transactionLink(hash) : h("span", { class: "quiet" }, "new"));
