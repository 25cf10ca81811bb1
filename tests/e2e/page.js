// Runs the script of a page of --report in Node, on elements that are just enough for it, and prints as JSON what a
// pipeline's grid told, or what each canvas of another part shows and tells: node page.js r.html [PART]
"use strict";
const fs = require("fs");
const html = fs.readFileSync(process.argv[2], "utf8");
const data = /<script id="data"[^>]*>([^]*?)<\/script>/.exec(html)[1];
const script = /<script>\n"use strict";([^]*?)<\/script>/.exec(html)[1];

let drawn = []; // what is called on canvases, and with what
class Element {
  constructor(tag) {
    Object.assign(this, {tag, inside: [], at: {}, listeners: {}, hidden: false, clientWidth: 1000, value: tag === "select" ? "0" : ""});
  }
  setAttribute(name, value) {
    this.at[name] = String(value);
    if (name === "hidden") this.hidden = true;
    if (name === "value") this.value = String(value);
  }
  removeAttribute(name) { delete this.at[name]; }
  append(...all) { this.inside.push(...all); }
  replaceChildren(...all) { this.inside = all; }
  get children() { return this.inside; }
  get textContent() { return this.inside.map(x => x instanceof Element ? x.textContent : String(x)).join(""); }
  set textContent(text) { this.inside = [text]; }
  addEventListener(type, f) { (this.listeners[type] = this.listeners[type] || []).push(f); }
  dispatchEvent(e) { (this.listeners[e.type] || []).forEach(f => f(e)); }
  matches() { return false; }
  focus() {}
  setPointerCapture() {}
  querySelector() { return new Element("span"); }
  getContext() {
    return new Proxy({}, {get: (_, name) => (...with_) => { drawn.push([name, ...with_]); }, set: (_, name, to) => { drawn.push([name, to]); return true; }});
  }
  find(is) {
    if (is(this)) return this;
    for (const x of this.inside) {
      const found = x instanceof Element ? x.find(is) : null;
      if (found) return found;
    }
    return null;
  }
}
class KeyboardEvent {
  constructor(type, what) { Object.assign(this, {type, target: new Element("body"), preventDefault() {}}, what); }
}
const root = new Element("html"), nav = new Element("nav"), main = new Element("main"), named = {};
const page = Object.assign(new Element("document"), {
  documentElement: root, body: root,
  getElementById: id => id === "data" ? {textContent: data} : (named[id] = named[id] || new Element(id)),
  querySelector: of => of === "main" ? main : nav,
  createElement: tag => new Element(tag),
  createElementNS: (_, tag) => new Element(tag),
});
const world = {
  document: page, location: {hash: ""}, history: {replaceState() {}}, devicePixelRatio: 1, KeyboardEvent,
  getComputedStyle: () => ({getPropertyValue: () => "#123456"}), matchMedia: () => ({addEventListener() {}}),
  ResizeObserver: class { constructor(paint) { this.observe = paint; } },
};
new Function(...Object.keys(world), script)(...Object.values(world));

const part = process.argv[3] || "Pipeline", section = main.inside.find(s => s.at["aria-label"] === part);
if (part !== "Pipeline") {
  const all = [];
  section.find(e => { if (e.tag === "canvas" || e.at.class === "tell") all.push(e); return false; });
  const canvases = all.filter(e => e.tag === "canvas"), tells = all.filter(e => e.tag !== "canvas");
  const seen = JSON.stringify(canvases.map((canvas, i) => {
    drawn = [];
    canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "0"}));
    const texts = drawn.filter(d => d[0] === "fillText").map(d => d.slice(1)), boxes = drawn.filter(d => d[0] === "fillRect").map(d => d.slice(1));
    canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "p"}));
    canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "n"}));
    return {texts, boxes, told: tells[i].textContent};
  }));
  for (let at = 0; at < seen.length; at += 4096) fs.writeSync(1, seen.slice(at, at + 4096));
  process.exit(0);
}
const canvas = section.find(e => e.tag === "canvas"), tell = section.find(e => e.at.class === "tell");
const seen = {};
const press = key => { drawn = []; canvas.dispatchEvent(new KeyboardEvent("keydown", {key})); return drawn; };
const point = (type, offsetX, offsetY) => canvas.dispatchEvent({type, offsetX, offsetY, deltaY: -1, ctrlKey: true, pointerId: 1, preventDefault() {}});
const cells = all => all.filter(d => d[0] === "fillRect" && d[4] > 2).map(d => d.slice(1));
page.dispatchEvent(new KeyboardEvent("keydown", {key: "3"}));
seen.shown = main.inside.filter(s => !s.hidden).map(s => s.at["aria-label"]);
press("n");
press("p");
seen.first = tell.textContent;
press("n");
seen.second = tell.textContent;
seen.whole = cells(press("0"));
seen.colors = [...new Set(drawn.filter(d => d[0] === "fillStyle").map(d => d[1]))];
seen.near = cells(press("+"));
seen.moved = cells(press("ArrowRight"));
press("0");
drawn = [];
point("wheel", 500, 30);
seen.wheeled = cells(drawn);
point("pointerdown", 500, 30);
drawn = [];
point("pointermove", 300, 30);
seen.dragged = cells(drawn);
point("pointerup", 300, 30);
press("0");
seen.hovered = [];
for (let x = 0; x < 1000; x += 10) {
  point("pointermove", x, 30);
  seen.hovered.push(tell.textContent);
}
point("pointerleave", 0, 0);
seen.left = tell.textContent;
seen.table = section.find(e => e.tag === "tbody").inside.map(r => r.inside.map(c => c.textContent));
console.log(JSON.stringify(seen));
