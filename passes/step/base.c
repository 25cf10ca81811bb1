/* base.c - pass base: the frozen matrices of layers, beside an adapter, are kept in fewer bits.
 *
 *   before:  @train(w: f32[layers, out, in], ...) {
 *              repeat layers (.., %h = cast %w) { .. dot %x, %h }
 *   after:   @train(c: u8[layers, ...], a: f32[layers, ...], ...) {
 *              repeat layers (.., %c, %a, ..) {
 *                %h = ...      of %c and %a: base_nf4.c, base_int8.c
 *                .. dot %x, %h }
 *
 * The matrix that codes stand for is written where it is read first, layer by layer, and no
 * derivative keeps it: backward it is computed once more.
 *
 * why here: all functions are written, and no matrix is written any more; before narrow and round,
 * which keep and copy what is still a matrix, and before shard, which moves the codes. */
#include "passes/step/base.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

#include <string.h>

typedef struct Basing {
    Module *m;
    Fn *fn;
    const Lie *lie; /* of the matrix at hand */
    ValueMap map;   /* what stood for it, and what stands for it now */
} Basing;

/* The kinds, by FrozenBase. */
static const struct {
    bool (*lie)(Module *m, const Tensor *t, Lie *l);
    Value (*matrix)(Builder *b, const Lie *l, const Value *part, DType to);
} kind_of[BASE_count] = {
    [BASE_nf4] = {base_nf4_lie, base_nf4_matrix}, [BASE_int8] = {base_int8_lie, base_int8_matrix}};

/* ---- tensors ------------------------------------------------------------------------------ */

/* Is it a matrix of layers that is not trained? */
static bool is_base(const Module *m, const Tensor *t)
{
    return m->train.base && t->frozen && !t->adapter && !t->slot && !t->follows && t->stacked &&
           !t->numbered && t->external_rank == 2;
}

/* Part k of the matrix t, which is codes from now on. */
static Tensor part_of(Module *m, const Tensor *t, const Lie *l, int k)
{
    const int rows = t->merge[0], rank = l->type[k].rank - t->stacked;
    Tensor p = *t;
    p.type = l->type[k];
    p.base = (uint8_t)l->part[k];
    for (int i = 0; i < p.type.rank; i++)
        p.valid[i] = i < t->stacked ? t->valid[i] : p.type.dims[i].size;
    for (int i = 0; i < rank; i++)
        p.order[i] = (uint8_t)(t->stacked + i);
    p.external_rank = k ? rank > 0 : 2; /* codes are rows, all else is a list */
    p.merge[0] = (uint8_t)(k ? rank : rows);
    p.merge[1] = (uint8_t)(k ? 0 : rank - rows);
    if (!k)
        return p;
    p.name = name_intern(m->names,
                         arena_printf(m->arena, "%s%s", name_str(m->names, t->name), l->end[k]));
    p.external = name_intern(
        m->names, arena_printf(m->arena, "%s%s", name_str(m->names, t->external), l->end[k]));
    p.parameter = l->tensor[k];
    p.init = INIT_const;
    p.formula = 0;
    p.a = p.b = 0;
    return p;
}

static void make_parts(Module *m, uint32_t matrix, Lie *l)
{
    const Tensor t = m->tensors.data[matrix];
    l->tensor[0] = matrix;
    for (int k = 1; k < l->parts; k++) {
        l->tensor[k] = (uint32_t)m->tensors.n;
        vec_push(m->arena, &m->tensors, part_of(m, &t, l, k));
    }
    m->tensors.data[matrix] = part_of(m, &t, l, 0);
}

/* ---- where they are read ----------------------------------------------------------------------
 */

/* A value that stood for a matrix, or for its cast to `as`, with its parts. */
typedef struct Stands {
    Value was, part[BASE_PARTS];
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
        for (int p = 0; p < w->lie->parts; p++)
            slice.part[p] = repeat_slice(w->m, loop, s->part[p]);
        lower(w, loop->body, &slice);
    }
    lower(w, loop->body, s);
}

/* An instruction that shows layers of the matrix shows those of its parts. */
static bool is_of_layers(const Basing *w, const Ins *i)
{
    const Name d = i->op == OP_window ? i->attrs.along.name : i->attrs.dim.name;
    const int at = type_find(&w->lie->type[0], d);
    return OP_AMONG(i->op, OP_window, OP_pick) && at >= 0 && at < w->lie->stacked;
}

static Stands shown(const Basing *w, Region *r, const Ins *i, const Stands *s)
{
    Stands to = {.was = i->out[0], .as = s->as};
    Builder b = builder_at(w->m, r, i);
    const Type *layers = type_of(w->m, i->out[0]);
    for (int p = 0; p < w->lie->parts; p++) {
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
            made = kind_of[m->train.base].matrix(&b, w->lie, s->part, s->as);
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
    for (int p = 0; p < w->lie->parts; p++) {
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
        fits &= kind_of[m->train.base].lie(m, &m->tensors.data[t], &l);
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
