"use strict";
// Draws the curves of a run. A point is [step, minutes, mean, lowest, highest].
const { charts, lengths, runs } = JSON.parse(document.getElementById("data").textContent);
const MARGIN = { left: 58, right: 12, top: 8, bottom: 24 };
const SPACE = "http://www.w3.org/2000/svg";
let axis = 0;

const svg = (name, attributes, parent) => {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent ? parent.appendChild(made) : made;
};
const html = (name, text, parent) => {
  const made = parent.appendChild(document.createElement(name));
  made.textContent = text;
  return made;
};
const short = (value) => {
  if (value === 0) return "0";
  if (Math.abs(value) < 0.01 || Math.abs(value) >= 1e7) return value.toExponential(2).replace("e+", "e");
  const digits = Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 1 : 3;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
};

// round numbers: 1, 2 or 5 times a power of ten, or on a logarithmic scale each of them
function ticks(low, high, log, most) {
  const found = [];
  if (log) {
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const factor of [1, 2, 5]) found.push(factor * 10 ** power);
    }
    const inside = found.filter((each) => each >= low * 0.999 && each <= high * 1.001);
    return inside.length > most ? inside.filter((each) => /^[10.]+$/.test(String(each))) : inside;
  }
  const raw = (high - low) / most || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
  return found;
}

class Plot {
  constructor(chart, parent) {
    this.chart = chart;
    this.over = chart.x ? () => 0 : () => axis;
    const figure = parent.appendChild(document.createElement("figure"));
    figure.className = "card";
    const caption = figure.appendChild(document.createElement("figcaption"));
    const title = caption.appendChild(document.createElement("span"));
    html("b", chart.title, title);
    if (chart.unit) html("span", ` ${chart.unit}`, title).className = "soft";
    this.at = html("span", "", caption);
    this.at.className = "at soft";
    this.legends = new Map();
    this.figure = figure;
    this.outputs = chart.series.map((series) => this.addToLegend(series));
    this.svg = svg("svg", { class: "plot", tabindex: 0, role: "img" }, figure);
    this.svg.setAttribute("aria-label", `${chart.title}: ${chart.series.map((each) => each.name).join(", ")}. Arrow keys read values.`);
    this.live = html("div", "", figure);
    this.live.setAttribute("aria-live", "polite");
    this.live.style.cssText = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)";
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => show(this.chart.x, null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  addToLegend(series) {
    if (!this.legends.has(series.run)) {
      this.legends.set(series.run, this.figure.appendChild(document.createElement("ul")));
      this.legends.get(series.run).className = "legend";
    }
    const item = this.legends.get(series.run).appendChild(document.createElement("li"));
    const mark = svg("svg", { width: 22, height: 10, "aria-hidden": "true" }, item);
    const colour = `var(--series-${series.colour})`;
    if (series.dots !== "hollow") {
      svg("line", { x1: 0, x2: 22, y1: 5, y2: 5, stroke: colour, "stroke-width": 2, class: series.dashed ? "dashed" : "" }, mark);
    }
    if (series.dots) svg("circle", { cx: 11, cy: 5, r: 3.5, stroke: colour, "stroke-width": 2, fill: series.dots === "hollow" ? "var(--card)" : colour }, mark);
    html("span", series.name, item);
    return html("output", "", item);
  }

  // the places on the axis that some curve has a point at, in order
  places() {
    return [...new Set(this.chart.series.flatMap((series) => series.points.map((point) => point[this.over()])))].sort((a, b) => a - b);
  }

  draw() {
    const { series, log, x } = this.chart, over = this.over();
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) return;
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const points = series.flatMap((each) => each.points);
    const values = points.flatMap((point) => [point[3], point[4]]);
    const wide = Math.max(0, ...series.map((each) => each.width || 0));
    const right = Math.max(...points.map((point) => point[over])) + wide;
    const bottom = log ? Math.min(...values) : 0, top = Math.max(...values) || 1;
    const spread = log && top / bottom < 1.2 ? 1.2 : 1;
    const across = (value) => MARGIN.left + (value / (right || 1)) * (width - MARGIN.left - MARGIN.right);
    const share = (value) => (log ? Math.log(value / bottom) / Math.log((top * spread) / bottom) : (value - bottom) / (top * 1.04 - bottom));
    const up = (value) => height - MARGIN.bottom - share(value) * (height - MARGIN.top - MARGIN.bottom);
    Object.assign(this, { across, up, height, width, right });
    for (const value of ticks(bottom, top * spread, log, 5)) {
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: up(value), y2: up(value) }, this.svg);
      svg("text", { x: MARGIN.left - 8, y: up(value) + 4, "text-anchor": "end" }, this.svg).textContent = short(value);
    }
    const spaces = ticks(0, right, false, Math.max(2, Math.floor(width / 110)));
    for (const value of spaces) {
      svg("text", { x: across(value), y: height - 6, "text-anchor": value ? "middle" : "start" }, this.svg).textContent =
        short(value) + (value === spaces.at(-1) ? ` ${x || (axis ? "min" : "steps")}` : "");
    }
    const last = this.svg.lastChild, room = width - 4 - (last.getBBox().x + last.getBBox().width);
    if (room < 0) last.setAttribute("x", Number(last.getAttribute("x")) + room);
    for (const each of series) this.drawSeries(each, over);
    this.cursor = svg("g", {}, this.svg);
    this.show(this.place ?? null);
  }

  drawSeries(series, over) {
    const { across, up } = this, colour = `var(--series-${series.colour})`;
    const line = (index) => series.points.map((point) => `${across(point[over]).toFixed(1)},${up(point[index]).toFixed(1)}`);
    if (series.width) {
      const corners = series.points.flatMap((point) => [[point[0], point[2]], [point[0] + series.width, point[2]]]);
      const outline = corners.map(([place, value]) => `${across(place).toFixed(1)},${up(value).toFixed(1)}`).join(" ");
      svg("polygon", { class: "band", fill: colour, points: `${across(0)},${up(0)} ${outline} ${across(corners.at(-1)[0])},${up(0)}` }, this.svg);
      svg("polyline", { class: "curve", stroke: colour, points: outline }, this.svg);
      return;
    }
    if (!series.dots && !series.dashed) {
      svg("polygon", { class: "band", fill: colour, points: [...line(4), ...line(3).reverse()].join(" ") }, this.svg);
    }
    if (series.dots !== "hollow") {
      svg("polyline", { class: `curve${series.dashed ? " dashed" : ""}`, stroke: colour, points: line(2).join(" ") }, this.svg);
    }
    for (const point of series.dots ? series.points : series.points.length === 1 ? series.points : []) {
      const fill = series.dots === "hollow" ? "var(--card)" : colour;
      svg("circle", { cx: across(point[over]), cy: up(point[2]), r: 3.5, stroke: colour, "stroke-width": 2, fill }, this.svg);
    }
  }

  // the point of a curve that is nearest to a place on the axis
  nearest(series, place) {
    const over = this.over();
    if (series.width) return series.points.findLast((point) => point[0] <= place) || series.points[0];
    return series.points.reduce((best, point) => (Math.abs(point[over] - place) < Math.abs(best[over] - place) ? point : best));
  }

  // values at a place on the axis, or the last ones
  show(place) {
    if (!this.cursor) return;
    this.cursor.replaceChildren();
    this.place = place;
    const { series, x } = this.chart, over = this.over();
    series.forEach((each, index) => {
      const point = place === null ? each.points.at(-1) : this.nearest(each, place);
      this.outputs[index].textContent = place === null && x ? "" : short(point[2]);
      if (place !== null && !each.width) {
        svg("circle", { cx: this.across(point[over]), cy: this.up(point[2]), r: 4.5, fill: `var(--series-${each.colour})`, stroke: "var(--card)", "stroke-width": 1.5 }, this.cursor);
      }
    });
    this.at.textContent = "";
    if (place === null) return;
    const at = this.across(Math.min(place, this.right));
    svg("line", { class: "cursor", x1: at, x2: at, y1: MARGIN.top, y2: this.height - MARGIN.bottom }, this.cursor);
    if (x) {
      const wide = series[0].width, start = Math.floor(place / wide) * wide;
      this.at.textContent = wide > 1 ? `${start} to ${start + wide - 1} ${x}` : `${start} ${x}`;
    } else {
      const [step, minutes] = this.nearest(series[0], place);
      this.at.textContent = `step ${short(step)} · ${minutes.toFixed(1)} min`;
    }
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const part = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
    const place = Math.min(1, Math.max(0, part)) * this.right;
    const places = this.places();
    show(this.chart.x, places.reduce((best, each) => (Math.abs(each - place) < Math.abs(best - place) ? each : best)));
  }

  key(event) {
    const places = this.places();
    const large = Math.max(1, Math.round(places.length / 10));
    const moves = { ArrowRight: 1, ArrowLeft: -1, PageUp: large, PageDown: -large, Home: -places.length, End: places.length };
    if (event.key === "Escape") return show(this.chart.x, null);
    if (!(event.key in moves)) return;
    event.preventDefault();
    const now = this.place === null ? places.length - (moves[event.key] < 0 ? 0 : 1) : places.indexOf(this.place);
    show(this.chart.x, places[Math.min(places.length - 1, Math.max(0, now + moves[event.key]))]);
    this.live.textContent = `${this.at.textContent}: ${this.chart.series.map((each, index) => `${each.name} ${this.outputs[index].textContent}`).join(", ")}`;
  }
}

const plots = [];
// all curves over steps are read at once, a histogram by itself
function show(x, place) {
  for (const plot of plots) if (plot.chart.x === x) plot.show(place);
}
for (const [id, wanted] of [["charts", charts], ["lengths", lengths]]) {
  const parent = document.getElementById(id);
  if (parent) for (const chart of wanted) plots.push(new Plot(chart, parent));
}
document.getElementById("axis")?.addEventListener("change", (event) => {
  axis = Number(event.target.value);
  for (const plot of plots) {
    plot.place = null;
    plot.draw();
  }
});
if (runs.length > 1 && document.getElementById("dashes")) {
  document.getElementById("baseline").textContent = runs[0];
  document.getElementById("dashes").hidden = false;
}
