// The page of a transaction.

import { addressOf } from "./address.js";
import { onBlocks, tip } from "./chain.js";
import { foreign, h } from "./dom.js";
import { duration, grouped, plural, secondsSince, time, units, xem } from "./format.js";
import * as kinds from "./kinds.js";
import { message } from "./message.js";
import { definitionOf, levyOf, mosaicLink, property, quantityOf } from "./mosaics.js";
import { signatures } from "./multisig.js";
import { Problem, get } from "./node.js";
import {
  badge,
  blockLink,
  copyable,
  facts,
  loaded,
  namespaceLink,
  nothing,
  refill,
  section,
  table,
  wholeAccountLink,
} from "./parts.js";
import { knownUnconfirmed, onUnconfirmed, refreshPool } from "./pool.js";

const accountOfKey = (publicKey) => wholeAccountLink(addressOf(publicKey));

/** The mosaics of a transfer, exactly, with what has to be paid for them besides. */
async function mosaicTable(transaction) {
  const amounts = kinds.moved(transaction);
  const definitions = await Promise.all(amounts.map(({ mosaicId }) => definitionOf(kinds.mosaicName(mosaicId))));
  const rows = amounts.map((amount, index) => ({ ...amount, definition: definitions[index] }));
  return table(
    "Mosaics of this transfer",
    [
      { name: "Mosaic", cell: ({ mosaicId }) => mosaicLink(mosaicId) },
      { name: "Amount", class: "number", cell: ({ quantity, definition }) => quantityOf(quantity, definition) },
      { name: "Levy", class: "number", cell: ({ quantity, definition }) => levyOf(definition, quantity) ?? "–" },
      {
        name: "Divisibility",
        class: "number wide",
        cell: ({ definition }) => property(definition, "divisibility") ?? "–",
      },
    ],
    rows,
  );
}

function transfer(transaction, signal) {
  const hasMosaics = transaction.mosaics?.length > 0;
  return [
    facts([
      ["Recipient", wholeAccountLink(transaction.recipient)],
      hasMosaics ? ["Multiplier", units(transaction.amount, 6)] : ["Amount", xem(transaction.amount)],
    ]),
    hasMosaics &&
      section(
        "Mosaics",
        loaded(signal, () => mosaicTable(transaction)),
      ),
    section("Message", message(transaction.message)),
  ];
}

function modification({ modifications, minCosignatories }) {
  const change = minCosignatories?.relativeChange ?? 0;
  return [
    facts([["Signatures needed", change === 0 ? null : `${change > 0 ? "+" : "\u2212"}${Math.abs(change)}`]]),
    section(
      "Cosignatories",
      table(
        "Changes of cosignatories",
        [
          { name: "Account", cell: (one) => accountOfKey(one.cosignatoryAccount) },
          {
            name: "Change",
            cell: (one) => (one.modificationType === 1 ? badge("added", "good") : badge("removed", "bad")),
          },
        ],
        modifications,
      ),
    ),
  ];
}

function definition({ mosaicDefinition, creationFee, creationFeeSink }) {
  const { id, description, properties, levy } = mosaicDefinition;
  return [
    facts([
      ["Mosaic", mosaicLink(id)],
      ["Description", foreign(description)],
      ...properties.map(({ name, value }) => [name, foreign(value)]),
      ["Levy", levy?.type ? [mosaicLink(levy.mosaicId), ` to `, wholeAccountLink(levy.recipient)] : "none"],
      ["Creation fee", [xem(creationFee), " to ", wholeAccountLink(creationFeeSink)]],
    ]),
  ];
}

/** What a transaction does, by its kind. */
function details(transaction, signal) {
  switch (transaction.type) {
    case kinds.TRANSFER:
      return transfer(transaction, signal);
    case kinds.IMPORTANCE_TRANSFER:
      return facts([
        ["Harvesting account", accountOfKey(transaction.remoteAccount)],
        ["Mode", transaction.mode === 1 ? "switched on" : "switched off"],
      ]);
    case kinds.AGGREGATE_MODIFICATION:
      return modification(transaction);
    case kinds.NAMESPACE:
      return facts([
        ["Namespace", namespaceLink([transaction.parent, transaction.newPart].filter(Boolean).join("."))],
        ["Rental fee", [xem(transaction.rentalFee), " to ", wholeAccountLink(transaction.rentalFeeSink)]],
      ]);
    case kinds.MOSAIC_DEFINITION:
      return definition(transaction);
    case kinds.SUPPLY_CHANGE:
      return facts([
        ["Mosaic", mosaicLink(transaction.mosaicId)],
        ["Change", `${transaction.supplyType === 1 ? "+" : "\u2212"}${grouped(transaction.delta)} whole units`],
      ]);
    default:
      return nothing("This page does not know what transactions of this kind do.");
  }
}

/** How many blocks have a transaction in them or behind them, as they come. */
function confirmations(height, signal) {
  const place = h("span", { class: "quiet" });
  onBlocks(() => {
    const last = tip()?.height ?? 0;
    if (last >= height) place.textContent = `, ${plural(last - height + 1, "confirmation")}`;
  }, signal);
  return place;
}

/** Where a transaction stands. */
function standing({ transaction, height }, signal) {
  if (height) return [badge("confirmed", "good"), " in block ", blockLink(height), confirmations(height, signal)];
  const left = -secondsSince(transaction.deadline);
  return [badge("unconfirmed", "bad"), left > 0 ? ` for ${duration(left)} more at most` : " and too late"];
}

function shown({ transaction, height, hash, innerHash }, signal) {
  const inner = kinds.innerOf(transaction),
    isMultisig = inner !== transaction;
  return [
    facts([
      ["State", standing({ transaction, height }, signal)],
      ["Hash", copyable(hash)],
      ["Inner hash", innerHash ? copyable(innerHash) : null],
      ["Kind", [kinds.nameOf(inner), isMultisig && [" ", badge("multisig")]]],
      ["Time (UTC)", time(transaction.timeStamp)],
      ["Deadline (UTC)", time(transaction.deadline)],
      ["Sender", accountOfKey(inner.signer)],
      [
        "Fee",
        [xem(kinds.feesOf(transaction)), isMultisig && h("span", { class: "quiet" }, " with those of the signatures")],
      ],
    ]),
    details(inner, signal),
    isMultisig &&
      section(
        "Signatures",
        loaded(signal, () => signatures(transaction, Boolean(height), signal)),
      ),
    section(
      "Signed by",
      facts([
        ["Public key", copyable(transaction.signer)],
        ["Signature", copyable(transaction.signature)],
      ]),
    ),
  ];
}

/** A transaction that a block has, or null. */
async function confirmed(hash, signal) {
  try {
    const { meta, transaction } = await get("transaction/get", { hash, nested: true }, signal);
    return { transaction, height: meta.height, hash: meta.hash.data, innerHash: meta.innerHash?.data };
  } catch (error) {
    if (error instanceof Problem && error.kind === "missing") return null;
    throw error;
  }
}

/** A transaction wherever it is. */
async function find(hash, signal) {
  const found = knownUnconfirmed(hash) ?? (await confirmed(hash, signal));
  if (found) return found;
  await refreshPool();
  return knownUnconfirmed(hash);
}

/**
 * @param {AbortSignal} signal
 * @param {string} text its hash
 */
export function transaction(signal, text) {
  const hash = text.toLowerCase(),
    settled = new AbortController();
  const content = (found) => {
    if (found?.height) settled.abort();
    return found
      ? shown(found, signal)
      : nothing(
          "No transaction with this hash is in the chain or waits for a block, and no block that may still be replaced has " +
            "it. Older blocks are found by their heights.",
        );
  };
  // Until a block has it, it may get signatures, come into a block, or be dropped.
  const lookAgain = async () => {
    const found = knownUnconfirmed(hash) ?? (await confirmed(hash, signal));
    if (!signal.aborted && !settled.signal.aborted) refill(place, content(found));
  };
  const place = loaded(signal, async () => {
    const found = await find(hash, signal);
    if (!found?.height) onUnconfirmed(() => lookAgain().catch(() => {}), AbortSignal.any([signal, settled.signal]));
    return content(found);
  });
  return { title: `Transaction ${hash.slice(0, 10)}…`, body: [h("h1", { tabindex: -1 }, "Transaction"), place] };
}
