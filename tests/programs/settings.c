/* settings.c - random train and config blocks; see gen.h. */
#include "tests/programs/gen.h"

#include <stdio.h>
#include <string.h>

#define TEXT(...) arena_printf(g->a, __VA_ARGS__)
#define ANY(...)                                                                                   \
    ((const char *const[]){__VA_ARGS__}[draw_below(                                                \
        g, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))])

/* ---- train ----------------------------------------------------------------------------------- */

static Dims draw_dims_rarely(Gen *g)
{
    return draw_one_in(g, 20) ? ~(Dims)0 : 0;
}

static const char *selector(Gen *g)
{
    switch (draw_below(g, 5)) {
    case 0:
        return draw_below(g, 4) ? "rank >= 0"
                                : TEXT("rank %s %d", ANY(">=", "<=", ">", "!="), draw_below(g, 3));
    case 1:
        return dim_name(
            g, draw_dim(g, tensor_dims(g) & ~bit(g->batch) & (g->model | draw_dims_rarely(g))));
    case 2:
        return g->nexternal ? TEXT("\"*%s*\"", g->external[draw_below(g, g->nexternal)]) : "\"*\"";
    case 3:
        return ANY("\"*[0-9]*\"", "\"*t*\"", "\"*w?*\"", "\"*\"");
    default:
        return draw_below(g, 6) ? "rank >= 0"
                                : ANY("rank == 2", "rank < 1", "\"*bias\"", "\"*.weight\"");
    }
}

static const char *optimizer(Gen *g)
{
    const char *chosen = ANY(
        "adamw", "adamw()", "adamw(betas = (0.9, 0.95), eps = 1e-6, decay = 0.1 where rank >= 2)",
        "adamw((0.9, 0.95), 1e-8, 0.1)", "adam(decay = 0.01)", "adam(eps = 1e-3)", "sgd",
        "sgd(momentum = 0.9)", "sgd(momentum = 0.9, nesterov = 1, decay = 0.1)", "sgd(0.9, 0.1, 1)",
        "adamw(state = dynamic8(least = 1))", "adam(decay = 0.01, state = dynamic8(least = 40))",
        "sgd(momentum = 0.9, state = dynamic8(least = 1))", "lion(state = dynamic8(least = 1))",
        "adamw(state = bf16)", "lion", "lion(betas = (0.9, 0.95), decay = 0.1 where rank >= 1)",
        "adafactor", "adafactor(beta1 = 0.9, power = 0.7, threshold = 2, eps = 1e-20, decay = 0.1)",
        "muon", "muon(momentum = 0.9, betas = (0.9, 0.99), decay = 0.1, nesterov = 0)");
    return g->rng >> 40 & 3 ? chosen : own_optimizer(g);
}

static const char *schedule(Gen *g)
{
    return ANY("1e-2", "3e-4", "constant(peak = 1e-2)",
               "constant(peak = 1e-2, warmup = 2, steps = 10)", "linear(peak = 1e-2, steps = 10)",
               "linear(peak = 1e-2, warmup = 3, steps = 10, floor = 1e-3)",
               "cosine(peak = 1e-2, warmup = 3, steps = 10, floor = 1e-3)",
               "cosine(1e-2, 3, 10, 1e-3)", "wsd(peak = 1e-2, warmup = 2, steps = 10, last = 3)",
               "wsd(peak = 1e-2, steps = 10, last = 3, floor = 1e-4, shape = cosine)",
               "wsd(peak = 1e-2, steps = 10, last = 3, shape = sqrt)",
               "inverse_sqrt(peak = 1e-2, warmup = 4, steps = 20)",
               "warmup(peak = 1e-2, warmup = 4, steps = 20, floor = 1e-5, log = 1)",
               "warmup(peak = 1e-2, warmup = 4, log = 0)",
               "warmup_cosine(peak = 1e-2, warmup = 4, steps = 20)");
}

static const char *precision(Gen *g)
{
    return ANY("f32", "f64", "tf32", "bf16", "f16", "bf16(master = f32, reduce = f32)",
               "f32(reduce = tree)", "bf16(master = f32, reduce = tree)",
               "f16(scale = 1024, least = 1, window = 10, hysteresis = 1)", "f16(scale = 256)",
               "fp8", "fp8(gradients = e4m3)", "fp8(scales = tile)", "fp8(scales = mx)",
               "fp8(scales = mx, gradients = e5m2)", "fp8(scales = tensor)", "bf16(reduce = bf16)",
               "fp8(master = f32, reduce = bf16)", "bf16(master = bf16)",
               "fp8(master = bf16, scales = tile)", "bf16(reduce = bf16_nearest)",
               "fp8(master = bf16, reduce = bf16_nearest)");
}

/* Of the loss beside the first: half of the parameters with names of their own follow it. */
static void write_goal(Gen *g, bool ready)
{
    const char *s = selector(g);
    for (int i = draw_below(g, 2); i < g->nexternal && draw_below(g, 4); i += 2)
        s = i < 2 ? TEXT("\"*%s*\"", g->external[i]) : TEXT("%s, \"*%s*\"", s, g->external[i]);
    line(g, "train %s where %s {", g->other, s);
    g->indent = 1;
    line(g, "optimizer %s", optimizer(g));
    line(g, "lr %s", schedule(g));
    if (!ready && draw_one_in(g, 2))
        line(g, "clip %s", ANY("1", "0.5", "1e-3"));
    if (draw_one_in(g, 4))
        line(g, "decay 0.05 where rank >= 0");
    g->indent = 0;
    line(g, "}");
}

/* Of one matrix or a few, now and then of what may be none. */
static void write_adapter(Gen *g)
{
    const char *of = "";
    for (int i = draw_below(g, g->nmatrices); i < g->nmatrices && (!*of || draw_below(g, 2)); i++)
        of = TEXT("%s%s\"*%s.weight\"", of, *of ? ", " : "", g->matrix[i]);
    if (draw_one_in(g, 12))
        of = TEXT("\"*%s*\"", g->external[draw_below(g, g->nexternal)]);
    const char *name = ANY("", "", "fast ");
    const char *base = g->blocks >= 0 || draw_one_in(g, 30) ? ANY(", base = nf4", ", base = int8")
                       : draw_one_in(g, 6)                  ? ", base = int8"
                                                            : "";
    line(g, "adapter %s%s(rank = %s, alpha = %s%s%s%s) on %s", name, ANY("lora", "lora", "dora"),
         ANY("1", "1", "1", "2"), ANY("1", "3", "0.5"), ANY("", "", ", dropout = 0.25"),
         ANY("", "", ", rank_stabilized = 1, ratio = 4"), base, of);
}

void write_train(Gen *g)
{
    line(g, "train {");
    g->indent = 1;
    line(g, "optimizer %s", optimizer(g));
    line(g, "lr %s", schedule(g));
    const char *p = draw_below(g, 3) ? precision(g) : NULL;
    bool ready = draw_one_in(g, 5) && (!p || p[1] != '1');
    if (ready)
        line(g, "update as_ready");
    else if (draw_one_in(g, 8))
        line(g, "update together");
    if (!ready && draw_one_in(g, 2))
        line(g, "clip %s", ANY("1", "0.5", "1e-3"));
    if (draw_one_in(g, 5))
        line(g, "average %s", ANY("0.9", "1", "0", "min(0.99, (1 + step()) / (10 + step()))"));
    if (p)
        line(g, "precision %s", p);
    for (int n = draw_below(g, 5) - 2; n > 0; n--) {
        const char *s = selector(g);
        if (draw_one_in(g, 3))
            s = TEXT("%s, %s", s, selector(g));
        int which = draw_below(g, 3);
        line(g,
             which == 0   ? "decay 0.05 where %s"
             : which == 1 ? "rate 0.1 where %s"
                          : "frozen where %s",
             which == 2 && (!strncmp(s, "rank", 4) || strchr(s, '[')) ? "\"*[12]\"" : s);
    }
    if (!g->other && g->nmatrices && g->nexternal && (g->blocks >= 0 || draw_below(g, 4)))
        write_adapter(g);
    g->indent = 0;
    line(g, "}");
    if (g->other)
        write_goal(g, ready);
    if (g->own)
        line(g, "%s", g->own);
}

/* ---- config ---------------------------------------------------------------------------------- */

static const char *json(Gen *g, int depth)
{
    switch (draw_below(g, depth ? 7 : 5)) {
    case 0:
        return "\"a string\"";
    case 1:
        return ANY("true", "false", "null");
    case 2:
        return number(g, 2);
    case 3:
        return TEXT("%s * 2", dim_name(g, g->batch));
    case 4:
        return ANY("-1", "1e-5", "10000", "0.1 + 0.2");
    case 5: {
        const char *x = json(g, depth - 1), *y = json(g, depth - 1);
        return TEXT("[%s, %s]", x, y);
    }
    default: {
        const char *x = json(g, depth - 1), *y = json(g, depth - 1);
        return TEXT("{a = %s, of = %s}", x, y);
    }
    }
}

void write_config(Gen *g)
{
    line(g, "config {");
    g->indent = 1;
    for (int n = draw_below(g, 5); n > 0; n--) {
        const char *value = json(g, 2);
        line(g, "%s = %s", new_name(g, "key"), value);
    }
    g->indent = 0;
    line(g, "}");
}
