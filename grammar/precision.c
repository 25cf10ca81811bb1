/* precision.c - what numbers are made of: the setting `precision` of the train block.
 *
 *   precision bf16                                    products in bf16, all else in f32
 *   precision f16(scale = 65536, window = 1000)       the same in f16, with a scale of the loss
 *   precision fp8(gradients = e4m3)                   bf16, and products of layers in fp8
 *   precision fp8(scales = mx)                        ... with a scale for each 32 elements
 *
 * `master` (parameters) and `reduce` (sums of gradients) may be said; they are f32 with bf16, f16
 * fp8 and tf32, and as all the rest with f32 and f64. `master = bf16` beside bf16 or fp8 keeps
 * parameters in bf16: updates are rounded at random. `reduce = bf16` beside either keeps sums of
 * gradients so: each microbatch rounds them; `reduce = bf16_nearest` likewise, to the nearest.
 * `reduce = f32` beside halves adds up in f32 what else ranks have parts of, too, which otherwise
 * they add up in halves where the parts are halves.
 * `reduce = tree` makes sums of gradients, of f32 or f64, in an order that no layout changes.
 * Without the setting a program for a GPU computes in bf16, and one for a processor in f32. */
#include "grammar/config.h"
#include "grammar/tokens.h"
#include "ir/optimizers.h"

#include <math.h>
#include <string.h>

enum { F32, F64, TF32, BF16, F16, FP8, TREE, NEAREST };
const char *const mg_precisions[] = {"f32", "f64", "tf32", "bf16", "f16", "fp8", NULL};
/* `reduce`: what sums of gradients are of, or the order in which they are made. */
static const char *const sums[] = {"f32", "f64",  "tf32",         "bf16", "f16",
                                   "fp8", "tree", "bf16_nearest", NULL};
/* `gradients`: what they are multiplied as. */
static const char *const gradients[] = {"e4m3", "e5m2", NULL};
/* `scales`: what has one of its own. (`scale` is the one of the loss, with f16.) */
static const char *const scales[] = {"tensor", "tile", "mx", NULL};

/* DeepSpeed's defaults. */
static const Train scaled = {
    .scale = 65536, .scale_least = 1, .scale_window = 1000, .scale_hysteresis = 2};

static void set(Train *t, int which)
{
    t->compute = which == F64 ? DT_f64 : DT_f32;
    t->tf32 = which == TF32;
    t->half = which == BF16 || which == FP8 ? DT_bf16 : which == F16 ? DT_f16 : DT_none;
    t->fp8 = which == FP8 ? DT_e4m3 : DT_none;
    t->fp8_gradients = which == FP8 ? DT_e5m2 : DT_none;
    t->fp8_scales = SCALES_tensor;
    t->master = t->half == DT_bf16 ? t->master : DT_none;
    t->sums = t->half == DT_bf16 ? t->sums : DT_none;
    t->sums_nearest &= t->sums != DT_none;
    t->wide_partials &= t->half != DT_none;
    t->scale = which == F16 ? scaled.scale : 0;
    t->scale_least = scaled.scale_least;
    t->scale_window = scaled.scale_window;
    t->scale_hysteresis = scaled.scale_hysteresis;
}

static const Node *value_of(const Node *n)
{
    return n && n->kind == N_NAMED ? n->a : n;
}

/* Powers of two alone, so that scaling rounds nothing. */
static void power_of_two(Elab *e, const Node *n, const char *what, double *to)
{
    double x;
    if (!n || !config_real(e, n, &x))
        return;
    if (!(x >= 1 && x <= 0x1p40) || frexp(x, &(int){0}) != 0.5) {
        fail(e, value_of(n)->span, 303, "%s is a power of two from 1 to 2^40, not %g", what, x);
        remedy(e, value_of(n)->span, "65536", "%s = 65536", what);
        return;
    }
    *to = x;
}

static void loss_scale(Elab *e, const Node *const *slot, Train *t)
{
    power_of_two(e, slot[0], "scale", &t->scale);
    power_of_two(e, slot[1], "least", &t->scale_least);
    if (slot[2])
        config_integer(e, slot[2], 1, &t->scale_window, 303);
    if (slot[3])
        config_integer(e, slot[3], 1, &t->scale_hysteresis, 303);
    if (t->scale_least > t->scale) {
        fail(e, slot[1] ? slot[1]->span : slot[0]->span, 303,
             "the scale starts at %g, below its least of %g", t->scale, t->scale_least);
        const char *least = arena_printf(e->arena, "%g", t->scale);
        if (slot[1])
            remedy(e, value_of(slot[1])->span, least, "least = %s", least);
    }
}

/* `scale = mx` of fp8: what it was to be; NULL: a number. */
static const char *kind_of_scales(Elab *e, const Node *slot)
{
    const Node *v = value_of(slot);
    const char *word = v->kind == N_NAME ? text(e, v->name) : "";
    for (int i = 0; scales[i]; i++)
        if (!strcmp(word, scales[i]))
            return arena_printf(e->arena, "scales = %s", word);
    return NULL;
}

const char *const mg_precision_options[] = {"master",     "reduce",    "scale",  "least", "window",
                                            "hysteresis", "gradients", "scales", NULL};

void read_precision(Elab *e, const Node *value, Train *t)
{
    enum { MASTER, REDUCE, SCALE, GRADIENTS = 6, SCALES, ARGUMENTS };
    const Node *slot[ARGUMENTS];
    int which = config_choice(e, value, "precision", mg_precisions, 307);
    if (which < 0 || !config_args(e, value, mg_precision_options, slot, NULL, 308))
        return;
    set(t, which);
    t->precision_by = PRECISION_by_source;
    t->precision_span = value->span;
    int rest = which == F64 ? F64 : F32;
    for (int i = MASTER; i <= REDUCE; i++) {
        const Node *v = value_of(slot[i]);
        int is =
            v ? config_choice(e, v, "precision", i == REDUCE ? sums : mg_precisions, 307) : rest;
        if (is == TREE) {
            t->tree = true;
            t->tree_span = slot[i]->span;
        } else if (i == MASTER && is == BF16 && t->half == DT_bf16) {
            t->master = DT_bf16;
        } else if (i == REDUCE && (is == BF16 || is == NEAREST) && t->half == DT_bf16) {
            t->sums = DT_bf16;
            t->sums_nearest = is == NEAREST;
        } else if (i == REDUCE && v && is == F32 && t->half) {
            t->wide_partials = true;
        } else if (is >= 0 && is != rest) {
            fail(e, v->span, 311, "%s = %s beside precision %s", mg_precision_options[i], sums[is],
                 mg_precisions[which]);
            remedy(e, v->span, mg_precisions[rest], "%s = %s", mg_precision_options[i],
                   mg_precisions[rest]);
        }
    }
    for (int i = SCALE; i < ARGUMENTS; i++)
        if (slot[i] && which != (i >= GRADIENTS ? FP8 : F16)) {
            fail(e, slot[i]->span, 308, "precision %s has no %s", mg_precisions[which],
                 i == GRADIENTS ? "gradients of fp8"
                 : i == SCALES  ? "scales of fp8"
                                : "scale of the loss");
            const char *meant = which == FP8 && i == SCALE ? kind_of_scales(e, slot[i]) : NULL;
            if (meant)
                remedy(e, slot[i]->span, meant, "%s", meant);
            else
                remedy(e, value->span, mg_precisions[which], "precision %s", mg_precisions[which]);
            return;
        }
    if (slot[SCALES]) {
        const int is = config_choice(e, value_of(slot[SCALES]), "kind of scales", scales, 307);
        t->fp8_scales = is < 0 ? SCALES_tensor : (Scales)is;
        if (t->fp8_scales != SCALES_tensor) /* numbers of a tile are of one size */
            t->fp8_gradients = DT_e4m3;
    }
    if (slot[GRADIENTS]) {
        const int is =
            config_choice(e, value_of(slot[GRADIENTS]), "type of gradients", gradients, 307);
        t->fp8_gradients = is == 0 ? DT_e4m3 : DT_e5m2;
    }
    if (which == F16)
        loss_scale(e, slot + SCALE, t);
}

void check_precisions(Elab *e, const Node *setting, bool searched)
{
    bool seen[sizeof mg_precisions / sizeof *mg_precisions] = {false};
    if (!searched) {
        fail(e, setting->at, 357,
             "a layout says nothing of precision: `layout auto` alone may say which are sought");
        help(e, "`precision` of the train block says it, or --precision");
    }
    for (size_t i = 0; searched && i < setting->list.n; i++) {
        const Node *n = setting->list.data[i];
        const int which = config_choice(e, n, "precision", mg_precisions, 307);
        if (which >= 0 && n->kind != N_NAME)
            fail(e, n->span, 357, "'%s' has arguments: a layout that is searched names it alone",
                 mg_precisions[which]);
        else if (which >= 0 && seen[which])
            fail(e, n->span, 357, "precision '%s' is there twice", mg_precisions[which]);
        if (which >= 0)
            seen[which] = true;
    }
}

void override_precision(const char *name, Train *t)
{
    t->precision_by = PRECISION_by_option;
    for (int i = 0; mg_precisions[i]; i++)
        if (!strcmp(name, mg_precisions[i]))
            set(t, i);
}

bool fp8_fits(Elab *e, Train *t)
{
    static const char instead[] = "bf16(reduce = tree)";
    if (!t->fp8 || !t->tree)
        return true;
    fail(e, t->tree_span, 311,
         "reduce = tree beside precision fp8, whose scales are of all sequences that ranks compute "
         "at once");
    if (t->precision_by == PRECISION_by_source)
        remedy(e, t->precision_span, instead, "precision %s", instead);
    else
        help(e, "--precision bf16");
    return false;
}

/* A rule that sums over a matrix does not go by blocks of its elements. */
static bool blocks_fit(Elab *e, const Goal *g)
{
    if (!dtype_is_dynamic(g->state) || !g->optimizer || g->optimizer->of != MATRICES)
        return true;
    fail(e, g->state_span, 311, "state = dynamic8 of '%s', whose rule sums over a matrix",
         g->optimizer->name);
    remedy(e, g->state_span, "bf16", "state = bf16");
    return false;
}

bool state_fits(Elab *e, Train *t)
{
    bool fits = true;
    for (int i = 0; i < t->goals; i++) {
        fits &= blocks_fit(e, &t->goal[i]);
        if (!t->goal[i].state || t->compute != DT_f64)
            continue;
        if (t->precision_by == PRECISION_by_option) { /* --precision f64: of everything */
            t->goal[i].state = DT_none;
            continue;
        }
        fail(e, t->goal[i].state_span, 311, "state = %s beside precision f64",
             dtype_name(t->goal[i].state));
        remedy(e, t->goal[i].state_span, "f32", "state = f32");
        fits = false;
    }
    return fits;
}

void default_precision(const Elab *e, Train *t)
{
    const ElaborateOptions *o = e->options;
    if (t->precision_by != PRECISION_by_processor)
        return;
    if (o->is_gpu && o->is_gpu(o->who, text(e, e->module->layout.device))) {
        set(t, BF16);
        t->precision_by = PRECISION_by_gpu;
    }
}
