// What pages are made of.

import { inGroups } from "./address.js";
import { append, h } from "./dom.js";
import { grouped, shortened } from "./format.js";
import { Problem } from "./node.js";

/** Time after which it is said that something is loading; most is there earlier. */
const PATIENCE_MS = 200;

/** What to do about what went wrong. */
const ADVICE = {
  unreachable: "Is it still running, and is this machine connected to it?",
  starting: "It has no chain yet. It answers as soon as it has one.",
  busy: "Too much was asked in a short time. Wait a few seconds and try again.",
  refused: "The node answers this to callers from its own machine only.",
  failed: "Try again; if it stays like this, the log of the node says why.",
};
/** What passes when the node is there again, and the time between two attempts. */
const AWAY = ["unreachable", "starting"];
const AWAY_MS = 3000;
const HEADLINES = {
  unreachable: "The node cannot be reached",
  starting: "The node is starting",
  busy: "The node asks for patience",
  refused: "Not for everybody",
  missing: "Not found",
  failed: "That went wrong",
};

/** A link within the page. */
export const link = (path, ...children) => h("a", { href: `#/${path}` }, ...children);

export const blockLink = (height) => link(`block/${height}`, grouped(height));

/** A hash or a key, shortened; the whole of it is its title. */
const short = (text, ends) => h("code", { title: text }, shortened(text, ends));

export const accountLink = (address) => h("a", { href: `#/account/${address}`, class: "address" }, short(address));

/** An address as a whole. */
export const wholeAccountLink = (address) =>
  h("a", { href: `#/account/${address}`, class: "address" }, whole(inGroups(address)));

export const transactionLink = (hash) => link(`transaction/${hash}`, short(hash, 5));

export const namespaceLink = (name) => h("a", { href: `#/namespace/${name}`, class: "name" }, name);

/** A hash, key or address as a whole, which breaks where there is no room. */
export const whole = (text) => h("code", { class: "whole" }, text);

/** Time for which a button says that it has copied. */
const COPIED_MS = 1500;

/** Puts a text onto the clipboard. Pages that do not come over https or from this machine have no other way than the second. */
async function copy(text, element) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = h("textarea", { class: "hidden" });
  field.value = text;
  element.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (!isCopied) throw new Error("the browser does not copy");
}

/** A hash, key or address as a whole, with a button that copies it. */
export function copyable(text, shown = text) {
  const say = (word) => {
    button.textContent = word;
    setTimeout(() => {
      button.textContent = "Copy";
    }, COPIED_MS);
  };
  const button = h(
    "button",
    {
      type: "button",
      class: "copy",
      onclick: () =>
        copy(text, button.parentElement).then(
          () => say("Copied"),
          () => say("Select it"),
        ),
    },
    "Copy",
  );
  return h("span", { class: "copyable" }, whole(shown), " ", button);
}

/** A word that says in which state something is. */
export const badge = (text, kind = "neutral") => h("span", { class: `badge ${kind}` }, text);

/** Names and values; those whose value is null are left out. */
export function facts(rows) {
  const shown = rows.filter(([, value]) => value != null);
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/**
 * A table. Its parts have their roles by name, as some browsers forget them where a style lays a table out otherwise.
 * @param {string} caption what it holds, for those who do not see it
 * @param {{name: string, class?: string, cell: (row: any) => any}[]} columns the first is the head of its row; the
 *   class `wide` is for those that narrow screens leave out, `number` for what is aligned to the right
 * @param {any[]} rows
 * @param {"stacking" | ""} [layout] of stacking ones, each row becomes a few lines on a narrow screen
 */
export function table(caption, columns, rows, layout = "") {
  const head = columns.map((column) =>
    h("th", { role: "columnheader", scope: "col", class: column.class }, column.name),
  );
  const cell = (column, index, row) =>
    index === 0
      ? h("th", { role: "rowheader", scope: "row", class: column.class }, column.cell(row))
      : h("td", { role: "cell", class: column.class }, column.cell(row));
  const body = rows.map((row) =>
    h(
      "tr",
      { role: "row" },
      columns.map((column, index) => cell(column, index, row)),
    ),
  );
  return h(
    "table",
    { role: "table", class: layout || null },
    h("caption", { class: "hidden" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
    h("tbody", { role: "rowgroup" }, body),
  );
}

/** A part of a page with its own heading. */
export function section(title, ...children) {
  const id = `part-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

/** Says that there is nothing. */
export const nothing = (text) => h("p", { class: "nothing" }, text);

/**
 * Says what went wrong and what to do.
 * @param {Error} error
 * @param {() => void} [again] tries it again
 */
export function problem(error, again) {
  if (!(error instanceof Problem)) console.error(error);
  const kind = error instanceof Problem ? error.kind : "failed";
  return h(
    "div",
    { class: "problem" },
    h("p", { class: "headline" }, HEADLINES[kind]),
    h("p", {}, ADVICE[kind] ?? null),
    kind === "failed" && h("p", { class: "quiet" }, error.message),
    again && h("button", { type: "button", onclick: again }, "Try again"),
  );
}

/** Puts children in the place of all that an element has. Who was at a link there is at the same link afterwards. */
export function refill(element, ...children) {
  const active = document.activeElement;
  const place = element.contains(active) ? active.getAttribute("href") : null;
  element.replaceChildren();
  append(element, ...children);
  if (place) element.querySelector(`a[href="${CSS.escape(place)}"]`)?.focus({ preventScroll: true });
}

/**
 * A place that is filled when something has come. While the node is away it is asked again from time to time.
 * @param {AbortSignal} signal given when nobody looks any more
 * @param {() => Promise<any>} load brings what it is filled with
 */
export function loaded(signal, load) {
  const place = h("div");
  const attempt = () => {
    if (signal.aborted) return;
    place.setAttribute("aria-busy", "true");
    const patience = setTimeout(() => refill(place, nothing("Loading…")), PATIENCE_MS);
    const end = (content) => {
      clearTimeout(patience);
      if (signal.aborted) return;
      place.removeAttribute("aria-busy");
      refill(place, content());
    };
    load().then(
      (found) => end(() => found),
      (error) => {
        end(() => problem(error, attempt));
        if (error instanceof Problem && AWAY.includes(error.kind)) setTimeout(attempt, AWAY_MS);
      },
    );
  };
  attempt();
  return place;
}

/** A row of links and marks below a list. */
export const pager = (...children) => h("nav", { class: "pager", "aria-label": "Pages" }, ...children);
