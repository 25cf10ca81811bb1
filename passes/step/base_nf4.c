/* base_nf4.c - matrices of a frozen base in NF4, two numbers a byte.
 *
 *   w: f32[layers, out, in]
 *     c: u8[layers, out, in.run, in.block, in.half]     codes
 *     a: dynamic8[layers, out, in.run, in.block]        absmax of blocks, in units of s, off o
 *     s: f32[layers, out, in.run]                       scales
 *     o: f32[layers]                                    offset
 *
 *   %absmax = add (mul (cast %a) %s) %o
 *   %wide = mul (nf4 (cast %c) (iota in.pair)) %absmax
 *   %w = merge (cast %wide)           ... -> in
 *
 * The numbers are those of bitsandbytes' Linear4bit (nf4, compress_statistics): a block is
 * BASE_BLOCK elements behind each other in a row of the file's matrix, BASE_NESTED blocks behind
 * each other have one scale, and a matrix one offset. How they lie here is our own. Byte j of the
 * 32 of a block has elements j and j + 32, so that neighbours stay neighbours. The scale is stored
 * once for each run of blocks that have it for certain and lie in one row: so everything has dims,
 * which a layout splits as it splits the matrix, and no part of a rank needs another rank's. */
#include "ir/external.h"
#include "passes/dim_rules.h"
#include "passes/step/base.h"

#include <string.h>

/* ---- dims ---------------------------------------------------------------------------------- */

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
static bool dims_of(Module *m, const Tensor *t, Lie *l)
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
    *l = (Lie){.cut = external_dim(t, at),
               .inner = n - 1 - at,
               .stacked = t->stacked,
               .parts = BASE_PARTS};
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

/* ---- types --------------------------------------------------------------------------------- */

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
    for (int k = 0; k < BASE_PARTS; k++) {
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

bool base_nf4_lie(Module *m, const Tensor *t, Lie *l)
{
    static const char *const ends[BASE_PARTS] = {"", ".absmax", ".nested_absmax", ".offset"};
    if (!dims_of(m, t, l))
        return false;
    types_of(t, l);
    for (int k = 0; k < BASE_PARTS; k++) {
        l->part[k] = (BasePart)(BASE_codes + k);
        l->end[k] = ends[k];
    }
    return true;
}

/* ---- what the codes stand for -------------------------------------------------------------- */

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

Value base_nf4_matrix(Builder *b, const Lie *l, const Value *part, DType to)
{
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
