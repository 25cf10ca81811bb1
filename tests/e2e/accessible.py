"""What a person with a keyboard, a screen reader, a narrow window or weak eyes meets in a page: `faults(browser)` says
what is wrong with the page that is open, in Chromium's own tree of names and roles, its computed colours, and by real
keys. The rules are WCAG 2.2's of level AA that a program can see; by number where there is one."""

# Text whose contrast is too small (1.4.3), headings out of order, ids, landmarks, sizes, motion: what the page knows.
SEEN = r"""
(() => {
  const out = [], visible = e => e.checkVisibility({visibilityProperty: true}) && e.getClientRects().length > 0;
  const says = e => `<${e.tagName.toLowerCase()}> ${(e.getAttribute("aria-label") || e.textContent).trim().slice(0, 40)}`;
  const rgba = text => { const m = text.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = e => { let c = [0, 0, 0, 0], chain = []; for (; e; e = e.parentElement) chain.push(rgba(getComputedStyle(e).backgroundColor)); c = [255, 255, 255, 1]; for (const b of chain.reverse()) c = over(b, c); return c; };
  window.contrastOf = (text, e) => ratio(over(rgba(text), behind(e)), behind(e));
  if (!/^[a-z]{2}/.test(document.documentElement.lang)) out.push("3.1.1: the page says no language");
  if (!document.title.trim()) out.push("2.4.2: the page has no title");
  if (!/width=device-width/.test((document.querySelector("meta[name=viewport]") || {}).content)) out.push("1.4.10: no viewport of the device's width");
  const heads = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(visible);
  if (heads.filter(h => h.tagName === "H1").length !== 1) out.push("not one h1");
  heads.forEach((h, i) => { if (i && +h.tagName[1] > +heads[i - 1].tagName[1] + 1) out.push(`1.3.1: ${says(h)} comes after a ${heads[i - 1].tagName}`); });
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), small = new Set();
  for (let t; (t = walk.nextNode());) {
    const e = t.parentElement;
    if (!t.data.trim() || !visible(e) || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(e.tagName)) continue;
    if (!e.closest("header, main, footer, nav, aside, [role=main], [role=banner]")) out.push(`in no landmark: ${t.data.trim().slice(0, 40)}`);
    const s = getComputedStyle(e), size = parseFloat(s.fontSize), large = size >= 24 || (size >= 18.66 && +s.fontWeight >= 700);
    const got = window.contrastOf(e.closest("svg") ? s.fill : s.color, e);
    if (got < (large ? 3 : 4.5)) small.add(`1.4.3: contrast ${got.toFixed(2)} of ${says(e)}`);
  }
  out.push(...small);
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  for (const id of new Set(ids.filter((v, i) => ids.indexOf(v) !== i))) out.push(`two elements with id ${id}`);
  for (const e of document.querySelectorAll("[aria-controls], [aria-labelledby], [aria-describedby]"))
    for (const a of ["aria-controls", "aria-labelledby", "aria-describedby"])
      for (const id of (e.getAttribute(a) || "").split(/\s+/).filter(x => x)) if (!document.getElementById(id)) out.push(`${says(e)}: ${a} names no element`);
  for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) out.push(`2.4.3: ${says(e)} has a place of its own in the order of Tab`);
  for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) out.push("1.1.1: a picture without a text");
  for (const e of document.querySelectorAll("button, select, input")) if (visible(e)) { const r = (e.closest("label") || e).getBoundingClientRect(); if (r.width < 24 || r.height < 24) out.push(`2.5.8: ${says(e)} is smaller than 24 pixels`); }
  for (const t of document.querySelectorAll("table")) if (!t.querySelector("th")) out.push("1.3.1: a table without heads");
  for (const e of document.querySelectorAll("*")) if (visible(e) && (e.scrollWidth > e.clientWidth + 1) && /auto|scroll/.test(getComputedStyle(e).overflowX) && e.tabIndex < 0) out.push(`2.1.1: ${says(e)} scrolls, and takes no key`);
  if (document.documentElement.scrollWidth > innerWidth) out.push(`1.4.10: ${document.documentElement.scrollWidth} pixels wide in a window of ${innerWidth}`);
  if (document.getAnimations().length) out.push("2.3.3: something moves by itself");
  return [...new Set(out)];
})()
"""

# The element that has the focus: who, and how one sees it.
FOCUS = """
(() => {
  const e = document.activeElement;
  if (!e || e === document.body) return null;
  const s = getComputedStyle(e);
  window.order = window.order || [...document.querySelectorAll("*")];
  return {at: window.order.indexOf(e), name: (e.getAttribute("aria-label") || e.textContent).trim().slice(0, 40), tag: e.tagName,
          seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && window.contrastOf(s.outlineColor, e.parentElement) >= 3};
})()
"""
CONTROLS = {"button", "tab", "link", "combobox", "textbox", "application", "img", "region", "checkbox", "tabpanel", "tablist", "switch", "DisclosureTriangle"}
MOST = 400  # stops of Tab


def names(browser):
    """Controls without a name, by Chromium's tree (4.1.2)."""
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    seen = [(n.get("role", {}).get("value"), n.get("name", {}).get("value", "")) for n in tree if not n.get("ignored")]
    out = [f"4.1.2: a {role} without a name" for role, name in seen if role in CONTROLS and not name.strip()]
    out += [f"no landmark {wanted}" for wanted in ("main", "banner") if wanted not in [role for role, _ in seen]]
    return out


def stops(browser, back=False):
    """Where Tab stops, until it leaves the page."""
    out = []
    while len(out) < MOST:
        browser.key("Tab", shift=back)
        at = browser.eval(FOCUS)
        if at is None or (out and at["at"] == out[0]["at"]):
            return out
        if out and at["at"] == out[-1]["at"]:
            return [*out, None]
        out.append(at)
    return [*out, None]


def by_keys(browser):
    browser.eval("window.order = null; document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex'); 0")
    forward = stops(browser)
    if forward and forward[-1] is None:
        return [f"2.1.2: Tab does not leave {forward[-2]['name']}"]
    out = [] if forward else ["2.1.1: Tab stops nowhere"]
    out += [f"2.4.7: the focus is not seen on {s['tag']} {s['name']}" for s in forward if not s["seen"]]
    places = [s["at"] for s in forward]
    if places != sorted(places):
        out.append("2.4.3: Tab goes in another order than the page")
    behind = stops(browser, back=True)
    if sorted(s["at"] if s else -1 for s in behind) != sorted(places):
        out.append("2.1.2: Shift and Tab do not go the same way back")
    return out


def faults(browser, keys=True):
    browser.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")  # what was shown just now
    return browser.eval(SEEN) + names(browser) + (by_keys(browser) if keys else [])
