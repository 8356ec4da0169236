// Small plots. Text beside them says the same, so they are hidden from screen readers.

import { svg } from "./dom.js";

/** Size of a plot in its own units; it is scaled to the available width. */
const WIDTH = 300;
const HEIGHT = 60;

const drawing = (height, ...children) =>
  svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, class: "plot", preserveAspectRatio: "none", "aria-hidden": "true" },
    ...children,
  );

const fixed = (number) => number.toFixed(1);

/**
 * Bars, oldest on the left, with a target line.
 * @param {number[]} values
 * @param {number} target
 * @param {number} capacity number of bars that fit
 */
export function bars(values, target, capacity) {
  const top = Math.max(
    2.5 * target,
    ...values
      .slice()
      .sort((one, other) => one - other)
      .slice(0, Math.ceil(values.length * 0.9)),
  );
  const y = (value) => HEIGHT * (1 - Math.min(value, top) / top);
  const step = WIDTH / capacity,
    start = WIDTH - step * values.length;
  const bar = (value, index) =>
    svg("rect", {
      class: value > 2 * target ? "bar late" : "bar",
      x: fixed(start + index * step + step * 0.15),
      width: fixed(step * 0.7),
      y: fixed(y(value)),
      height: fixed(HEIGHT - y(value)),
    });
  const line = svg("line", { class: "target", x1: 0, x2: WIDTH, y1: fixed(y(target)), y2: fixed(y(target)) });
  return drawing(HEIGHT, values.map(bar), line);
}

/**
 * A line through points, with the area below it.
 * @param {[number, number][]} points positions in ascending order, and values from zero up
 * @param {{stepped?: boolean, height?: number, bottom?: number}} [options] whether a value holds until the next one,
 *   the height, and the value at the lower edge
 */
export function line(points, { stepped = false, height = HEIGHT, bottom = 0 } = {}) {
  if (points.length < 2) return drawing(height);
  const first = points[0][0],
    last = points.at(-1)[0];
  const top = Math.max(...points.map(([, value]) => value), bottom + Number.EPSILON);
  const x = (position) => fixed((WIDTH * (position - first)) / (last - first || 1));
  const y = (value) => fixed(2 + (height - 2) * (1 - (value - bottom) / (top - bottom)));
  const [start, ...rest] = points;
  const path = rest.map(([position, value]) =>
    stepped ? `H${x(position)}V${y(value)}` : `L${x(position)},${y(value)}`,
  );
  const curve = `M${x(start[0])},${y(start[1])}${path.join("")}`;
  return drawing(
    height,
    svg("path", { class: "area", d: `${curve}V${height}H${x(first)}Z` }),
    svg("path", { class: "line", d: curve }),
  );
}

/** A fraction as a bar. */
export const share = (part) =>
  svg(
    "svg",
    { viewBox: "0 0 100 6", class: "share", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "ground", width: 100, height: 6 }),
    svg("rect", { class: "bar", width: fixed(100 * part), height: 6 }),
  );
