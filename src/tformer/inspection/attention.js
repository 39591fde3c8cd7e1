"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const controls = document.getElementById("controls");
const dark = matchMedia("(prefers-color-scheme: dark)");
const view = { ...data.view };  // pattern, layer from 1, head from 1 or 0 for the mean
const many = data.sentences.length > 1;

// ---- Colours: one hue, from the card's own colour to the strongest; by the square root, so that small weights show ----

const RAMPS = {
  light: [[255, 255, 255], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]],
  dark: [[26, 30, 38], [30, 66, 110], [48, 113, 179], [116, 178, 232], [226, 240, 255]],
};
let colours = [];  // 256 of them, each [red, green, blue]
let pixels = new Uint32Array(256);  // the same as an image holds them

function makeColours() {
  const stops = RAMPS[dark.matches ? "dark" : "light"];
  colours = Array.from({ length: 256 }, (_, level) => {
    const place = level / 255 * (stops.length - 1), at = Math.min(Math.floor(place), stops.length - 2);
    return stops[at].map((from, part) => Math.round(from + (stops[at + 1][part] - from) * (place - at)));
  });
  pixels = Uint32Array.from(colours, ([red, green, blue]) => (255 << 24 | blue << 16 | green << 8 | red) >>> 0);
}
const level = (weight) => Math.round(Math.sqrt(weight) * 255);
const colour = (weight) => colours[level(weight)];
const css = (rgb) => `rgb(${rgb.join(" ")})`;
const isDark = ([red, green, blue]) => 0.299 * red + 0.587 * green + 0.114 * blue < 140;
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- Weights: [layer][head][query][key] in 16 bits ----

function unpack({ shape, base64 }) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return { shape, levels: new Uint16Array(bytes.buffer) };
}

/** One map as numbers from 0 to 1: { queries, keys, at(query, key) }; head 0 is the mean of all. */
function mapOf({ shape: [, heads, queries, keys], levels }, layer, head) {
  const size = queries * keys, values = new Float32Array(size);
  for (const each of head ? [head - 1] : Array(heads).keys()) {
    const start = ((layer - 1) * heads + each) * size;
    for (let index = 0; index < size; index++) values[index] += levels[start + index];
  }
  const scale = 65535 * (head ? 1 : heads);
  for (let index = 0; index < size; index++) values[index] = Math.min(1, values[index] / scale);
  return { queries, keys, at: (query, key) => values[query * keys + key] };
}

// ---- Words ----

const percent = (weight) => `${(100 * weight).toFixed(weight >= 0.0995 ? 0 : 1)}\u00a0%`;
const bare = (piece) => piece.replace(/^▁/, "") || "␣";
const quoted = (piece) => `“\u2068${bare(piece)}\u2069”`;  // apart from the direction of what stands around it
const isMark = (piece) => /^<\/?s>$/.test(piece);
const PATTERNS = {
  encoder: { queries: "source", keys: "source", asks: "Source pieces (queries)", reads: "Source pieces (keys), weights in %" },
  decoder: { queries: "written", keys: "read", asks: "Pieces as they are written (queries)", reads: "Pieces before (keys), weights in %" },
  cross: { queries: "written", keys: "source", asks: "Pieces as they are written (queries)", reads: "Source pieces (keys), weights in %" },
};

function tokens(holder, { pieces, rtl }, tag) {
  holder.dir = rtl ? "rtl" : "ltr";
  holder.replaceChildren(...pieces.map((piece, index) => {
    const token = document.createElement(tag);
    token.className = "token" + (piece.startsWith("▁") || isMark(piece) ? " word" : "") + (isMark(piece) ? " mark" : "");
    token.append(bare(piece));
    token.dataset.index = index;
    if (isMark(piece)) token.dir = "ltr";
    return token;
  }));
}

// ---- A panel: one sentence ----

class Panel {
  constructor(sentence) {
    this.sentence = sentence;
    this.weights = Object.fromEntries(Object.entries(sentence.weights).map(([name, each]) => [name, unpack(each)]));
    this.root = document.getElementById("panel").content.cloneNode(true).firstElementChild;
    this.part = (name) => this.root.querySelector(name);
    this.part(".text").textContent = sentence.text;
    this.part(".translation").textContent = sentence.translation;
    this.canvas = this.part(".sheet canvas");
    this.kept = 0;
    this.pointed = null;
    this.listen();
  }

  listen() {
    const queries = this.part(".queries");
    const indexOf = (event) => event.target.closest(".token")?.dataset.index;
    queries.addEventListener("pointerover", (event) => { if (indexOf(event)) point(this, Number(indexOf(event))); });
    queries.addEventListener("pointerleave", () => point(this, null));
    queries.addEventListener("click", (event) => { if (indexOf(event)) keep(this, Number(indexOf(event))); });
    queries.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointermove", (event) => {
      const cell = this.cellAt(event);
      point(this, cell ? cell.query : null, cell ? cell.key : null);
    });
    this.canvas.addEventListener("pointerleave", () => point(this, null));
    this.canvas.addEventListener("click", (event) => { const cell = this.cellAt(event); if (cell) keep(this, cell.query); });
    this.part(".all").addEventListener("toggle", () => this.drawHeads());
  }

  key(event) {
    const forward = this.part(".queries").dir === "rtl" ? "ArrowLeft" : "ArrowRight";
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (event.key in moves) {
      const by = moves[event.key] * (event.key.startsWith("Arrow") && forward === "ArrowLeft" ? -1 : 1);
      keep(this, Math.max(0, Math.min(this.map.queries - 1, this.kept + by)));
      this.part(".queries").children[this.kept].focus();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") step("head", event.key === "ArrowUp" ? -1 : 1);
    else if (event.key === "PageUp" || event.key === "PageDown") step("layer", event.key === "PageUp" ? -1 : 1);
    else return;
    event.preventDefault();
  }

  /** All that depends on pattern, layer, head or the window. */
  draw() {
    const { queries, keys, asks, reads } = PATTERNS[view.pattern];
    this.queries = this.sentence[queries];
    this.keys = this.sentence[keys];
    this.map = mapOf(this.weights[view.pattern], view.layer, view.head);
    const strip = this.part(".queries"), hadFocus = strip.contains(document.activeElement);
    this.kept = Math.min(this.kept, this.map.queries - 1);
    this.part(".queries-title").textContent = asks;
    this.part(".keys-title").textContent = reads;
    tokens(strip, this.queries, "button");
    tokens(this.part(".keys"), this.keys, "span");
    for (const token of strip.children) token.type = "button";
    for (const token of this.part(".keys").children) token.append(document.createElement("small"));
    this.drawMap();
    this.show();
    this.markHead();
    if (hadFocus) strip.children[this.kept].focus();
  }

  blocked(query, key) { return view.pattern === "decoder" && key > query; }

  /** What changes with the piece that is pointed at: two rows of tokens, a sentence, and a frame in the map. */
  show(key = null) {
    const query = this.pointed ?? this.kept, row = [];
    [...this.part(".queries").children].forEach((token, index) => {
      token.classList.toggle("shown", index === query);
      token.classList.toggle("kept", index === this.kept);
      token.tabIndex = index === this.kept ? 0 : -1;
      token.setAttribute("aria-pressed", index === this.kept);
    });
    [...this.part(".keys").children].forEach((token, index) => {
      const weight = this.map.at(query, index), rgb = colour(weight), hidden = this.blocked(query, index);
      token.style.background = css(rgb);
      token.style.color = isDark(rgb) ? "#fff" : "#111";
      token.classList.toggle("hidden", hidden);
      token.lastChild.textContent = weight >= 0.01 ? Math.round(100 * weight) : "";
      token.title = hidden ? "blocked by the causal mask" : percent(weight);
      if (!hidden) row.push([weight, index]);
    });
    row.sort((one, other) => other[0] - one[0] || one[1] - other[1]);
    const first = row.slice(0, 5), rest = row.slice(5).reduce((sum, [weight]) => sum + weight, 0);
    const names = first.map(([weight, index]) => `${quoted(this.keys.pieces[index])} ${percent(weight)}`);
    const cell = key === null ? "" : `; ${quoted(this.keys.pieces[key])} has ${this.blocked(query, key) ? "0: blocked" : percent(this.map.at(query, key))}`;
    const more = row.length > 5 ? `; the other ${row.length - 5} together ${percent(rest)}` : "";
    const name = document.createElement("strong");
    name.textContent = quoted(this.queries.pieces[query]);
    const doing = view.pattern === "encoder" ? " looks at " : ", as it is written, looks at ";
    this.part(".says").replaceChildren(name, `${doing}${names.join(", ")}${more}${cell}.`);
    const frame = this.part(".row"), { left, top, size } = this.layout;
    frame.style.cssText = `left:${left - 2}px;top:${top + query * size - 2}px;width:${this.map.keys * size + 4}px;height:${size + 4}px`;
  }

  column(key) { return this.keys.rtl ? this.map.keys - 1 - key : key; }

  cellAt(event) {
    const { left, top, size } = this.layout;
    const column = Math.floor((event.offsetX - left) / size), query = Math.floor((event.offsetY - top) / size);
    if (column < 0 || query < 0 || column >= this.map.keys || query >= this.map.queries) return null;
    return { query, key: this.column(column) };
  }

  drawMap() {
    const pen = this.canvas.getContext("2d"), { queries, keys } = this.map;
    const font = '12px system-ui, "Noto Sans", sans-serif';
    pen.font = font;
    const widest = (pieces) => Math.min(110, Math.max(...pieces.map((piece) => pen.measureText(bare(piece)).width)));
    const left = Math.ceil(widest(this.queries.pieces)) + 10, top = Math.ceil(widest(this.keys.pieces)) + 10;
    const room = this.part(".map").clientWidth - left - 4;
    const size = Math.max(13, Math.min(30, Math.floor(room / keys)));
    this.layout = { left, top, size };
    const width = left + keys * size + 4, height = top + queries * size + 4, ratio = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    this.canvas.style.cssText = `width:${width}px;height:${height}px`;
    pen.scale(ratio, ratio);
    pen.font = font;
    pen.textBaseline = "middle";
    const label = (piece) => {
      let text = bare(piece);
      while (text.length > 1 && pen.measureText(text).width > 110) text = text.slice(0, -2) + "…";
      return text;
    };
    pen.textAlign = "right";
    this.queries.pieces.forEach((piece, query) => {
      pen.fillStyle = style(isMark(piece) ? "--soft" : "--text");
      pen.fillText(label(piece), left - 6, top + (query + 0.5) * size);
    });
    pen.textAlign = "left";
    this.keys.pieces.forEach((piece, key) => {
      pen.save();
      pen.translate(left + (this.column(key) + 0.5) * size, top - 6);
      pen.rotate(-Math.PI / 2);
      pen.fillStyle = style(isMark(piece) ? "--soft" : "--text");
      pen.fillText(label(piece), 0, 0);
      pen.restore();
    });
    const hatch = makeHatch(pen);
    for (let query = 0; query < queries; query++) {
      for (let key = 0; key < keys; key++) {
        pen.fillStyle = this.blocked(query, key) ? hatch : css(colour(this.map.at(query, key)));
        pen.fillRect(left + this.column(key) * size, top + query * size, size - 1, size - 1);
      }
    }
    pen.strokeStyle = style("--line");
    pen.strokeRect(left - 1.5, top - 1.5, keys * size + 2, queries * size + 2);
  }

  /** Small pictures of every head; a click chooses it. */
  drawHeads() {
    if (!this.part(".all").open) return;
    const packed = this.weights[view.pattern], [layers, heads] = packed.shape, holder = this.part(".heads");
    holder.style.gridTemplateColumns = `max-content repeat(${heads + 1}, minmax(0, 5.5rem))`;
    const cells = [document.createElement("span")];
    const text = (words) => { const span = document.createElement("span"); span.textContent = words; return span; };
    for (let head = 0; head <= heads; head++) cells.push(text(head ? `head ${head}` : "mean"));
    for (let layer = 1; layer <= layers; layer++) {
      cells.push(text(`layer ${layer}`));
      for (let head = 0; head <= heads; head++) {
        const button = document.createElement("button");
        Object.assign(button, { type: "button", value: `${layer} ${head}` });
        button.setAttribute("aria-label", `layer ${layer}, ${head ? `head ${head}` : "mean of heads"}`);
        button.append(this.thumbnail(mapOf(packed, layer, head)));
        button.addEventListener("click", () => choose({ layer, head }));
        cells.push(button);
      }
    }
    holder.replaceChildren(...cells);
    this.markHead();
  }

  markHead() {
    for (const button of this.part(".heads").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", button.value === `${view.layer} ${view.head}`);
    }
  }

  thumbnail(map) {
    const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    Object.assign(canvas, { width: map.keys, height: map.queries });
    const image = pen.createImageData(map.keys, map.queries), dots = new Uint32Array(image.data.buffer);
    for (let query = 0; query < map.queries; query++) {
      for (let key = 0; key < map.keys; key++) {
        dots[query * map.keys + this.column(key)] = pixels[level(map.at(query, key))];
      }
    }
    pen.putImageData(image, 0, 0);
    return canvas;
  }
}

function makeHatch(pen) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 5;
  const ink = tile.getContext("2d");
  ink.strokeStyle = style("--line");
  ink.lineWidth = 1.2;
  for (const shift of [-5, 0, 5]) { ink.moveTo(shift, 5); ink.lineTo(shift + 5, 0); }
  ink.stroke();
  return pen.createPattern(tile, "repeat");
}

// ---- The page ----

const panels = data.sentences.map((sentence) => new Panel(sentence));
const moved = (panel) => controls.elements.together.checked ? panels : [panel];

function point(panel, query, key = null) {
  for (const each of moved(panel)) {
    each.pointed = query !== null && query < each.map.queries ? query : null;
    each.show(each === panel ? key : null);
  }
}

function keep(panel, query) {
  for (const each of moved(panel)) {
    if (query < each.map.queries) each.kept = query;
    each.pointed = null;
    each.show();
  }
}

function step(name, by) {
  const options = controls.elements[name].options.length;
  const index = Math.max(0, Math.min(options - 1, controls.elements[name].selectedIndex + by));
  choose({ [name]: Number(controls.elements[name].options[index].value) });
}

/** Changes what is shown: some of pattern, layer and head; and the small pictures too where they change. */
function choose(change) {
  for (const name of Object.keys(view)) view[name] = change[name] ?? view[name];
  const [layers, heads] = panels[0].weights[view.pattern].shape;
  view.layer = Math.min(view.layer, layers);
  const option = (number, name) => new Option(name, number);
  controls.elements.layer.replaceChildren(...Array.from({ length: layers }, (_, index) => option(index + 1, index + 1)));
  controls.elements.head.replaceChildren(option(0, "mean of all"), ...Array.from({ length: heads }, (_, index) => option(index + 1, index + 1)));
  controls.elements.pattern.value = view.pattern;
  controls.elements.layer.value = view.layer;
  controls.elements.head.value = view.head;
  document.getElementById("meaning").textContent = data.meanings[view.pattern] + ".";
  document.body.classList.toggle("decoder", view.pattern === "decoder");
  for (const panel of panels) {
    panel.draw();
    if (change.pattern || change.colours) panel.drawHeads();
  }
}

function drawAll() {
  makeColours();
  const pen = document.getElementById("scale").getContext("2d");
  for (let x = 0; x < 256; x++) { pen.fillStyle = css(colours[x]); pen.fillRect(x, 0, 1, 1); }
  choose({ colours: true });
}

document.querySelector(".together").hidden = !many;
document.querySelector(".ticks").replaceChildren(...[0, 0.05, 0.25, 0.5, 1].map((weight) => {
  const tick = document.createElement("span");
  tick.textContent = weight;
  tick.style.left = `${100 * Math.sqrt(weight)}%`;
  return tick;
}));
document.getElementById("panels").append(...panels.map((panel) => panel.root));
controls.addEventListener("change", ({ target }) => {
  if (target.name !== "together") choose({ [target.name]: target.name === "pattern" ? target.value : Number(target.value) });
});
controls.addEventListener("submit", (event) => event.preventDefault());
dark.addEventListener("change", drawAll);
drawAll();
let width = document.getElementById("panels").clientWidth;
new ResizeObserver(([{ target }]) => {
  if (target.clientWidth !== width) { width = target.clientWidth; drawAll(); }
}).observe(document.getElementById("panels"));
