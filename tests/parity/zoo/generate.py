"""Golden numbers of the zoo: generate.py [NAME...] writes golden/NAME.{safetensors,json}.

Needs torch; the tests do not: they read what this wrote. The safetensors file holds

    weight.NAME   BF16  initial parameters, under the names of checkpoints
    grad.NAME     F64   the gradient of the loss at those, of every parameter that learns
    after.NAME    F64   of models with several losses, or with parameters that follow others: the parameters after the last step
    average.NAME  F64   of models that keep averages: those after the last step
    tokens        U8    [batch, seq + 1], or the inputs by name: F32 or U8, [batch, ...]
    weights       U8    of the tokens as targets, in models that weigh them
    documents     U8    where in its window each token's document begins, in models that ask for it
    batch.NAME    the same in the order of the first step, of models that draw numbers

and the JSON file the losses and gradient norms of STEPS steps of gradient descent with momentum on that
one batch, as the train blocks say (those of further losses in "goals"), the metrics at the initial parameters, and the loss of an
evaluation where that draws numbers of its own. Everything is computed in float64.
"""

import json
import os
import struct
import sys

import torch
from twins import KINDS, noise
from twins.twin import Twin

STEPS = 3
HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64", torch.uint8: "U8"}


def start(shapes, draw):
    """Gains near 1, biases near 0, matrices so that nothing saturates."""
    w = {}
    for n, shape in shapes.items():
        x = torch.randn(shape, generator=draw)
        if len(shape) == 1:
            x = 1 + 0.1 * x if n.endswith(".weight") else 0.1 * x
        else:
            x = 0.3 * x
        w[n] = x.bfloat16()
    return w


def gradients(twin, w, learn, d):
    """Each loss, and the gradients of the parameters that follow it, all at the same parameters."""
    losses, grads = twin.losses(w, d), {}
    for goal, loss in losses.items():
        mine = [n for n in learn if twin.follows(n) == goal]
        found = torch.autograd.grad(loss, [learn[n] for n in mine], retain_graph=True)
        grads |= dict(zip(mine, found, strict=True))
    return {goal: float(loss.detach()) for goal, loss in losses.items()}, grads


def rows(twin, d, n):
    """The batch of step n: all rows, in the order of the program where that matters."""
    if not twin.draws:
        return d
    order = noise.order(twin.batch, n)
    return {name: t[order] for name, t in d.items()}


def steps(twin, w, d):
    """By loss: its values before each update, and gradient norms; the gradients of the first step, the parameters after the last."""
    w = {n: t.double() for n, t in w.items()}
    learn = {n: t.requires_grad_() for n, t in w.items() if twin.learns(n)}
    optimizers, numbers, first, averages = {}, {}, None, {}
    twin.start = {n: t.detach().clone() for n, t in w.items()}
    for step in range(STEPS):
        losses, grads = gradients(twin, w, learn, rows(twin, d, step) | {"step": step, "steps": step})
        first = first or {n: grads[n].clone() for n in learn}
        for goal, loss in losses.items():
            mine = {n: t for n, t in learn.items() if twin.follows(n) == goal}
            if not step:
                optimizers[goal] = twin.optimizer(goal, list(mine.values()))
                numbers[goal] = {"losses": [], "norms": []}
            optimizer, rate, clip = optimizers[goal]
            for n, t in mine.items():
                t.grad = grads[n].clone()
            norm = torch.nn.utils.clip_grad_norm_(mine.values(), clip)
            numbers[goal]["losses"].append(loss)
            numbers[goal]["norms"].append(float(norm))
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
        for optimizer, _, _ in optimizers.values():
            optimizer.step()
        with torch.no_grad():
            twin.follow(w, averages, step)
    return numbers, first, {n: t.detach() for n, t in w.items()}, averages


def write_safetensors(path, tensors):
    header, at = {}, 0
    tensors = dict(sorted(tensors.items(), key=lambda item: -item[1].element_size()))  # keeps alignment
    for name, t in tensors.items():
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(bytes(t.contiguous().flatten().view(torch.uint8).tolist()))


def generate(name):
    twin = KINDS[name]
    draw = torch.Generator().manual_seed(sum(name.encode()))
    w = start(twin.shapes(), draw)
    stored = {n: (t.float() if t.is_floating_point() else t.to(torch.uint8)) for n, t in twin.inputs(draw).items()}
    data = {n: t.double() if t.is_floating_point() else t.long() for n, t in stored.items()}
    numbers, grads, after, averages = steps(twin, w, data)
    losses, norms = numbers["loss"]["losses"], numbers["loss"]["norms"]
    others = {goal: row for goal, row in numbers.items() if goal != "loss"}
    exact = {n: t.double() for n, t in w.items()}
    metrics = {n: float(x) for n, x in twin.metrics(exact, data).items()}
    # An evaluation draws numbers of its own; here behind one step, whose rate is 0: what follows others has moved.
    moves = type(twin).follow is not Twin.follow
    behind = {n: t.clone() for n, t in exact.items()}
    twin.follow(behind, {}, 0)
    evaluated = {"val_loss": float(twin.loss(behind, data | {"step": -1, "steps": 1}))} if twin.draws or moves else {}
    for n, x in metrics.items():
        assert 0 < x and x != 1, f"{name}: {n} is {x}: nothing is tested"
    for n, g in grads.items():
        assert float(g.norm()) > 1e-6 * norms[0], f"{name}: the gradient of {n} is zero: nothing is tested"
    first = {"batch." + n: t for n, t in rows(twin, stored, 0).items()} if twin.draws else {}
    tensors = stored | first | {"weight." + n: t for n, t in w.items()} | {"grad." + n: t for n, t in grads.items()}
    if others or moves:
        tensors |= {"after." + n: t for n, t in after.items()}
    tensors |= {"average." + n: t for n, t in averages.items()}
    os.makedirs(f"{HERE}/golden", exist_ok=True)
    write_safetensors(f"{HERE}/golden/{name}.safetensors", tensors)
    with open(f"{HERE}/golden/{name}.json", "w", encoding="utf-8") as f:
        json.dump({"loss": losses[0], "losses": losses, "norms": norms} | evaluated | ({"metrics": metrics} if metrics else {})
                  | ({"goals": others} if others else {}), f, indent=1)
        f.write("\n")
    print(f"{name}: {sum(t.numel() for t in w.values())} parameters, loss {losses[0]:.6f} -> {losses[-1]:.6f}, "
          f"norm {norms[0]:.3g} -> {norms[-1]:.3g}, {os.path.getsize(f'{HERE}/golden/{name}.safetensors')} bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for which in sys.argv[1:] or KINDS:
        generate(which)
