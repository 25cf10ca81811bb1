/* pad.c - dims that are stored larger than they are; padding.c leaves the padding out of sums.
 *
 *   pad vocab to 50304     the padding is zero, has no probability, and is in no file
 *   pad none               nothing is padded
 *
 * A dim that the rules split, and that the ranks do not divide, is padded to parts of one size,
 * where that is at most a fourth more. Which dims these are is seen by elaborating the program, and
 * whether it does with one of them what padding forbids (MG0221) by elaborating it once more.
 *
 * A program for a GPU pads the vocabulary where the rows of its logits would not
 * begin at multiples of 16 bytes. Tensor cores' kernels load words of 16 bytes, and cuBLASLt has
 * none of its fast kernels for other leading dimensions. The size is then the next multiple of 128,
 * the columns of a tile, or, where that is more than a thirty-second more, of the 16 bytes alone.
 */
#include "grammar/config.h"

#include <string.h>

enum { WORD = 16 /* bytes */, TILE = 128, MOST = 32 /* of the size, one part */ };

static void resize(Elab *e, Name dim, int64_t size)
{
    dim_info(e, dim)->size = size;
    Sym *sym = map_find(&e->globals, dim);
    sym->dims.dim[0].size = size;
}

/* Does an input of the model have the dim? Data have no padding. */
static bool is_of_input(const Elab *e, Name dim)
{
    for (size_t i = 0; i < e->ast->items.n; i++) {
        const Node *model = e->ast->items.data[i];
        for (size_t k = 0; model->kind == N_MODEL && k < model->list.n; k++)
            for (size_t d = 0; d < model->list.data[k]->list.n; d++)
                if (model->list.data[k]->list.data[d]->name == dim)
                    return true;
    }
    return false;
}

static void pad(Elab *e, const Node *n, bool chosen)
{
    const Node *name = n->kind == N_PAD ? node_bare(n->a) : NULL;
    if (!name || name->kind != N_NAME) {
        fail(e, n->span, 330, "pad takes a dim and its size, or none");
        help(e, "pad vocab to 50304");
        return;
    }
    Dim d;
    int64_t size;
    if (!resolve_dim(e, name, &d) || !config_integer(e, n->b, 1, &size, 303))
        return;
    const DimInfo *info = dim_info(e, d.name);
    if (size < info->valid || size > INT32_MAX) {
        fail(e, n->b->span, 330, "'%s' is %lld and cannot be padded to %lld", text(e, d.name),
             (long long)info->valid, (long long)size);
        return;
    }
    if (is_of_input(e, d.name)) {
        fail(e, name->at, 330, "'%s' is a dim of the input, which is not padded", text(e, d.name));
        return;
    }
    if (!chosen)
        return;
    e->padding_said |= d.name == e->vocab;
    dim_info(e, d.name)->pad_said = true;
    resize(e, name->name, size);
}

/* A layout's own paddings come after those of what it extends; `none` takes back those before. */
void read_pads(Elab *e, const NodeList *pads, bool chosen)
{
    size_t from = 0;
    for (size_t i = 0; i < pads->n; i++)
        if (pads->data[i]->kind == N_NAME && strcmp(text(e, pads->data[i]->name), "none") == 0)
            from = i + 1;
    e->padding_said |= chosen && from;
    e->no_padding |= chosen && from;
    for (size_t i = 0; i < pads->n; i++)
        if (i + 1 != from)
            pad(e, pads->data[i], chosen && i >= from);
}

/* ---- what nobody said -------------------------------------------------------------------------
 */

/* The next multiple of both. */
static int64_t rounded(int64_t size, int64_t a, int64_t b)
{
    int64_t m = a;
    while (m % b)
        m += a;
    return (size + m - 1) / m * m;
}

static Padded *padded_dim(const PaddedList *pads, Name dim)
{
    for (size_t k = 0; k < pads->n; k++)
        if (pads->data[k].dim == dim)
            return &pads->data[k];
    return NULL;
}

/* Ranks that a dim is split on, by the rules for it. */
static int64_t ranks_of(const Module *m, Name dim)
{
    int64_t n = 1;
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        for (int k = 0; rule->dim == dim && k < rule->n; k++)
            n *= m->layout.mesh.data[rule->axis[k]].size;
    }
    return n;
}

static bool is_on_gpu(const Elab *e)
{
    const ElaborateOptions *o = e->options;
    return o->is_gpu && o->is_gpu(o->who, text(e, e->module->layout.device));
}

/* A fourth of a dim may be padding. More has to be asked for. */
static bool is_cheap(const Padded *p)
{
    return p->size <= INT32_MAX && (p->size - p->valid) * 4 <= p->valid;
}

/* The vocabulary, for the rows of logits on a GPU; unless the ranks alone made it much larger. */
static void pad_rows(Elab *e, PaddedList *pads)
{
    const Module *m = e->module;
    if (!e->vocab || e->padding_said || !is_on_gpu(e))
        return;
    const int64_t bytes = dtype_bytes(m->train.half ? m->train.half : m->train.compute);
    const int64_t valid = dim_info(e, e->vocab)->valid, ranks = ranks_of(m, e->vocab);
    const int64_t words = WORD / bytes * ranks; /* elements of whole words on each rank */
    if (valid % words == 0)
        return;
    int64_t size = rounded(valid, words, TILE);
    if ((size - valid) * MOST > valid)
        size = rounded(valid, words, 1);
    const Padded even = {e->vocab, valid, rounded(valid, ranks, 1), 0};
    if (size <= INT32_MAX && is_cheap(&even))
        vec_push(e->arena, pads, ((Padded){e->vocab, valid, size, 0}));
}

/* Is it a dim of the model, that a layout's rules may split and padding may be added to? */
static bool may_pad(Elab *e, Name dim)
{
    const Module *m = e->module;
    const DimInfo *d = dim_info(e, dim);
    return d && !d->local && !d->pad_said && !is_of_input(e, dim) && dim != m->layout.pipeline.dim;
}

/* May some dim come out uneven? */
static bool may_be_uneven(Elab *e)
{
    const Module *m = e->module;
    for (size_t r = 0; r < m->layout.rules.n && !e->no_padding; r++) {
        const Name dim = m->layout.rules.data[r].dim;
        if (dim && may_pad(e, dim) && dim_info(e, dim)->size % ranks_of(m, dim))
            return true;
    }
    return false;
}

/* The size of parts that are alike on so many ranks. On a GPU a part is a number of tiles, or of
 * words, where that is little more. */
static int64_t even_size(Elab *e, int64_t valid, int64_t ranks)
{
    const Module *m = e->module;
    const int64_t bytes = dtype_bytes(m->train.half ? m->train.half : m->train.compute);
    const int64_t part[] = {TILE, WORD / bytes};
    for (int k = 0; k < 2 && is_on_gpu(e); k++) {
        const int64_t size = rounded(valid, part[k] * ranks, 1);
        if ((size - valid) * MOST <= valid)
            return size;
    }
    return rounded(valid, ranks, 1);
}

/* Dims of a type that the rules split, and whose size does not divide evenly: enlarged. */
static void even_out(Elab *e, const Module *m, const Type *t, PaddedList *pads)
{
    bool fixed[MAX_RANK] = {false};
    Axes axes[MAX_RANK];
    mesh_walk(m, t->dims, t->rank, fixed, axes);
    for (int i = 0; i < t->rank; i++) {
        const Name dim = t->dims[i].name;
        const int64_t unit = axes[i] ? mesh_unit(m, mesh_ruled(m, dim, axes[i])) : 1;
        Padded *p = padded_dim(pads, dim);
        const int64_t ranks = p ? rounded(1, p->ranks, unit) : unit;
        if (p && p->size % unit)
            *p = (Padded){dim, p->valid, even_size(e, p->valid, ranks), ranks};
        else if (!p && t->dims[i].size % unit && may_pad(e, dim))
            vec_push(e->arena, pads,
                     ((Padded){dim, t->dims[i].size, even_size(e, t->dims[i].size, ranks), ranks}));
    }
}

void pad_as_tried(Elab *e, const PaddedList *pads)
{
    for (size_t k = 0; k < pads->n; k++)
        resize(e, pads->data[k].dim, pads->data[k].size);
    for (size_t k = 0; k < pads->n; k++)
        vec_push(e->module->arena, &e->module->layout.padded, pads->data[k]);
}

void pad_by_default(Elab *e, TryPadding *try, void *ctx)
{
    PaddedList rows = {0}, even = {0}, one = {0}, pads = {0};
    pad_rows(e, &rows);
    if (rows.n && try(ctx, &rows))
        pads = rows;
    const Module *m = may_be_uneven(e) ? try(ctx, &pads) : NULL;
    for (size_t v = 1; m && v < m->values.n; v++)
        even_out(e, m, &m->values.data[v].type, &even);
    for (size_t k = 0; k < even.n; k++) {
        one.n = 0;
        for (size_t i = 0; i < pads.n; i++)
            vec_push(e->arena, &one, pads.data[i]);
        vec_push(e->arena, &one, even.data[k]);
        if (is_cheap(&even.data[k]) && try(ctx, &one))
            vec_push(e->arena, &pads, even.data[k]);
    }
    pad_as_tried(e, &pads);
}
