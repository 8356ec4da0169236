// Amounts, times and sizes as text.

import { h } from "./dom.js";

/** Epoch of network time in Unix milliseconds: 2015-03-29 00:06:25 UTC. */
const EPOCH_MS = 1_427_587_585_000;
const XEM_DIVISIBILITY = 6;

/** Returns an integer with its digits in groups of three. */
export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

/**
 * Converts an amount in smallest units to whole units, exactly.
 * @param {bigint | number | string} quantity
 * @param {number} divisibility number of decimals
 */
export function units(quantity, divisibility) {
  const digits = BigInt(quantity).toString();
  const sign = digits.startsWith("-") ? "\u2212" : "";
  const padded = digits.replace("-", "").padStart(divisibility + 1, "0");
  const split = padded.length - divisibility;
  const fraction = padded.slice(split).replace(/0+$/, "");
  return sign + grouped(padded.slice(0, split)) + (fraction && `.${fraction}`);
}

/** Returns micro XEM as XEM, with the unit. */
export const xem = (micro) =>
  h("span", { class: "amount" }, units(micro, XEM_DIVISIBILITY), "\u00a0", h("span", { class: "unit" }, "XEM"));

/** Converts a network time to Unix milliseconds. */
const unixMillis = (timestamp) => EPOCH_MS + Number(timestamp) * 1000;

/** Milliseconds by which the node's clock is ahead of this machine's. */
let ahead = 0;

/** Takes the node's answer about its time: milliseconds of network time. */
export const setNetworkTime = ({ sendTimeStamp }) => {
  ahead = EPOCH_MS + sendTimeStamp - Date.now();
};

/** Returns the present Unix milliseconds, by the node's clock as soon as it is known. */
export const now = () => Date.now() + ahead;

/** Returns the seconds from a network time to now. */
export const secondsSince = (timestamp) => (now() - unixMillis(timestamp)) / 1000;

/** Returns a network time in UTC, with the local time as its title. */
export function time(timestamp) {
  const date = new Date(unixMillis(timestamp));
  const [day, clock] = date.toISOString().slice(0, 19).split("T");
  return h(
    "time",
    { datetime: `${day}T${clock}Z`, title: date.toLocaleString() },
    h("span", { class: "day" }, day, "\u00a0"),
    clock,
  );
}

/** Returns the time of day of Unix milliseconds in UTC. */
export const clock = (millis) => new Date(millis).toISOString().slice(11, 19);

/** Returns a duration in seconds in a readable unit. */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole}\u00a0s`;
  if (whole < 7200) return `${Math.round(whole / 60)}\u00a0min`;
  if (whole < 172_800) return `${Math.round(whole / 3600)}\u00a0h`;
  return `${grouped(Math.round(whole / 86_400))}\u00a0days`;
}

/** Returns a number of bytes in a readable unit. */
export function bytes(count) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(names.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${round(count / 1024 ** power)}\u00a0${names[power]}`;
}

/** Returns a number with about three digits. */
export const round = (number) => (number >= 100 ? grouped(Math.round(number)) : String(Number(number.toPrecision(3))));

/** Returns a count and its noun. */
export const plural = (count, one, many = `${one}s`) => `${grouped(count)}\u00a0${Number(count) === 1 ? one : many}`;

/** Returns the start and end of a long text. */
export const shortened = (text, ends = 6) =>
  text.length > 2 * ends + 1 ? `${text.slice(0, ends)}…${text.slice(-ends)}` : text;
