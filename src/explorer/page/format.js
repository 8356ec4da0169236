// Amounts, times and sizes as text.

import { h } from "./dom.js";

/** The beginning of network time in milliseconds of Unix time: 2015-03-29 00:06:25 UTC. */
const EPOCH_MS = 1_427_587_585_000;
const XEM_DIVISIBILITY = 6;

/** An integer with its digits in groups of three. */
export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

/**
 * An amount of the smallest unit in whole ones, exactly.
 * @param {bigint | number | string} quantity
 * @param {number} divisibility digits behind the point
 */
export function units(quantity, divisibility) {
  const digits = BigInt(quantity).toString();
  const sign = digits.startsWith("-") ? "\u2212" : "";
  const padded = digits.replace("-", "").padStart(divisibility + 1, "0");
  const split = padded.length - divisibility;
  const fraction = padded.slice(split).replace(/0+$/, "");
  return sign + grouped(padded.slice(0, split)) + (fraction && `.${fraction}`);
}

/** Micro XEM in XEM, with the name of it. */
export const xem = (micro) =>
  h("span", { class: "amount" }, units(micro, XEM_DIVISIBILITY), "\u00a0", h("span", { class: "unit" }, "XEM"));

/** Milliseconds of Unix time. */
const unixMillis = (timestamp) => EPOCH_MS + Number(timestamp) * 1000;

/** Seconds from a moment of network time to the present of this machine. */
export const secondsSince = (timestamp) => (Date.now() - unixMillis(timestamp)) / 1000;

/** A moment of network time, in UTC; where the reader is stands in its title. */
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

/** A duration in seconds as people say it. */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole}\u00a0s`;
  if (whole < 7200) return `${Math.round(whole / 60)}\u00a0min`;
  if (whole < 172_800) return `${Math.round(whole / 3600)}\u00a0h`;
  return `${grouped(Math.round(whole / 86_400))}\u00a0days`;
}

/** Bytes in a unit that suits them. */
export function bytes(count) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(names.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${round(count / 1024 ** power)}\u00a0${names[power]}`;
}

/** A number with about three digits. */
export const round = (number) => (number >= 100 ? grouped(Math.round(number)) : String(Number(number.toPrecision(3))));

/** A count and what is counted. */
export const plural = (count, one, many = `${one}s`) => `${grouped(count)}\u00a0${Number(count) === 1 ? one : many}`;

/** The beginning and the end of a long text. */
export const shortened = (text, ends = 6) =>
  text.length > 2 * ends + 1 ? `${text.slice(0, ends)}…${text.slice(-ends)}` : text;
