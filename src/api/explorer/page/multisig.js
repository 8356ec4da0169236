// Cosignatories of a multisig transaction: those that have signed, and those that have not.

import { addressOf } from "./address.js";
import { h } from "./dom.js";
import { plural, time } from "./format.js";
import { get } from "./node.js";
import { badge, nothing, table, wholeAccountLink } from "./parts.js";

/** Returns the present signatures by address; the first is the initiator's. */
function signed({ signer, timeStamp, signatures }) {
  const all = [{ signer, timeStamp, word: "initiated" }, ...signatures.map((one) => ({ ...one, word: "signed" }))];
  return new Map(all.map((one) => [addressOf(one.signer), one]));
}

function signatureTable(rows) {
  return table(
    "Cosignatories and their signatures",
    [
      { name: "Cosignatory", cell: ({ address }) => wholeAccountLink(address) },
      { name: "Signature", cell: ({ by }) => (by ? badge(by.word, "good") : badge("missing", "bad")) },
      { name: "Time (UTC)", class: "wide", cell: ({ by }) => (by ? time(by.timeStamp) : "–") },
    ],
    rows,
  );
}

/** Shows how many signatures are missing. */
function need(account, count) {
  // Zero means all.
  const least = account.multisigInfo.minCosignatories || account.multisigInfo.cosignatoriesCount;
  const missing = Math.max(0, least - count);
  const state = missing === 0 ? badge("enough", "good") : badge(`${plural(missing, "signature")} missing`, "bad");
  return h(
    "p",
    {},
    `${count} of ${plural(account.multisigInfo.cosignatoriesCount, "cosignatory", "cosignatories")} signed; `,
    `${least} must sign. `,
    state,
  );
}

/**
 * The signatures of a multisig transaction.
 * @param {any} transaction
 * @param {boolean} isConfirmed whether it is in a block: the cosignatories of that time are then unknown
 * @param {AbortSignal} signal
 */
export async function signatures(transaction, isConfirmed, signal) {
  const by = signed(transaction);
  if (isConfirmed) {
    const rows = [...by].map(([address, one]) => ({ address, by: one }));
    return [
      h("p", {}, `${plural(by.size, "cosignatory", "cosignatories")} signed, which was enough.`),
      signatureTable(rows),
    ];
  }
  const { account, meta } = await get("account/get", { address: addressOf(transaction.otherTrans.signer) }, signal);
  if (!account.multisigInfo.cosignatoriesCount) return nothing("The account has no cosignatories any more.");
  const rows = meta.cosignatories.map(({ address }) => ({ address, by: by.get(address) }));
  return [need(account, by.size), signatureTable(rows)];
}
