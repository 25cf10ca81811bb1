/* ---- intervals: sorted lists of [begin, end] that do not meet ---------------------------------- */

function union(list) {
  const out = [];
  for (const [a, b] of list.sort((x, y) => x[0] - y[0])) {
    const last = out[out.length - 1];
    if (last && a <= last[1]) last[1] = Math.max(last[1], b);
    else if (b > a) out.push([a, b]);
  }
  return out;
}
function meet(x, y) {
  const out = [];
  for (let i = 0, j = 0; i < x.length && j < y.length;) {
    const a = Math.max(x[i][0], y[j][0]), b = Math.min(x[i][1], y[j][1]);
    if (b > a) out.push([a, b]);
    if (x[i][1] < y[j][1]) i++; else j++;
  }
  return out;
}
function without(x, y) {
  const out = [];
  let j = 0;
  for (const [a, b] of x) {
    let at = a;
    while (j < y.length && y[j][1] <= at) j++;
    for (let k = j; k < y.length && y[k][0] < b; k++) {
      if (y[k][0] > at) out.push([at, y[k][0]]);
      at = Math.max(at, y[k][1]);
    }
    if (b > at) out.push([at, b]);
  }
  return out;
}
/* The number of rows that lie before a value: of rows in order, by `of`. */
function before(rows, value, of) {
  let a = 0, b = rows.length;
  while (a < b) { const m = (a + b) >> 1; if (of(rows[m]) < value) a = m + 1; else b = m; }
  return a;
}
/* Parts of a list that lie within [from, to]. */
function cut(list, from, to) {
  const out = [];
  for (let i = before(list, from, p => p[1]); i < list.length && list[i][0] < to; i++)
    if (Math.min(list[i][1], to) > Math.max(list[i][0], from)) out.push([Math.max(list[i][0], from), Math.min(list[i][1], to)]);
  return out;
}
const total = list => list.reduce((sum, [a, b]) => sum + b - a, 0);

/* ---- colours ------------------------------------------------------------------------------------ */

let palette = new Map(); /* of the scheme that the browser asks for */
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette = new Map(); });
function shade(name) {
  if (!palette.has(name)) palette.set(name, color(name));
  return palette.get(name);
}
/* Black or white, whichever is easier to read on a colour. */
function ink(on) {
  if (!palette.has("ink" + on)) {
    const part = i => { const v = parseInt(on.slice(1 + 2 * i, 3 + 2 * i), 16) / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    palette.set("ink" + on, 0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2) > 0.179 ? "#000000" : "#ffffff");
  }
  return palette.get("ink" + on);
}
const kindColor = k => shade("--c" + Math.min(k, 7));
/* What nothing hides is striped. */
function stripes(c) {
  const key = "stripes";
  if (!palette.has(key)) {
    const tile = document.createElement("canvas"), t = tile.getContext("2d");
    tile.width = tile.height = 8;
    t.fillStyle = shade("--panel");
    t.fillRect(0, 0, 8, 8);
    t.strokeStyle = shade("--mark");
    t.lineWidth = 2.5;
    t.beginPath();
    for (const d of [-8, 0, 8]) { t.moveTo(d - 1, 9); t.lineTo(d + 9, -1); }
    t.stroke();
    palette.set(key, c.createPattern(tile, "repeat"));
  }
  return palette.get(key);
}

/* ---- charts: canvases with a window on x that keys, buttons, the wheel and the pointer move ----- */

/* The window [from, to] of [0, full], which several charts may share. */
function windowOn(full) {
  const w = {full, from: 0, to: full, paints: [], beyond: null,
    paint() { for (const p of w.paints) p(); },
    move(a, b) {
      const width = Math.min(w.full, Math.max(w.full * 1e-6, b - a));
      w.from = Math.max(0, Math.min(w.full - width, a));
      w.to = w.from + width;
      w.paint();
    },
    zoom(factor, at) {
      if (factor > 1 && w.beyond && w.to - w.from >= w.full * 0.9999) w.beyond();
      else w.move(at - (at - w.from) * factor, at + (w.to - at) * factor);
    },
    near(factor) { w.zoom(factor, (w.from + w.to) / 2); },
    pan(part) { const d = part * (w.to - w.from); w.move(w.from + d, w.to + d); },
    all() { w.move(0, w.full); },
  };
  return w;
}

/* draw(context, x of a value, width, height, chosen); hit(value, y, chosen, step): what is there, or, with a step of 1
 * or -1, what comes after or before `chosen`; tell(item or null); keys: more of them, by name. */
function chart(label, height, w, {draw, hit, tell, keys}) {
  const canvas = el("canvas", {tabindex: "0", role: "application", "aria-label": `${label}. Arrows move and zoom, 0 shows all, n and p step through it.`, style: `height:${height}px`});
  let chosen = null;
  const x = v => (v - w.from) / (w.to - w.from) * canvas.clientWidth;
  const value = px => w.from + px / canvas.clientWidth * (w.to - w.from);
  function paint() {
    if (!canvas.clientWidth) return; /* in a part that is hidden */
    const ratio = devicePixelRatio || 1, c = canvas.getContext("2d");
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = height * ratio;
    c.scale(ratio, ratio);
    c.clearRect(0, 0, canvas.clientWidth, height);
    c.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    draw(c, x, canvas.clientWidth, height, chosen);
  }
  w.paints.push(paint);
  function choose(item) { chosen = item; tell(item); paint(); }
  function step(by) {
    choose(hit(null, null, chosen, by));
    if (!chosen || chosen.start === undefined || !w.place) return;
    const [a, b] = w.place(chosen);
    if (a < w.from || a > w.to) w.move((a + b - (w.to - w.from)) / 2, (a + b + (w.to - w.from)) / 2);
  }
  canvas.addEventListener("keydown", e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const all = {ArrowLeft: () => w.pan(-0.2), ArrowRight: () => w.pan(0.2),
      "+": () => w.near(0.6), "=": () => w.near(0.6), ArrowUp: () => w.near(0.6),
      "-": () => w.near(1 / 0.6), ArrowDown: () => w.near(1 / 0.6), "0": () => w.all(),
      Home: () => w.move(0, w.to - w.from), End: () => w.move(w.full - (w.to - w.from), w.full),
      n: () => step(1), p: () => step(-1), ...keys};
    if (all[e.key]) { all[e.key](); e.preventDefault(); }
  });
  /* The wheel scrolls the page, but over a chart that has the focus, or with Ctrl. */
  canvas.addEventListener("wheel", e => {
    if (!e.ctrlKey && document.activeElement !== canvas) return;
    w.zoom(e.deltaY > 0 ? 1.25 : 0.8, value(e.offsetX));
    e.preventDefault();
  }, {passive: false});
  let drag = null, over = null; /* over: under the pointer: told, until it goes */
  function hover(item) { if (item !== over) { over = item; tell(over || chosen); } }
  canvas.addEventListener("pointerdown", e => { drag = {x: e.offsetX, from: w.from, to: w.to, moved: false}; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointermove", e => {
    if (!drag) { hover(hit(value(e.offsetX), e.offsetY, chosen, 0)); return; }
    const d = (e.offsetX - drag.x) / canvas.clientWidth * (drag.to - drag.from);
    drag.moved = drag.moved || Math.abs(e.offsetX - drag.x) > 3;
    if (drag.moved) w.move(drag.from - d, drag.to - d);
  });
  canvas.addEventListener("pointerup", e => {
    if (drag && !drag.moved) choose(hit(value(e.offsetX), e.offsetY, chosen, 0));
    drag = null;
  });
  new ResizeObserver(paint).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  return canvas;
}

function following(all, chosen, step) {
  return all[(Math.max(0, all.indexOf(chosen)) + step + all.length) % all.length];
}
/* Text in a box, as far as there is room. */
function textIn(c, text, x, y, width, height, fill) {
  c.save();
  c.beginPath();
  c.rect(Math.max(0, x), y, Math.min(x, 0) + width - 4, height);
  c.clip();
  c.fillStyle = fill;
  c.fillText(text, Math.max(0, x) + 4, y + height / 2 + 4);
  c.restore();
}

/* ---- a step ------------------------------------------------------------------------------------- */

/* What one rank does, of the object that compiler/report/step_json.h describes. */
function stepModel(T, rank) {
  const spans = T.loops.filter(l => l[5] === rank).map(l => ({loop: true, name: l[0], start: l[1], time: l[2], depth: l[3], iterations: l[4], rank, first: l[6], last: l[7]}))
    .sort((a, b) => a.start - b.start || a.depth - b.depth);
  const slices = T.slices.filter(s => s[4] === rank).map(s => ({action: s[0], name: T.actions[s[0]].name, start: s[1], time: s[2], lane: s[3], rank, of: T.actions[s[0]]}))
    .sort((a, b) => a.start - b.start);
  /* In a loop's lane its own name says nothing: "layers.mlp.up" is mlp.up. */
  const loops = new Set(spans.map(s => s.name));
  for (const a of slices) { const dot = a.name.indexOf("."); a.short = dot > 0 && loops.has(a.name.slice(0, dot)) ? a.name.slice(dot + 1) : a.name; }
  const ends = s => [s.start, s.start + s.time];
  const computes = slices.filter(s => s.of.class === 0), starts = computes.map(s => s.start);
  /* Of spans that are not told one by one. */
  const rest = [];
  for (const s of spans) {
    const each = s.time / s.iterations, shown = Math.min(s.iterations, T.shown);
    if (shown < s.iterations) rest.push({span: s, start: s.start + shown * each, time: (s.iterations - shown) * each, text: `${s.iterations - shown} more like these`});
    if (s.first < 0) {
      const a = before(starts, s.start - 1e-9 * T.seconds, v => v);
      if (!(starts[a] < s.start + s.time * 0.999)) rest.push({span: s, start: s.start, time: s.time, text: s.name});
    }
  }
  const busy = union(computes.map(ends).concat(rest.map(ends))), little = 2e-7 * T.seconds;
  const gaps = without([[0, T.seconds]], busy).filter(([a, b]) => b - a > little);
  const of = k => union(slices.filter(s => s.of.class === k).map(ends));
  const links = meet(gaps, of(1)), left = without(gaps, links), moves = meet(left, of(2)), idle = without(left, moves).filter(([a, b]) => b - a > little);
  const waits = [["links", links], ["transfers", moves], ["idle", idle]].flatMap(([why, list]) => list.map(([a, b]) => ({wait: why, name: why === "idle" ? "idle" : `waits for ${why}`, start: a, time: b - a, rank})));
  waits.sort((a, b) => a.start - b.start);
  const marks = [null, links, moves].flatMap((list, k) => list ? slices.filter(s => s.of.class === k).flatMap(s => cut(list, s.start, s.start + s.time).map(([a, b]) => ({lane: s.lane, start: a, time: b - a}))) : []);
  return {rank, spans, slices, rest, waits, stripes: marks, seconds: T.seconds, items: spans.concat(slices, waits).sort((a, b) => a.start - b.start)};
}

/* The loops that most of the step is in, one forward and one backward, the first time that each comes: where other
 * loops fill a loop, those are looked at. */
function layersOf(m) {
  const best = {};
  m.spans.forEach((s, i) => {
    if (s.iterations < 2) return;
    const each = s.time / s.iterations;
    let inside = 0, many = 1, back = 0, all = 0;
    for (let k = i + 1; k < m.spans.length && m.spans[k].start < s.start + each * 0.999; k++)
      if (m.spans[k].depth === s.depth + 1) inside += m.spans[k].time;
    for (const around of m.spans)
      if (around.depth < s.depth && around.start <= s.start && around.start + around.time > s.start) many *= around.iterations;
    if (inside > each / 2) return;
    for (const a of m.slices) {
      if (a.start < s.start - 1e-9 || a.start >= s.start + each * 0.999 || a.of.class) continue;
      all += a.time;
      back += a.of.backward || a.of.again ? a.time : 0;
    }
    const way = back > all / 2 ? "backward" : "forward", seconds = s.time * many;
    if (!(best[way] && best[way].seconds >= seconds * 0.999)) best[way] = {span: s, each, seconds, way};
  });
  const found = Object.values(best).filter(b => b.seconds > 0.02 * m.seconds);
  for (const l of found) Object.assign(l, {time: 2 * l.each, says: "two layers", title: `${l.span.name} × ${l.span.iterations}, ${l.way}`});
  /* Stages of one layer have no loop: their phases are looked at, of which one each way is told action by action. */
  if (!found.length)
    for (const [way, kind] of [["forward", "F"], ["backward", "B"], ["backward", "I"]]) {
      const all = m.spans.filter(s => s.first < 0 && s.name.replace(/[^A-Z]/g, "") === kind), span = all.find(s => !m.rest.some(r => r.span === s));
      if (span) found.push({span, each: span.time, way, time: span.time, says: "one phase", title: `${span.name}, of ${all.length} such phases`});
    }
  return found.sort((a, b) => a.span.start - b.span.start);
}

/* Time to x, piecewise: u(t), and back; all: its length. Of a folded stretch `text` says how long it is. */
function scaleOf(pieces) {
  const last = pieces[pieces.length - 1];
  const along = (v, a, b, c, d) => pieces.length && (p => p[c] + (v - p[a]) * (p[d] - p[c]) / (p[b] - p[a]))(pieces.find(p => v < p[b]) || last);
  return {pieces, all: last.u1, u: t => along(t, "t0", "t1", "u0", "u1"), t: u => along(u, "u0", "u1", "t0", "t1")};
}
const wholeScale = seconds => scaleOf([{t0: 0, t1: seconds, u0: 0, u1: seconds}]);
/* Two iterations of the loops over layers as long as they are, all else folded where it is longer than a part of that;
 * null: there is nothing to fold. */
function foldedScale(m) {
  const layers = layersOf(m), kept = union(layers.map(l => [l.span.start, l.span.start + l.time])), long = total(kept), most = 0.13 * long;
  if (!layers.length || long > 0.6 * m.seconds) return null;
  const pieces = [];
  let at = 0, u = 0;
  const add = (t1, layer) => {
    const time = t1 - at;
    if (time <= 1e-12 * m.seconds) return;
    const folded = !layer && time > most, length = folded ? most : time;
    pieces.push({t0: at, t1, u0: u, u1: u + length, folded, layer});
    at = t1;
    u += length;
  };
  for (const [a, b] of kept) { add(a, null); add(b, layers.find(l => l.span.start === a)); }
  add(m.seconds, null);
  return Object.assign(scaleOf(pieces), {layers});
}

/* The top line of a chart of time: where it is, or how long its pieces are. */
function drawTime(c, scale, w, x, width) {
  c.fillStyle = shade("--dim");
  if (scale.pieces.length === 1) {
    const n = Math.max(2, Math.min(8, Math.floor(width / 90)));
    for (let i = 0; i <= n; i++) c.fillText(seconds(scale.t(w.from + (w.to - w.from) * i / n)), Math.min(width - 60, width * i / n + 2), 14);
    return;
  }
  for (const p of scale.pieces) {
    const a = x(p.u0), b = x(p.u1);
    if (b < 0 || a > width) continue;
    if (b - a > 34) textIn(c, `${p.folded ? "⋯ " : ""}${seconds(p.t1 - p.t0)}${p.layer ? `, ${p.layer.says}` : ""}`, a, 0, b - a, 20, shade("--dim"));
  }
}
/* What is folded lies behind a veil between two broken lines. */
function drawFolds(c, scale, x, width, top, height) {
  for (const p of scale.pieces) {
    if (!p.folded || x(p.u1) < 0 || x(p.u0) > width) continue;
    c.globalAlpha = 0.45;
    c.fillStyle = shade("--panel");
    c.fillRect(x(p.u0), top, x(p.u1) - x(p.u0), height - top);
    c.globalAlpha = 1;
    c.strokeStyle = shade("--dim");
    c.lineWidth = 1;
    for (const at of [x(p.u0), x(p.u1)]) {
      c.beginPath();
      for (let y = top, k = 0; y <= height; y += 6, k++) c.lineTo(at + (k % 2 ? 2.5 : -2.5), y);
      c.stroke();
    }
  }
}

const HINT = "Point at something, or press n and p in a chart: what it is stands here.";
const BOX = 28, ROW = 46, SPAN = 20;
/* The lanes of one rank over time. view: {T, model, scale, w}, of which model and scale may change. */
function lanesChart(view, tell, keys) {
  const T = view.T, top = 24, lanes = top + T.depth * SPAN + 16, low = lanes + T.lanes.length * ROW, waits = T.loops.some(l => l[6] < 0) || T.actions.some(a => a.class), height = low + (waits ? 26 : -12);
  const y = a => a.loop ? top + a.depth * SPAN : a.wait ? low : lanes + a.lane * ROW, tall = a => a.loop ? SPAN - 3 : a.wait ? 20 : BOX;
  view.w.place = a => [view.scale.u(a.start), view.scale.u(a.start + a.time)];
  return chart(view.label || "The step over time", height, view.w, {
    keys,
    draw(c, x, width, tallness, chosen) {
      const {model: m, scale: s, w} = view, at = a => [x(s.u(a.start)), x(s.u(a.start + a.time))];
      drawTime(c, s, w, x, width);
      for (const a of m.spans) {
        const [left, right] = at(a);
        if (right < 0 || left > width) continue;
        c.fillStyle = shade("--line");
        c.fillRect(left, y(a), Math.max(0.6, right - left - 1), SPAN - 3);
        if (right - left > 24) textIn(c, a.iterations > 1 ? `${a.name} × ${a.iterations}` : a.name, left, y(a), right - left, SPAN - 3, shade("--text"));
      }
      for (const a of m.rest) {
        const [left, right] = at(a);
        if (right < 0 || left > width || right - left < 0.6) continue;
        c.fillStyle = shade("--line");
        c.fillRect(left, lanes + 7, right - left, BOX - 14);
        if (right - left > 70) textIn(c, a.text, left, lanes + 7, right - left, BOX - 14, shade("--text"));
      }
      const few = m.slices.length < 3000, drawn = T.lanes.map(() => -1);
      for (const a of m.slices) {
        const [left, right] = at(a);
        if (right < 0 || left > width || (!few && right < drawn[a.lane] + 0.3)) continue;
        drawn[a.lane] = right;
        const fill = kindColor(a.of.kind);
        c.fillStyle = fill;
        c.fillRect(left, y(a), Math.max(0.6, right - left - (right - left > 3 ? 1 : 0)), BOX);
        if (right - left > 30) textIn(c, a.short, left, y(a), right - left, BOX, ink(fill));
      }
      for (const a of m.stripes) { /* below what nothing hides, in its lane */
        const [left, right] = at(a);
        if (right < 0 || left > width) continue;
        c.fillStyle = stripes(c);
        c.fillRect(left, lanes + a.lane * ROW + BOX - 9, Math.max(0.6, right - left), 9);
      }
      for (const a of m.waits) {
        const [left, right] = at(a);
        if (right < 0 || left > width) continue;
        c.fillStyle = stripes(c);
        c.fillRect(left, low, Math.max(0.6, right - left), 20);
        if (right - left > 80) {
          const text = `${a.name}, ${seconds(a.time)}`;
          c.fillStyle = shade("--panel");
          c.fillRect(Math.max(0, left) + 3, low + 2, Math.min(right - Math.max(0, left) - 6, 6.4 * text.length + 4), 16);
          textIn(c, text, left, low, right - left, 20, shade("--mark"));
        }
      }
      drawFolds(c, s, x, width, top, tallness);
      for (const {layer: l, u0, u1} of s.pieces) {
        if (!l) continue;
        const left = Math.max(0, x(u0)), right = Math.min(width, x(u1));
        c.fillStyle = shade("--line");
        if (right > left) c.fillRect(left, y(l.span), right - left - 1, SPAN - 3.5);
        c.font = "bold 12px system-ui, 'DejaVu Sans', sans-serif";
        textIn(c, l.title, left, y(l.span), right - left, SPAN - 3, shade("--text"));
        c.font = "12px system-ui, 'DejaVu Sans', sans-serif";
      }
      c.fillStyle = shade("--dim");
      T.lanes.forEach((name, i) => c.fillText(name, 2, lanes + i * ROW - 3));
      if (m.waits.length) c.fillText("waiting", 2, low - 3);
      if (chosen && chosen.rank === m.rank && chosen.start !== undefined) {
        const [left, right] = at(chosen);
        c.strokeStyle = shade("--text");
        c.lineWidth = 2;
        c.strokeRect(left, y(chosen), Math.max(2, right - left), tall(chosen));
      }
    },
    hit(u, py, chosen, step) {
      const m = view.model;
      if (step) return m.items.length ? following(m.items, chosen, step) : null;
      const t = view.scale.t(u);
      return m.items.find(a => t >= a.start && t <= a.start + a.time && py >= y(a) && py <= y(a) + tall(a)) || null;
    },
    tell(a) {
      tell.replaceChildren();
      if (!a) { tell.append(HINT); return; }
      const d = a.of;
      tell.append(el("b", {}, a.loop && a.iterations > 1 ? `${a.name} × ${a.iterations}` : a.name), ` at ${seconds(a.start)} for ${seconds(a.time)}`,
        d ? ` · ${T.lanes[a.lane]} · ${T.kinds[d.kind]}${d.again ? ", computed again" : d.backward ? ", backward" : ""}${d.exposed > 0 ? `, ${seconds(d.exposed)} exposed` : ""}` +
          ` · ${(d.flops / 1e9).toPrecision(3)} GFLOP, ${bytes(d.bytes)}` : "");
      if (d && d.line && view.source) tell.append(" · ", view.source(d.line));
    },
  });
}

/* Buttons that do what keys do. */
function moveButtons(w) {
  const button = (text, name, f) => el("button", {type: "button", "aria-label": name, title: name, onclick: f}, text);
  return [button("−", "zoom out", () => w.near(1 / 0.6)), button("+", "zoom in", () => w.near(0.6)), button("‹", "earlier", () => w.pan(-0.2)), button("›", "later", () => w.pan(0.2))];
}

/* A step with its buttons: two layers each way, or the whole. more(view, keys): further charts of the same time. */
function stepView(T, {first, label, source, ranks, more}) {
  const view = {T, label, source, model: stepModel(T, T.typical)};
  let folds = foldedScale(view.model);
  view.scale = first === "layers" && folds ? folds : wholeScale(T.seconds);
  view.w = windowOn(view.scale.all);
  const near = el("button", {type: "button", onclick: () => show(true)}), far = el("button", {type: "button", onclick: () => show(false)}, "Whole step");
  function show(folded) {
    view.scale = folded && folds ? folds : wholeScale(T.seconds);
    view.w.full = view.scale.all;
    view.w.beyond = folded && folds ? () => show(false) : null;
    near.setAttribute("aria-pressed", view.scale === folds);
    far.setAttribute("aria-pressed", view.scale !== folds);
    near.hidden = !folds;
    near.textContent = folds && folds.layers[0].says === "one phase" ? "One phase" : "Two layers";
    view.w.all();
  }
  const keys = {"0": () => show(false), l: () => show(true)}, tell = el("div", {class: "tell", "aria-live": "polite"}, HINT);
  const charts = [lanesChart(view, tell, keys), ...(more ? more(view, keys, tell) : [])];
  const choice = ranks ? el("select", {"aria-label": "rank", onchange: () => { view.model = stepModel(T, +choice.value); folds = foldedScale(view.model); show(view.scale.pieces.length > 1); }},
    ranks.map((name, i) => el("option", {value: i, selected: i === T.typical}, name))) : null;
  show(view.scale === folds);
  const marks = el("div", {class: "legend"}, T.kinds.map((n, i) => el("span", {}, el("i", {style: `background:var(--c${Math.min(i, 7)})`}), n)),
    T.actions.some(a => a.class) || ranks ? el("span", {}, el("i", {class: "stripes"}), "exposed: nothing computes meanwhile") : null);
  return [el("div", {class: "bar"}, near, far, moveButtons(view.w), choice), charts[0], marks, ...charts.slice(1), tell];
}

/* The numbers of a plan, each with how sure it is. */
function numbersOf(list) {
  return el("ul", {class: "numbers"}, list.map(n => el("li", {},
    el("div", {}, n.name), el("strong", {}, n.value), n.more, el("small", {}, el("span", {class: "sure " + n.sure}, n.sure), n.why))));
}
/* What the lanes show of two layers each way, or of all where nothing is folded, in words. */
function layersTable(T) {
  const m = stepModel(T, T.typical), folds = foldedScale(m), kept = folds ? folds.pieces.filter(p => p.layer).map(p => [p.t0, p.t1]) : [[0, m.seconds]];
  const all = m.slices.filter(a => kept.some(([b, e]) => a.start >= b - 1e-7 * m.seconds && a.start < e - 1e-7 * m.seconds)).slice(0, 300);
  const loop = a => { const l = folds && folds.layers.find(q => a.start >= q.span.start && a.start < q.span.start + q.span.time); return l ? l.title : ""; };
  return table(["action", "lane", "loop", "begins", "takes", "exposed"], all.map(a => [a.name, T.lanes[a.lane], loop(a), seconds(a.start), seconds(a.time), a.of.exposed > 0 ? seconds(a.of.exposed) : ""]), [3, 4, 5]);
}
