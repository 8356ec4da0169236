// The pages of a namespace and of a mosaic.

import { addressOf } from "./address.js";
import { foreign, h } from "./dom.js";
import { duration, grouped, units } from "./format.js";
import { isXem, mosaicName } from "./kinds.js";
import { PERCENTILE_LEVY, definitionOf, divisibilityOf, mosaicLink, property, quantityOf } from "./mosaics.js";
import { Problem, get } from "./node.js";
import {
  accountLink,
  badge,
  blockLink,
  facts,
  link,
  loaded,
  namespaceLink,
  nothing,
  pager,
  section,
  table,
  wholeAccountLink,
} from "./parts.js";
import { TARGET_SECONDS } from "./settings.js";

/** Maximum numbers of entries. */
const MOST = 50;
const MOST_HOLDERS = 25;
const SECONDS_OF_A_DAY = 86_400;
/** Rental period of a namespace, counted in blocks of the target time. */
const RENTAL_DAYS = 365;
/** Hundredths of a percent. */
const LEVY_DIVISIBILITY = 2;

/** Shows a text if the object does not exist. */
const orNothing = (text, load) => async () => {
  try {
    return await load();
  } catch (error) {
    if (error instanceof Problem && error.kind === "missing") return nothing(text);
    throw error;
  }
};

/** Returns the block until which a root namespace is rented, and the time left. */
async function rental(root, signal) {
  const [{ height }, { height: last }] = await Promise.all([
    get("namespace", { namespace: root }, signal),
    get("chain/height", {}, signal),
  ]);
  const until = height + RENTAL_DAYS * Math.floor(SECONDS_OF_A_DAY / TARGET_SECONDS);
  const left = (until - last) * TARGET_SECONDS;
  return [`until block ${grouped(until)}`, h("span", { class: "quiet" }, `, in about ${duration(left)}`)];
}

async function namespaceFacts(name, signal) {
  const { fqn, owner, height } = await get("namespace", { namespace: name }, signal);
  const root = fqn.split(".")[0],
    parent = fqn.split(".").slice(0, -1).join(".");
  const [children, mosaics] = await Promise.all([
    get("account/namespace/page", { address: owner, parent: fqn, pageSize: MOST }, signal),
    get("namespace/mosaic/definition/page", { namespace: fqn, pageSize: MOST }, signal),
  ]);
  return [
    facts([
      ["Owner", wholeAccountLink(owner)],
      ["Part of", parent ? namespaceLink(parent) : null],
      ["Since block", blockLink(height)],
      ["Rented", await rental(root, signal)],
    ]),
    section(
      "Namespaces below it",
      names(
        children.data.map((one) => namespaceLink(one.fqn)),
        "There are none.",
      ),
    ),
    section(
      "Mosaics",
      names(
        mosaics.data.map(({ mosaic }) => mosaicLink(mosaic.id)),
        "No mosaic is defined in it.",
      ),
    ),
  ];
}

const names = (links, otherwise) =>
  links.length > 0
    ? h(
        "ul",
        { class: "plain" },
        links.map((one) => h("li", {}, one)),
      )
    : nothing(otherwise);

/**
 * @param {AbortSignal} signal
 * @param {string} name
 */
export function namespace(signal, name) {
  return {
    title: `Namespace ${name}`,
    body: [
      h("h1", { tabindex: -1 }, "Namespace ", foreign(name)),
      loaded(
        signal,
        orNothing("There is no namespace of this name, or its lease has expired.", () => namespaceFacts(name, signal)),
      ),
    ],
  };
}

const yesOrNo = (value) => (value === "true" ? "yes" : "no");

/** The levy on every transfer of a mosaic. */
function levyFacts({ type, fee, mosaicId, recipient }, definition) {
  const what =
    type === PERCENTILE_LEVY
      ? `${units(fee, LEVY_DIVISIBILITY)}\u00a0% of the sent amount, in `
      : `${units(fee, divisibilityOf(definition))} `;
  return facts([
    ["For each transfer", [what, mosaicLink(mosaicId)]],
    ["Paid to", wholeAccountLink(recipient)],
  ]);
}

async function levyPart({ levy }) {
  if (!levy?.type) return nothing("There is no levy on transfers.");
  return levyFacts(levy, await definitionOf(mosaicName(levy.mosaicId)));
}

async function mosaicFacts(name, after, signal) {
  const definition = await definitionOf(name);
  const { supply } = await get("mosaic/supply", { mosaicId: name }, signal);
  return [
    facts([
      ["Description", foreign(definition.description)],
      ["Supply", [grouped(supply), h("span", { class: "quiet" }, " whole units")]],
      ["Initial supply", grouped(property(definition, "initialSupply"))],
      ["Divisibility", `${divisibilityOf(definition)} decimal places`],
      ["Transferable", yesOrNo(property(definition, "transferable"))],
      ["Supply can change", yesOrNo(property(definition, "supplyMutable"))],
      ["Creator", wholeAccountLink(addressOf(definition.creator))],
      ["Namespace", namespaceLink(definition.id.namespaceId)],
      ["State", await state(name, signal)],
    ]),
    section(
      "Levy",
      loaded(signal, () => levyPart(definition)),
    ),
    !isXem(definition.id) &&
      section(
        "Holders",
        loaded(
          signal,
          orNothing("The mosaic has expired. Its holders have it again if the owner renews the namespace in time.", () =>
            holders(name, definition, after, signal),
          ),
        ),
      ),
  ];
}

async function holders(name, definition, after, signal) {
  const page = { mosaicId: name, pageSize: MOST_HOLDERS };
  const { data } = await get("mosaic/holders", after ? { ...page, id: after } : page, signal);
  const next = data.length === MOST_HOLDERS && data.at(-1).meta.id;
  if (data.length === 0) return nothing(after ? "There are no more holders." : "There are no holders.");
  return [
    table(
      "Holders of the mosaic",
      [
        { name: "Account", cell: ({ holder }) => accountLink(holder.address) },
        { name: "Amount", class: "number", cell: ({ holder }) => quantityOf(holder.quantity, definition) },
      ],
      data,
    ),
    (after || next) &&
      pager(
        after && link(`mosaic/${name}`, "← ", "First"),
        next && link(`mosaic/${name}/holders/${next}`, "More", " →"),
      ),
  ];
}

/** Shows whether a mosaic is in force; its namespace may have expired. */
async function state(name, signal) {
  try {
    await get("mosaic/definition", { mosaicId: name }, signal);
    return badge("active", "good");
  } catch (error) {
    if (error instanceof Problem && error.kind === "missing") return badge("expired", "bad");
    throw error;
  }
}

/**
 * @param {AbortSignal} signal
 * @param {string} name of namespace and mosaic, separated by a colon
 * @param {string} [after] shows the holders after the one with this id
 */
export function mosaic(signal, name, after) {
  return {
    title: `Mosaic ${name}`,
    body: [
      h("h1", { tabindex: -1 }, "Mosaic ", foreign(name)),
      loaded(
        signal,
        orNothing("There is no mosaic of this name.", () => mosaicFacts(name, after, signal)),
      ),
    ],
  };
}
