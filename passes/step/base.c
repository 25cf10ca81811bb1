/* base.c - pass base: the frozen matrices of layers, beside an adapter, are kept in NF4.
 *
 *   before:  @train(w: f32[layers, out, in], ...) {
 *              repeat layers (.., %h = cast %w) { .. dot %x, %h }
 *   after:   @train(c: u8[layers, out, in.run, in.block, in.half], a: dynamic8[layers, out, in.run,
 *                   in.block], s: f32[layers, out, in.run], o: f32[layers], ...) {
 *              repeat layers (.., %c, %a, %s, %o) {
 *                %absmax = add (mul (cast %a) %s) %o
 *                %wide = mul (nf4 (cast %c) (iota in.pair)) %absmax
 *                %h = merge (cast %wide)           ... -> in
 *                .. dot %x, %h }
 *
 * The numbers are those of bitsandbytes' Linear4bit (nf4, compress_statistics): a block is
 * BASE_BLOCK elements behind each other in a row of the file's matrix, BASE_NESTED blocks behind
 * each other have one scale, and a matrix one offset. How they lie here is our own. Byte j of the
 * 32 of a block has elements j and j + 32, so that neighbours stay neighbours. The scale is stored
 * once for each run of blocks that have it for certain and lie in one row: so everything has dims,
 * which a layout splits as it splits the matrix, and no part of a rank needs another rank's.
 *
 * The matrix that codes stand for is written where it is read first, layer by layer, and no
 * derivative keeps it: backward it is computed once more.
 *
 * why here: all functions are written, and no matrix is written any more; before narrow and round,
 * which keep and copy what is still a matrix, and before shard, which moves the codes. */
#include "ir/external.h"
#include "passes/dim_rules.h"
#include "passes/passes.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

#include <string.h>

enum { PARTS = 4 /* codes, absmax, scale, offset */ };

/* How a matrix lies in blocks. `cut` is the dim in which blocks begin: of size run block within,
 * where `within` of it, times the dims further in, are a block. */
typedef struct Lie {
    Dim cut, run, block, half, pair; /* size 1 of run and block: there is none */
    int inner;                       /* dims of a row further in than `cut`, in external order */
    uint32_t tensor[PARTS];
    Type type[PARTS];
} Lie;

typedef struct Basing {
    Module *m;
    Fn *fn;
    const Lie *lie; /* of the matrix at hand */
    ValueMap map;   /* what stood for it, and what stands for it now */
} Basing;

/* ---- matrices ----------------------------------------------------------------------------- */

/* Is it a matrix of layers that is not trained? */
static bool is_base(const Module *m, const Tensor *t)
{
    return m->train.base == BASE_nf4 && t->frozen && !t->adapter && !t->slot && !t->follows &&
           t->stacked && !t->numbered && t->external_rank == 2;
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b ? gcd(b, a % b) : a;
}

static const char *shape_text(const Module *m, const Tensor *t)
{
    return arena_printf(m->arena, "%lld x %lld", (long long)external_size(t, 0),
                        (long long)external_size(t, 1));
}

static bool no_blocks(const Module *m, const Tensor *t, const char *why)
{
    diag_error(m->diag, t->span, 350, "'%s', %s, cannot be kept in NF4: %s",
               name_str(m->names, t->external), shape_text(m, t), why);
    diag_note(m->diag, m->train.base_span, "asked for here");
    diag_help(m->diag,
              "leave out `base = nf4`, or make rows of a multiple of %d elements, whose "
              "innermost dims divide %d or are multiples of it",
              BASE_BLOCK, BASE_BLOCK);
    return false;
}

/* Dim number `place` in the order of files. */
static Dim external_dim(const Tensor *t, int place)
{
    return t->type.dims[t->order[place]];
}

/* Finds the dim in which blocks begin; its place, or -1. */
static int cut_place(const Module *m, const Tensor *t, int64_t *within)
{
    const int n = t->type.rank - t->stacked, row = n - t->merge[1];
    int64_t behind = 1;
    for (int p = n - 1; p >= row; p--) {
        const int64_t size = external_dim(t, p).size;
        if (behind * size < BASE_BLOCK) {
            behind *= size;
            continue;
        }
        *within = BASE_BLOCK / behind;
        if (BASE_BLOCK % behind == 0 && size % *within == 0)
            return p;
        break;
    }
    no_blocks(m, t,
              arena_printf(m->arena, "blocks of %d elements do not make up its rows", BASE_BLOCK));
    return -1;
}

static bool cuts_blocks(const Module *m, const Tensor *t, Dim d, int64_t parts)
{
    diag_error(m->diag, t->span, 351,
               "'%s' is kept in NF4, and its dim '%s' of %lld is split into %lld parts, which end "
               "inside of blocks of %d",
               name_str(m->names, t->external), name_str(m->names, d.name), (long long)d.size,
               (long long)parts, BASE_BLOCK);
    diag_note(m->diag, m->train.base_span, "asked for here");
    diag_help(m->diag,
              "split it over fewer ranks, or split another dim, or leave out `base = nf4`");
    return false;
}

/* The dims that the dim with the blocks becomes. */
static bool lie_of(Module *m, const Tensor *t, Lie *l)
{
    int64_t within = 0;
    const int n = t->type.rank - t->stacked;
    if (t->part_of)
        return no_blocks(m, t, "it is a part of a tensor of files");
    for (int i = t->stacked; i < t->type.rank; i++)
        if (t->valid[i] != t->type.dims[i].size)
            return no_blocks(m, t, "it is padded");
    const int at = cut_place(m, t, &within);
    if (at < 0)
        return false;
    *l = (Lie){.cut = external_dim(t, at), .inner = n - 1 - at};
    const int64_t blocks = l->cut.size / within, parts = rules_unit(m, l->cut);
    for (int p = at + 1; p < n; p++)
        if (rules_unit(m, external_dim(t, p)) > 1)
            return cuts_blocks(m, t, external_dim(t, p), rules_unit(m, external_dim(t, p)));
    if (blocks % parts)
        return cuts_blocks(m, t, l->cut, parts);
    const int64_t alike = gcd(blocks / parts, BASE_NESTED);
    const char *by = arena_printf(m->arena, "run%lld", (long long)(within * alike));
    l->run = dim_part(m, l->cut, by, blocks / alike);
    by = arena_printf(m->arena, "block%lld", (long long)within);
    l->block = dim_part(m, l->cut, by, alike);
    by = arena_printf(m->arena, "half%lld", (long long)within);
    l->half = dim_part(m, l->cut, by, within / 2);
    by = arena_printf(m->arena, "pair%lld", (long long)within);
    l->pair = dim_part(m, l->cut, by, 2);
    const Name outer = l->run.size > 1 ? l->run.name : l->block.name;
    if (parts > 1)
        rules_extend(m, l->cut.name, &outer, 1);
    if (t->type.rank + (l->run.size > 1) + (l->block.size > 1) + 1 > MAX_RANK)
        return no_blocks(m, t, "it would have over 8 dims");
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------ */

static void add(Type *t, Dim d)
{
    if (d.size > 1)
        t->dims[t->rank++] = d;
}

/* Codes, absmax, scales and offset of a matrix, as stored: in the order of files. */
static void types_of(const Tensor *t, Lie *l)
{
    const int n = t->type.rank - t->stacked, cut = n - 1 - l->inner;
    int64_t alike = l->block.size;
    int last = cut; /* scales have the dims before this place, and the runs */
    for (int k = 0; k < PARTS; k++) {
        l->type[k] = (Type){.rank = t->stacked};
        for (int i = 0; i < t->stacked; i++)
            l->type[k].dims[i] = t->type.dims[i];
    }
    l->type[0].dtype = DT_u8;
    l->type[1].dtype = DT_dynamic8;
    l->type[2].dtype = l->type[3].dtype = t->type.dtype;
    /* Whole rows may have one scale, where a row's blocks do. */
    while (l->run.size == 1 && last > 0 &&
           BASE_NESTED % (alike * external_dim(t, last - 1).size) == 0)
        alike *= external_dim(t, --last).size;
    for (int p = 0; p < cut; p++)
        for (int k = 0; k < (p < last ? 3 : 2); k++)
            l->type[k].dims[l->type[k].rank++] = external_dim(t, p);
    for (int k = 0; k < 3; k++)
        add(&l->type[k], l->run);
    for (int k = 0; k < 2; k++)
        add(&l->type[k], l->block);
    add(&l->type[0], l->half);
    for (int p = cut + 1; p < n; p++)
        l->type[0].dims[l->type[0].rank++] = external_dim(t, p);
}

/* Part k of the matrix t, which is codes from now on. */
static Tensor part_of(Module *m, const Tensor *t, const Lie *l, int k)
{
    static const char *const ends[PARTS] = {"", ".absmax", ".nested_absmax", ".offset"};
    const int rows = t->merge[0], rank = l->type[k].rank - t->stacked;
    Tensor p = *t;
    p.type = l->type[k];
    p.base = (uint8_t)(BASE_codes + k);
    for (int i = 0; i < p.type.rank; i++)
        p.valid[i] = i < t->stacked ? t->valid[i] : p.type.dims[i].size;
    for (int i = 0; i < rank; i++)
        p.order[i] = (uint8_t)(t->stacked + i);
    p.external_rank = k ? rank > 0 : 2; /* of codes half of each row, of all else a list */
    p.merge[0] = (uint8_t)(k ? rank : rows);
    p.merge[1] = (uint8_t)(k ? 0 : rank - rows);
    if (!k)
        return p;
    p.name =
        name_intern(m->names, arena_printf(m->arena, "%s%s", name_str(m->names, t->name), ends[k]));
    p.external = name_intern(
        m->names, arena_printf(m->arena, "%s%s", name_str(m->names, t->external), ends[k]));
    p.parameter = l->tensor[k];
    p.init = INIT_const;
    p.formula = 0;
    p.a = p.b = 0;
    return p;
}

static void make_parts(Module *m, uint32_t matrix, Lie *l)
{
    const Tensor t = m->tensors.data[matrix];
    types_of(&t, l);
    l->tensor[0] = matrix;
    for (int k = 1; k < PARTS; k++) {
        l->tensor[k] = (uint32_t)m->tensors.n;
        vec_push(m->arena, &m->tensors, part_of(m, &t, l, k));
    }
    m->tensors.data[matrix] = part_of(m, &t, l, 0);
}

/* ---- what the codes stand for -----------------------------------------------------------------
 */

static Value merged(Builder *b, Value x, Dim outer, Dim inner)
{
    const Attrs a = {.to = outer, .dim = inner};
    return outer.size > 1 ? build(b, OP_merge, &a, 1, &x) : x;
}

static Value pointwise(Builder *b, Op op, Value x, Value y, Type t)
{
    const Value in[] = {x, y};
    return build_typed(b, op, NULL, 2, in, 1, &t, NULL)->out[0];
}

/* A layer's matrix, of these slices, in the type `to`. */
static Value widened(const Basing *w, Builder *b, const Value *part, DType to)
{
    const Lie *l = w->lie;
    const DType wide = b->m->train.compute;
    const Value codes = build_cast(b, part[0], wide), units = build_cast(b, part[1], wide);
    const Value absmax = build2(b, OP_add, build2(b, OP_mul, units, part[2]), part[3]);
    Type t = *type_of(b->m, codes);
    const int at = t.rank - l->inner - (l->half.size > 1);
    memmove(&t.dims[at + 1], &t.dims[at], sizeof *t.dims * (size_t)(t.rank++ - at));
    t.dims[at] = l->pair;
    const Value number = pointwise(b, OP_nf4, codes, build_iota(b, wide, l->pair), t);
    Value x = build_cast(b, pointwise(b, OP_mul, number, absmax, t), to);
    const Dim in = l->half.size > 1 ? l->half : l->pair;
    Dim d = l->cut;
    d.size = in.size;
    x = build(b, OP_rename, &(Attrs){.dim = in, .to = d}, 1, &x);
    if (l->half.size > 1) {
        x = merged(b, x, l->pair, d);
        d.size *= 2;
    }
    x = merged(b, x, l->block, d);
    d.size *= l->block.size;
    return merged(b, x, l->run, d);
}

/* ---- where they are read ----------------------------------------------------------------------
 */

/* A value that stood for a matrix, or for its cast to `as`, with its parts. */
typedef struct Stands {
    Value was, part[PARTS];
    DType as;
} Stands;

static void lower(Basing *w, Region *r, const Stands *s);

typedef struct Looking {
    Value v;
    bool found;
} Looking;

static void look(void *ctx, Value *use)
{
    Looking *l = ctx;
    l->found |= *use == l->v;
}

static bool reads(Ins *i, Value v)
{
    Looking l = {v, false};
    each_use(i, look, &l);
    return l.found;
}

/* A loop takes slices of the parts, too. */
static void lower_loop(Basing *w, Ins *loop, const Stands *s)
{
    const uint32_t nin = loop->nin;
    for (uint32_t k = (uint32_t)loop->attrs.carried; k < nin; k++) {
        if (loop->in[k] != s->was)
            continue;
        Stands slice = {.was = loop->body->args.data[k], .as = s->as};
        for (int p = 0; p < PARTS; p++)
            slice.part[p] = repeat_slice(w->m, loop, s->part[p]);
        lower(w, loop->body, &slice);
    }
    lower(w, loop->body, s);
}

/* An instruction that shows layers of the matrix shows those of its parts. */
static bool is_of_layers(const Basing *w, const Ins *i)
{
    const Name d = i->op == OP_window ? i->attrs.along.name : i->attrs.dim.name;
    return OP_AMONG(i->op, OP_window, OP_pick) && type_find(&w->lie->type[3], d) >= 0;
}

static Stands shown(const Basing *w, Region *r, const Ins *i, const Stands *s)
{
    Stands to = {.was = i->out[0], .as = s->as};
    Builder b = builder_at(w->m, r, i);
    const Type *layers = type_of(w->m, i->out[0]);
    for (int p = 0; p < PARTS; p++) {
        Type t = *type_of(w->m, s->part[p]);
        const Name d = i->op == OP_window ? i->attrs.along.name : i->attrs.dim.name;
        if (i->op == OP_window)
            t.dims[type_find(&t, d)] = layers->dims[type_find(layers, d)];
        else
            t = type_without(&t, d);
        to.part[p] = build_typed(&b, i->op, &i->attrs, 1, &s->part[p], 1, &t, NULL)->out[0];
    }
    return to;
}

/* Reads the parts in region r wherever it, or a region in it, read the matrix. */
static void lower(Basing *w, Region *r, const Stands *s)
{
    Module *m = w->m;
    VEC(Stands) also = {0};
    Value made = 0;
    Ins **was = r->ins.data;
    const size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = was[k];
        const bool slices = i->op == OP_repeat && reads(i, s->was);
        if (slices) {
            lower_loop(w, i, s);
        } else if (i->op == OP_cast && i->in[0] == s->was) {
            Stands as = *s;
            as.was = i->out[0];
            as.as = type_of(m, i->out[0])->dtype;
            vec_push(m->arena, &also, as);
        } else if (reads(i, s->was) && is_of_layers(w, i)) {
            vec_push(m->arena, &also, shown(w, r, i, s));
        } else if (reads(i, s->was) && !made) {
            Builder b = builder_at(m, r, i);
            made = widened(w, &b, s->part, s->as);
            map_set(m, &w->map, s->was, made);
        }
        vec_push(m->arena, &r->ins, i);
    }
    for (size_t k = 0; k < also.n; k++)
        lower(w, r, &also.data[k]);
}

static void read_mapped(void *ctx, Value *use)
{
    *use = map_get(ctx, *use);
}

/* The function has the parts in the place of the matrix. */
static void lower_function(Basing *w, size_t argument)
{
    Module *m = w->m;
    Region *body = w->fn->body;
    Stands s = {.was = body->args.data[argument], .as = m->train.compute};
    for (int p = 0; p < PARTS; p++) {
        const Tensor *t = &m->tensors.data[w->lie->tensor[p]];
        vec_push(m->arena, &w->fn->args, ((FnArg){ARG_param, w->lie->tensor[p]}));
        s.part[p] = region_arg(m, body, w->lie->type[p], t->name);
    }
    lower(w, body, &s);
    for (size_t k = argument + 1; k < body->args.n; k++) {
        body->args.data[k - 1] = body->args.data[k];
        w->fn->args.data[k - 1] = w->fn->args.data[k];
    }
    body->args.n--;
    w->fn->args.n--;
}

static void lower_in(Basing *w, uint32_t matrix)
{
    for (size_t f = 0; f < w->m->fns.n; f++) {
        w->fn = w->m->fns.data[f];
        for (size_t k = 0; k < w->fn->args.n; k++)
            if (w->fn->args.data[k].role == ARG_param && w->fn->args.data[k].tensor == matrix) {
                lower_function(w, k);
                break;
            }
    }
}

PassStatus pass_base(Job *j)
{
    Module *m = j->m;
    const uint32_t n = (uint32_t)m->tensors.n;
    Basing w = {.m = m};
    bool fits = true, any = false;
    for (uint32_t t = 0; t < n; t++) {
        Lie l;
        if (!is_base(m, &m->tensors.data[t]))
            continue;
        any = true;
        fits &= lie_of(m, &m->tensors.data[t], &l);
        if (!fits)
            continue;
        make_parts(m, t, &l);
        w.lie = &l;
        lower_in(&w, t);
    }
    for (size_t f = 0; any && fits && f < m->fns.n; f++) {
        Region *body = m->fns.data[f]->body;
        for (size_t k = 0; k < body->ins.n; k++)
            each_use(body->ins.data[k], read_mapped, &w.map);
        simplify_dce(m, m->fns.data[f], j->tmp); /* slices of what is codes now */
    }
    return fits ? PASS_ok : PASS_error;
}
