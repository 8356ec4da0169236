// Building blocks of pages.

import { inGroups } from "./address.js";
import { append, h } from "./dom.js";
import { grouped, shortened } from "./format.js";
import { Problem } from "./node.js";

/** Delay before a loading notice; most content arrives earlier. */
const PATIENCE_MS = 200;

/** Advice by kind of error. */
const ADVICE = {
  unreachable: "Is it still running, and is this machine connected to it?",
  starting: "It has no chain yet. It answers as soon as it has one.",
  busy: "Wait a few seconds and try again.",
  refused: "The node answers this only to clients on its own machine.",
  failed: "Try again; if it fails again, see the log of the node.",
};
/** Errors that pass by themselves, and the retry interval. */
const AWAY = ["unreachable", "starting", "unavailable"];
const AWAY_MS = 3000;
const HEADLINES = {
  unreachable: "The node cannot be reached",
  starting: "The node is starting",
  unavailable: "The node cannot answer this now",
  busy: "Too many requests in a short time",
  refused: "Only for local clients",
  missing: "Not found",
  failed: "The request failed",
};

/** Returns a link within the page. */
export const link = (path, ...children) => h("a", { href: `#/${path}` }, ...children);

export const blockLink = (height) => link(`block/${height}`, grouped(height));

/** A shortened hash or key, with the whole text as its title. */
const short = (text, ends) => h("code", { title: text }, shortened(text, ends));

export const accountLink = (address) => h("a", { href: `#/account/${address}`, class: "address" }, short(address));

/** A link with the whole address. */
export const wholeAccountLink = (address) =>
  h("a", { href: `#/account/${address}`, class: "address" }, whole(inGroups(address)));

export const transactionLink = (hash) => link(`transaction/${hash}`, short(hash, 5));

export const namespaceLink = (name) => h("a", { href: `#/namespace/${name}`, class: "name" }, name);

/** A whole hash, key or address, wrapped where needed. */
export const whole = (text) => h("code", { class: "whole" }, text);

/** Time for which a button confirms a copy. */
const COPIED_MS = 1500;

/** Copies a text to the clipboard. Pages that are neither https nor from localhost need the textarea. */
async function copy(text, element) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = h("textarea", { class: "hidden" });
  field.value = text;
  element.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (!isCopied) throw new Error("the browser cannot copy");
}

/** A whole hash, key or address with a copy button. */
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
          () => say("Copying failed"),
        ),
    },
    "Copy",
  );
  return h("span", { class: "copyable" }, whole(shown), " ", button);
}

export const badge = (text, kind = "neutral") => h("span", { class: `badge ${kind}` }, text);

/** Names and values; null values are left out. */
export function facts(rows) {
  const shown = rows.filter(([, value]) => value != null);
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/**
 * A table. Its parts have explicit roles, as some browsers drop them when a style changes the layout of a table.
 * @param {string} caption for screen readers
 * @param {{name: string, class?: string, cell: (row: any) => any}[]} columns the first is the row header; class `wide`:
 *   hidden on narrow screens, `number`: aligned to the right
 * @param {any[]} rows
 * @param {"stacking" | ""} [layout] stacking: each row becomes a few lines on a narrow screen
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

export const nothing = (text) => h("p", { class: "nothing" }, text);

/**
 * Shows an error and advice.
 * @param {Error} error
 * @param {() => void} [again] retries
 */
export function problem(error, again) {
  if (!(error instanceof Problem)) console.error(error);
  const kind = error instanceof Problem ? error.kind : "failed";
  return h(
    "div",
    { class: "problem" },
    h("p", { class: "headline" }, HEADLINES[kind]),
    h("p", {}, ADVICE[kind] ?? null),
    ["failed", "unavailable"].includes(kind) && h("p", { class: "quiet" }, error.message),
    again && h("button", { type: "button", onclick: again }, "Try again"),
  );
}

/** Replaces the children of an element. A link that has the focus keeps it if it is still there. */
export function refill(element, ...children) {
  const active = document.activeElement;
  const place = element.contains(active) ? active.getAttribute("href") : null;
  element.replaceChildren();
  append(element, ...children);
  if (place) element.querySelector(`a[href="${CSS.escape(place)}"]`)?.focus({ preventScroll: true });
}

/**
 * An element that is filled when its content is loaded. Retries after errors that pass by themselves.
 * @param {AbortSignal} signal aborted when the element is no longer shown
 * @param {() => Promise<any>} load returns the content
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

/** A row of links below a list. */
export const pager = (...children) => h("nav", { class: "pager", "aria-label": "Pages" }, ...children);
