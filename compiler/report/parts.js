const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function el(tag, attributes, ...inside) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {}))
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== null && v !== false) e.setAttribute(k, v === true ? "" : v);
  e.append(...inside.flat().filter(x => x !== null));
  return e;
}
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  while (n >= 1024 && u < 4) { n /= 1024; u++; }
  return (u ? n.toPrecision(3) : n) + " " + units[u];
}
function seconds(s) {
  return s >= 1 ? s.toPrecision(4) + " s" : s >= 1e-3 ? (s * 1e3).toPrecision(3) + " ms" : (s * 1e6).toPrecision(3) + " us";
}
function table(heads, rows, numbers) {
  const cls = i => numbers.includes(i) ? "n" : null;
  const scroll = el("div", {class: "scroll"}, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((h, i) => h ? el("th", {class: cls(i), scope: "col"}, h) : el("td", {})))),
    el("tbody", {}, rows.map(r => el("tr", {}, r.map((c, i) => el("td", {class: cls(i)}, c)))))));
  /* One that is wider than its place is scrolled by keys, too. */
  new ResizeObserver(() => {
    const wide = scroll.scrollWidth > scroll.clientWidth;
    for (const [k, v] of [["tabindex", "0"], ["role", "region"], ["aria-label", "table: " + heads.filter(h => h).join(", ")]])
      if (wide) scroll.setAttribute(k, v); else scroll.removeAttribute(k);
  }).observe(scroll);
  return scroll;
}