"""Experts: scores, a choice, and what the experts make of what they are sent."""

import named
import torch
from named import T

from .scope import CALL, PRODUCT, E, call, kind


def without_slots(s, x, chosen, matrices, weight, weights):
    """The rows of all experts along one dim, and products by expert."""
    best, experts, rows, seq = s.p.size["best"], s.p.size["experts"], s.d("rows"), s.d("seq")
    w, v = matrices

    def where(env):
        return named.sorted_places(chosen.value(env), "seq", "best", experts)

    def times(z, m, over, left, most):
        return call("grouped", [z.text, m.text, chosen.text, f"{s.d('experts')} -> {rows}", f"over {s.d(over)}"], ["batch", "rows", left], most,
                    lambda env: named.grouped(z.value(env), where(env)[1], m.value(env), "experts", "rows", [over]))
    z = s.assign(call("dispatch", [x.text, chosen.text, f"{seq} -> {rows}"], ["batch", "rows", "hidden"], x.most,
                      lambda env: named.dispatch_sorted(x.value(env), where(env)[0], "seq", "best", "rows")))
    u = s.assign(times(z, w, "hidden", "ffn", 2))
    h = E(f"tanh({u.text})", CALL, ["batch", "rows", "ffn"], 1, lambda env: T(torch.tanh(u.value(env).t), u.dims))
    o = times(h, v, "ffn", "hidden", 3)
    return call("combine", [o.text, chosen.text, *weight, f"{rows} -> {seq}"], ["batch", "seq", "hidden"], 3 * best,
                lambda env: named.combine_sorted(o.value(env), where(env)[0], weights(env), "best", "rows"))


@kind(1)
def routed(s):
    """Experts: scores, a choice, and what the experts make of what they are sent."""
    p, r = s.p, s.r
    if "experts" not in p.size or s.scanned:
        return None
    x = s.any(lambda e: set(e.dims) >= {"batch", "seq", "hidden"} and len(e.dims) == 3)
    if not x:
        return None
    gate = s.param(["hidden", "choice"])
    score = s.assign(call("softmax", [f"{x.at(PRODUCT)} @ {gate.text} over {s.d('hidden')}", f"over {s.d('choice')}"],
                             ["batch", "seq", "choice"], 1, lambda env: named.softmax(named.product(x.value(env), gate.value(env), ["hidden"]), ["choice"])))
    best, slot, experts = p.size["best"], p.size["slot"], p.size["experts"]
    chosen = s.assign(call("top", [score.text, f"{s.d('choice')} -> {s.d('best')}"], ["batch", "seq", "best"], 1,
                              lambda env: named.top(score.value(env), "choice", "best", best), of="choice"))
    share = s.assign(call("scores_of", [score.text, chosen.text], ["batch", "seq", "best"], 1,
                             lambda env: named.scores_of(score.value(env), chosen.value(env))))
    if r.random() < 0.5:
        s.assign(call("imbalance", [score.text, chosen.text, f"along {s.d('seq')}", f"over {s.d('best')}"], ["batch"], experts,
                         lambda env: named.imbalance(score.value(env), chosen.value(env), "seq", "best")))

    def where(env):
        return named.places(chosen.value(env), "seq", "best", experts, slot)
    w = s.param(["experts", "hidden", "ffn"], 0.4)
    v = s.param(["experts", "ffn", "hidden"], 0.4)
    pick = r.randrange(3)
    weight = [] if pick == 0 else [share.text] if pick == 1 else [f"{share.text} / sum({share.text}, over {s.d('best')})"]

    def weights(env):
        v = share.value(env)
        return None if pick == 0 else v if pick == 1 else T(v.t / v.t.sum(v.dims.index("best"), keepdim=True), v.dims)
    if r.random() < 0.5:
        return without_slots(s, x, chosen, (w, v), weight, weights)
    y = call("dispatch", [x.text, chosen.text, f"{s.d('seq')} -> ({s.d('experts')}, {s.d('slot')})"],
             ["batch", "experts", "slot", "hidden"], x.most,
             lambda env: named.dispatch(x.value(env), where(env), "seq", "best", "experts", "slot"))
    z = s.assign(E(f"{y.text} @ {w.text} over {s.d('hidden')}", PRODUCT, ["batch", "experts", "slot", "ffn"], 2,
                      lambda env: named.product(y.value(env), w.value(env), ["hidden"])))
    o = E(f"tanh({z.text}) @ {v.text} over {s.d('ffn')}", PRODUCT, ["batch", "experts", "slot", "hidden"], 3,
          lambda env: named.product(T(torch.tanh(z.value(env).t), z.dims), v.value(env), ["ffn"]))
    return call("combine", [o.text, chosen.text, *weight, f"({s.d('experts')}, {s.d('slot')}) -> {s.d('seq')}"],
                ["batch", "seq", "hidden"], 3 * best,
                lambda env: named.combine(o.value(env), where(env), weights(env), "best", "experts", "slot"))
