/* random_layout.c - see random_layout.h. */
#include "tests/plan/random_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "passes/walk.h"

const char *const way_says[WAY_count] = {
#define W(name, needs, precision, says) [WAY_##name] = says,
    WAYS(W)
#undef W
};

/* ---- models ---------------------------------------------------------------------------------- */

/* Things that a model can have. */
enum { ANY, ATTENDS = 1, SCANS = 2, LAYERS = 4, SLOTS = 8, ROWS = 16, PARTS = 32, PADS = 64 };

typedef struct Source {
    Small small;
    int can;
} Source;

static const Source sources[] = {
    {{"llama7b.mg",
      0,
      {"layers=4", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "vocab=16", "seq=8",
       "batch=16"}},
     ATTENDS | LAYERS},
    {{"llama7b.mg", /* of whose tensors ranks have 256 elements and more */
      0,
      {"layers=3", "hidden=32", "kv_heads=4", "group=1", "head=8", "ffn=32", "vocab=32", "seq=8",
       "batch=16"}},
     ATTENDS | LAYERS},
    {{"gpt2_124m.mg",
      0,
      {"layers=4", "hidden=32", "heads=4", "head=8", "ffn=32", "vocab=16", "seq=8", "batch=16",
       AS_READY}},
     ATTENDS | LAYERS},
    {{"qwen3_0_6b.mg",
      0,
      {"layers=2", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "vocab=16", "seq=8",
       "batch=16"}},
     ATTENDS | LAYERS},
    {{"mixtral_mini.mg",
      0,
      {"layers=4", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "experts=4", "vocab=16",
       "seq=8", "batch=16"}},
     ATTENDS | LAYERS | SLOTS},
    {{"mixtral_8x7b_dropless.mg",
      0,
      {"layers=4", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "experts=4", "vocab=16",
       "seq=8", "batch=16"}},
     ATTENDS | LAYERS | ROWS},
    {{MODELS_DIR "/../bench/published/qwen3_moe.mg",
      0,
      {"batch=16", "seq=8", "vocab=16", "hidden=8", "ffn=8", "experts=8", "best=2", "layers=4",
       "kv_heads=2", "group=2", "head=4", "part=2"}},
     ATTENDS | LAYERS | SLOTS | PARTS},
    {{MODELS_DIR "/../tests/plan/scans.mg", 0, {"batch=16"}}, ATTENDS | SCANS},
    {{MODELS_DIR "/../tests/plan/rings.mg", 0, {"batch=16"}}, ATTENDS},
    {{MODELS_DIR "/../tests/plan/padded.mg", 0, {"batch=16"}}, ATTENDS | LAYERS | PADS},
};
enum { SOURCES = sizeof sources / sizeof *sources };

typedef enum Precision { DOUBLE, HALVES, WIDE, FP8, TILES, PRECISIONS } Precision;

static const struct {
    int needs;
    Precision precision;
} asks[WAY_count] = {
#define W(name, needs, precision, says) [WAY_##name] = {needs, precision},
    WAYS(W)
#undef W
};

static Precision precision_of(Way w, uint64_t *rng)
{
    if (asks[w].precision != PRECISIONS)
        return asks[w].precision;
    return draw_int(rng, 2) ? DOUBLE : (Precision)draw_int(rng, PRECISIONS);
}

/* ---- what a layout can split ----------------------------------------------------------------- */

typedef VEC(Name) NameList;

static void add_dims(const Model *t, const Type *type, int from, NameList *to)
{
    for (int i = from; i < type->rank; i++) {
        bool known = false;
        for (size_t k = 0; k < to->n; k++)
            known |= to->data[k] == type->dims[i].name;
        if (!known)
            vec_push(t->a, to, type->dims[i].name);
    }
}

/* The dims of inputs, parameters and slots of experts, those of repeats left out. */
static NameList dims_of(const Model *t)
{
    NameList l = {0};
    const Fn *fn = module_fn(t->m, "train");
    for (size_t k = 0; k < fn->args.n; k++) {
        const Type *type = type_of(t->m, fn->body->args.data[k]);
        int batch = type_find(type, t->m->batch.name); /* before it: the microbatches */
        if (batch >= 0)
            add_dims(t, type, batch, &l);
    }
    for (size_t k = 0; k < t->m->tensors.n; k++) {
        const Tensor *p = &t->m->tensors.data[k];
        add_dims(t, &p->type, p->stacked - p->numbered, &l);
    }
    for (size_t v = 1; v < t->m->values.n; v++) {
        const Ins *def = t->m->values.data[v].def;
        if (def && def->op == OP_dispatch)
            add_dims(t, type_of(t->m, def->out[0]), 0, &l);
    }
    return l;
}

typedef struct Sought {
    Op op;
    bool found;
} Sought;

static void seek(void *ctx, Ins *i)
{
    Sought *s = ctx;
    s->found |= i->op == s->op;
}

static bool has(const Reference *r, Op op)
{
    Sought s = {op, false};
    each_ins(module_fn(r->t.m, "train")->body, seek, &s);
    return s.found;
}

static bool has_dim(const Reference *r, const char *name)
{
    const Module *m = r->t.m;
    for (size_t v = 1; v < m->values.n; v++)
        for (int i = 0; i < m->values.data[v].type.rank; i++)
            if (!strcmp(name_str(m->names, m->values.data[v].type.dims[i].name), name))
                return true;
    return false;
}

/* Are grouped products' matrices along this dim? */
static bool multiplies_rows(const Region *r, Name experts)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        if ((i->op == OP_grouped && i->attrs.dim.name == experts) ||
            (i->body && multiplies_rows(i->body, experts)))
            return true;
    }
    return false;
}

/* The dim of the layers that parameters are stacked along, if there is one. */
static const char *layers_of(const Reference *r)
{
    for (size_t k = 0; k < r->t.m->tensors.n; k++) {
        const Tensor *t = &r->t.m->tensors.data[k];
        if (t->stacked > t->numbered)
            return name_str(r->t.m->names, t->type.dims[0].name);
    }
    return NULL;
}

/* "=1,3,0,2": the layers, each in some stage. */
static const char *random_cut(const Reference *r, Arena *a, int stages, uint64_t *rng)
{
    enum { MOST = 16 };
    int64_t of[MOST] = {0};
    const char *s = "";
    for (size_t k = 0; k < r->t.m->tensors.n; k++) {
        const Tensor *t = &r->t.m->tensors.data[k];
        if (t->stacked <= t->numbered)
            continue;
        for (int64_t n = 0; n < t->type.dims[0].size; n++)
            of[draw_int(rng, stages)]++;
        break;
    }
    for (int k = 0; k < stages; k++)
        s = arena_printf(a, "%s%c%lld", s, k ? ',' : '=', (long long)of[k]);
    return s;
}

/* ---- the text -------------------------------------------------------------------------------- */

typedef struct Text {
    const Reference *r;
    Arena *a;
    uint64_t *rng;
    const char *s;
    int n, first; /* axes of the mesh, and which of the names is the first */
    int thirds;   /* those of 3 ranks, which few dims divide: classes are padded */
    int used;     /* those that rules have */
    int64_t ranks;
    bool attends, scans, sorted, stages;
    bool peers; /* rules of experts and of the batch are there: rows are sent once to peers */
    uint64_t ways;
} Text;

static const char *axis_name(const Text *t, int axis)
{
    static const char *const names[] = {"dp", "cp", "tp"};
    return names[(t->first + axis) % 3];
}

/* With fp8 the largest number may be found along an axis by itself. */
static void draw_mesh(Text *t)
{
    const bool largest = dtype_is_fp8(t->r->half) && t->r->scales == SCALES_tensor;
    t->n = 1 + draw_int(t->rng, 3);
    t->first = draw_int(t->rng, 3);
    t->ranks = 1;
    for (int i = 0; i < t->n; i++) {
        const int size = draw_int(t->rng, 6) == 0                     ? 3
                         : t->ranks <= 16 && draw_int(t->rng, 3) == 0 ? 4
                                                                      : 2;
        const bool apart = largest && i + 1 < t->n && draw_int(t->rng, 2);
        t->thirds |= size == 3 ? 1 << i : 0;
        t->ranks *= size;
        t->ways |= apart ? WAY(apart) : 0;
        t->s = arena_printf(t->a, "%s%s%s=%d%s", t->s, i ? " " : "", axis_name(t, i), size,
                            apart ? "|" : "");
    }
}

static void draw_schedule(Text *t, bool chunks)
{
    static const struct {
        const char *name;
        uint64_t way;
    } all[] = {{"gpipe", WAY(gpipe)}, {"1f1b", WAY(one_f_one_b)}, {"zb-h1", WAY(zb_h1)}};
    const int k = draw_int(t->rng, 3);
    t->ways |= chunks ? WAY(interleaved) : all[k].way;
    t->s = arena_printf(t->a, "%s; schedule %s", t->s, chunks ? "interleaved" : all[k].name);
    if ((chunks || k == 1) && draw_int(t->rng, 2)) {
        t->s = arena_printf(t->a, "%s; pairs", t->s);
        t->ways |= WAY(pairs);
    }
}

static void draw_stages(Text *t)
{
    const char *layers = t->ranks <= 16 && draw_int(t->rng, 3) == 0 ? layers_of(t->r) : NULL;
    if (!layers)
        return;
    const int stages = draw_int(t->rng, 3) ? 2 : 4;
    const bool chunks = draw_int(t->rng, 2);
    const char *cut =
        draw_int(t->rng, 2) ? "" : random_cut(t->r, t->a, stages * (1 + chunks), t->rng);
    t->ways |= *cut ? WAY(uneven) : 0;
    t->ways |= strstr(cut, "=0") || strstr(cut, ",0") ? WAY(empty) : 0;
    t->ranks *= stages;
    t->stages = true;
    t->s = draw_int(t->rng, 2) ? arena_printf(t->a, "pp=%d %s", stages, t->s)
                               : arena_printf(t->a, "%s pp=%d", t->s, stages);
    t->s = arena_printf(t->a, "%s; %s pp:%d%s", t->s, layers, 1 + chunks, cut);
    draw_schedule(t, chunks);
}

/* Rows are sent once to peers on one axis, and then along another: the batch is split on the one
 * within the other. */
static void draw_peers(Text *t)
{
    const bool sorted = has(t->r, OP_grouped);
    const int once = draw_int(t->rng, t->n), other = draw_int(t->rng, t->n);
    const int both = 1 << once | 1 << other;
    if (!has(t->r, OP_dispatch) || other <= once || (t->thirds & both) || draw_int(t->rng, 3))
        return;
    t->peers = true;
    t->used |= both;
    t->ways |= WAY(two_axes) | WAY(batch) | (sorted ? WAY(peers_rows) : WAY(peers));
    t->s = arena_printf(t->a, "%s; experts %s! %s%s; batch %s %s", t->s, axis_name(t, once),
                        axis_name(t, other), sorted ? ">" : "", axis_name(t, other),
                        axis_name(t, once));
}

/* A part of a sequence, which its rank has, chooses experts. Returns whether seq is dealt out. */
static bool draw_parts(Text *t)
{
    const int axis = draw_int(t->rng, t->n);
    if (!has_dim(t->r, "part") || draw_int(t->rng, 2))
        return false;
    t->used |= 1 << axis;
    t->ways |= WAY(parts);
    t->s = arena_printf(t->a, "%s; part %s; seq %s", t->s, axis_name(t, axis), axis_name(t, axis));
    return true;
}

static const char *const no_order = "";

/* How the dim of positions lies: "~" in zigzag order, "^" by an exchange of heads. */
static void note_positions(Text *t, const char *order, bool heads, bool two)
{
    t->ways |= t->scans ? WAY(scan) : 0;
    if (!t->attends)
        return;
    t->ways |= *order && !(heads && !two) ? WAY(zigzag) : 0;
    t->ways |= heads ? two ? WAY(groups) : WAY(heads) : WAY(ring);
}

static void draw_rule(Text *t, Name dim, int *pieces)
{
    const Module *m = t->r->t.m;
    const int one = draw_int(t->rng, t->n), two = draw_int(t->rng, t->n);
    if ((t->thirds >> one & 1) || (two > one && t->thirds >> two & 1))
        return;
    const bool along = dim == m->seq.name, attends = along && t->attends;
    const bool zigzag = (attends || (along && t->scans)) && draw_int(t->rng, 2);
    const bool heads = attends && !t->scans && draw_int(t->rng, 3) == 0;
    const char *order = zigzag ? "~" : no_order, *last = heads ? "^" : order;
    const bool also = two > one && zigzag && draw_int(t->rng, 4) == 0;
    const bool experts = multiplies_rows(module_fn(m, "train")->body, dim);
    const bool sent = two <= one && !(t->used >> one & 1) && experts && draw_int(t->rng, 2);
    const bool bound = sent && !t->r->half && !t->stages && draw_int(t->rng, 2);
    t->used |= 1 << one | (two > one ? 1 << two : 0);
    t->ways |= two > one ? WAY(two_axes) : 0;
    t->ways |= dim == m->batch.name ? WAY(batch) : 0;
    t->ways |= experts ? bound ? WAY(bound) : sent ? WAY(rows) : WAY(gathered) : 0;
    t->ways |= !experts && !strcmp(name_str(m->names, dim), "experts") ? WAY(slots) : 0;
    t->ways |= t->r->padded && !strcmp(name_str(m->names, dim), "kv_heads") ? WAY(dim_padded) : 0;
    if (along)
        note_positions(t, order, heads, two > one);
    t->s = arena_printf(t->a, "%s; %s %s%s%s", t->s, name_str(m->names, dim), axis_name(t, one),
                        two > one ? order : last,
                        bound  ? draw_int(t->rng, 2) ? ">1" : ">1.5"
                        : sent ? ">"
                               : "");
    if (two > one)
        t->s = arena_printf(t->a, "%s %s%s", t->s, axis_name(t, two),
                            heads  ? "^"
                            : also ? "~"
                                   : "");
    /* Files have parameters as neighbours, so that only positions are in blocks (decide/pieces.c).
     */
    if (along && !t->scans && !heads && (two > one ? !also : !zigzag) && draw_int(t->rng, 2)) {
        ++*pieces;
        t->ways |= WAY(blocks);
        t->s = arena_printf(t->a, "%s/2", t->s);
    }
}

static void draw_rules(Text *t)
{
    NameList dims = dims_of(&t->r->t);
    int pieces = 0;
    draw_peers(t);
    const bool dealt = draw_parts(t);
    for (size_t i = 0; i < dims.n; i++) {
        const size_t k = (size_t)draw_int(t->rng, (int)i + 1);
        const Name at = dims.data[i];
        dims.data[i] = dims.data[k];
        dims.data[k] = at;
    }
    for (size_t i = 0; i < dims.n; i++) {
        const Name d = dims.data[i];
        const bool there = (dealt && d == t->r->t.m->seq.name) ||
                           (t->peers && (d == t->r->t.m->batch.name ||
                                         !strcmp(name_str(t->r->t.m->names, d), "experts")));
        if (draw_int(t->rng, 3) && !there)
            draw_rule(t, d, &pieces);
    }
    if (!pieces && draw_int(t->rng, 3))
        return;
    const bool forth = draw_int(t->rng, 2), back = draw_int(t->rng, 2);
    t->ways |= WAY(pieces) | (forth || back ? WAY(turns) : 0);
    t->s = arena_printf(t->a, "%s; pieces 2%s 2%s", t->s, forth ? "t" : "", back ? "t" : "");
}

static void draw_rest(Text *t)
{
    static const char *const classes[] = {"state", "grads", "params"};
    static const uint64_t ways[] = {0, WAY(state), WAY(grads), WAY(params)};
    const int max = draw_int(t->rng, 4), axis = draw_int(t->rng, t->n);
    for (int c = 0; c < max; c++)
        t->s = arena_printf(t->a, "%s; %s %s", t->s, classes[c], axis_name(t, axis));
    t->ways |= ways[max] | (max && t->thirds >> axis & 1 ? WAY(class_padded) : 0);
    if (t->r->half && max && max < 3 && draw_int(t->rng, 2)) {
        t->s = arena_printf(t->a, "%s; once", t->s);
        t->ways |= WAY(once);
    } else if (draw_int(t->rng, 3) == 0) {
        t->s = arena_printf(t->a, "%s; offload %d", t->s, 1 + draw_int(t->rng, 63));
        t->ways |= WAY(offload);
    }
    if (draw_int(t->rng, 3) == 0) {
        t->s = arena_printf(t->a, "%s; buckets", t->s);
        t->ways |= WAY(buckets);
    }
    static const uint64_t ahead[6] = {WAY(ahead), WAY(ahead_apart)};
    t->ways |= ahead[draw_int(t->rng, 6)];
}

const char *random_layout(const Reference *r, Arena *a, uint64_t *rng, uint64_t *ways)
{
    Text t = {.r = r, .a = a, .rng = rng, .s = "", .attends = has(r, OP_attention)};
    t.scans = r->t.m->layout.scans.n > 0;
    draw_mesh(&t);
    draw_stages(&t);
    draw_rules(&t);
    draw_rest(&t);
    *ways = t.ways;
    return t.s;
}

/* ---- a model, a precision, a layout ---------------------------------------------------------- */

static void open_drawn(Reference *r, const Source *s, int64_t at_once, Precision p, uint64_t *rng)
{
    const bool other = draw_int(rng, 2);
    switch (p) {
    case DOUBLE:
    case PRECISIONS:
        open_reference(r, &s->small, at_once);
        break;
    case HALVES:
    case WIDE:
        open_reference_in(r, &s->small, at_once, other ? DT_bf16 : DT_f16);
        break;
    case FP8:
        open_reference_in(r, &s->small, at_once, other ? DT_e4m3 : DT_e5m2);
        break;
    case TILES:
        open_reference_scaled(r, &s->small, at_once, DT_e4m3, other ? SCALES_tile : SCALES_mx);
        break;
    }
    r->wide = p == WIDE;
    r->padded = s->can & PADS ? "kv_all=4" : NULL;
}

static uint64_t of_precision(Precision p)
{
    static const uint64_t ways[PRECISIONS] = {
        [HALVES] = WAY(halves), [WIDE] = WAY(wide), [FP8] = WAY(fp8), [TILES] = WAY(tiles)};
    return ways[p];
}

void draw_layout(Drawn *d, Way wanted, uint64_t *rng)
{
    enum { TRIES = 4000 };
    const Source *s;
    do
        s = &sources[draw_int(rng, SOURCES)];
    while ((s->can & asks[wanted].needs) != asks[wanted].needs);
    const Precision p = precision_of(wanted, rng);
    *d = (Drawn){0};
    open_drawn(&d->r, s, 4 << draw_int(rng, 3), p, rng);
    /* Plans decide what is kept, and what is beside a table: gathers of all layers are, often. */
    const bool any = wanted == WAY_kept || of_precision(p) >> wanted & 1;
    const uint64_t has = wanted == WAY_beside ? WAY(once) : (uint64_t)1 << wanted;
    for (int k = 0; k < TRIES; k++) {
        d->spec = random_layout(&d->r, d->r.t.a, rng, &d->ways);
        if (any || (d->ways & has && (wanted != WAY_beside || strstr(d->spec, "pp="))))
            break;
    }
    d->ways |= of_precision(p);
    /* Stages keep the same values, all of them. */
    if (!strstr(d->spec, "pp=") && (wanted == WAY_kept || draw_int(rng, 4) == 0)) {
        d->r.keep = 1 + (uint64_t)draw_int(rng, 1 << 30);
        d->ways |= WAY(kept);
    }
}
