// The page of a transaction.

import { addressOf } from "./address.js";
import { knownHeight, onBlocks, onReplaced } from "./chain.js";
import { foreign, h } from "./dom.js";
import { duration, grouped, plural, secondsSince, time, units, xem } from "./format.js";
import * as kinds from "./kinds.js";
import { message } from "./message.js";
import { definitionOf, levyOf, mosaicLink, property, quantityOf } from "./mosaics.js";
import { signatures } from "./multisig.js";
import { findsByHash, transactionByHash } from "./node.js";
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
import { isPoolTold, knownUnconfirmed, onUnconfirmed, refreshPool } from "./pool.js";

const accountOfKey = (publicKey) => wholeAccountLink(addressOf(publicKey));

/** The mosaics of a transfer, exactly, with their levies. */
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

/** The details of a transaction, by its kind. */
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
      return nothing("This page does not support this kind of transaction.");
  }
}

/** The number of confirmations of a transaction, kept up to date. */
function confirmations(height, signal) {
  const place = h("span", { class: "quiet" });
  onBlocks(() => {
    const last = knownHeight();
    if (last >= height) place.textContent = `, ${plural(last - height + 1, "confirmation")}`;
  }, signal);
  return place;
}

/** The state of a transaction: confirmed or unconfirmed. */
function standing({ transaction, height }, signal) {
  if (height) return [badge("confirmed", "good"), " in block ", blockLink(height), confirmations(height, signal)];
  const left = -secondsSince(transaction.deadline);
  return [badge("unconfirmed", "bad"), left > 0 ? `, expires in ${duration(left)}` : ", expired"];
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
        [xem(kinds.feesOf(transaction)), isMultisig && h("span", { class: "quiet" }, ", cosignatures included")],
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

/** Returns a confirmed transaction, or null. */
async function confirmed(hash, signal) {
  const found = await transactionByHash(hash, signal);
  if (!found) return null;
  const { meta, transaction } = found;
  return { transaction, height: meta.height, hash: meta.hash.data, innerHash: meta.innerHash?.data };
}

/** Returns a transaction; also requests the unconfirmed ones if they are not told. */
async function anew(hash, signal) {
  const found = await confirmed(hash, signal);
  if (found) return found;
  if (!isPoolTold()) await refreshPool();
  return knownUnconfirmed(hash);
}

/** Returns a transaction that is known as unconfirmed, or is confirmed. */
const known = async (hash, signal) => knownUnconfirmed(hash) ?? confirmed(hash, signal);

/** Returns a transaction, known or requested. */
const find = async (hash, signal) => knownUnconfirmed(hash) ?? anew(hash, signal);

/**
 * @param {AbortSignal} signal
 * @param {string} text its hash
 */
export function transaction(signal, text) {
  const hash = text.toLowerCase();
  /** Height of its block; null while it is unconfirmed, also again after a reorg. */
  let height = null;
  /** Aborted when it is confirmed: until then it may get signatures, be confirmed, or be dropped. */
  let settled = null;
  const content = async (found) => {
    height = found?.height ?? null;
    if (height) {
      settled?.abort();
      settled = null;
    } else if (!settled) {
      settled = new AbortController();
      const whileOpen = AbortSignal.any([signal, settled.signal]);
      onUnconfirmed(look, whileOpen);
      onBlocks(look, whileOpen);
    }
    if (found) return shown(found, signal);
    if (!(await findsByHash())) {
      return nothing(
        "No unconfirmed transaction has this hash. This node does not find confirmed transactions by hash.",
      );
    }
    return nothing(
      "No transaction with this hash is confirmed or unconfirmed, and no block that a reorg can still replace has " +
        "it. Older blocks are found by their heights.",
    );
  };
  const lookAgain = async (search) => {
    const now = await content(await search(hash, signal));
    if (!signal.aborted) refill(place, now);
  };
  /** What the last look was based on. */
  let seen = null;
  const look = () => {
    const [before, now] = [seen, [knownUnconfirmed(hash), knownHeight()]];
    seen = now;
    if (before?.some((one, index) => one !== now[index])) lookAgain(known).catch(() => {});
  };
  const place = loaded(signal, async () => content(await find(hash, signal)));
  onReplaced((lowest) => height >= lowest && lookAgain(anew), signal);
  return { title: `Transaction ${hash.slice(0, 10)}…`, wish: { pool: true }, body: [h("h1", { tabindex: -1 }, "Transaction"), place] };
}
