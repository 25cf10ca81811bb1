/* pad.c - dims that are stored larger than they are.
 *
 *   pad vocab to 50304     the padding is zero, has no probability, and is in no file
 *   pad none               nothing is padded
 *
 * Without either, a program for a GPU pads the vocabulary where the rows of its logits would not
 * begin at multiples of 16 bytes. Tensor cores' kernels load words of 16 bytes, and cuBLASLt has
 * none of its fast kernels for other leading dimensions. The size is then the next multiple of 128,
 * the columns of a tile, or, where that is more than a thirty-second more, of the 16 bytes alone. A
 * model that does with the vocabulary what padding forbids (MG0221) is left as it is: whether it
 * does is seen by elaborating it (elaborate.c). */
#include "grammar/config.h"

#include <string.h>

enum { WORD = 16 /* bytes */, TILE = 128, MOST = 32 /* of the size, one part */ };

static void resize(Elab *e, Name dim, int64_t size)
{
    dim_info(e, dim)->size = size;
    Sym *sym = map_find(&e->globals, dim);
    sym->dims.dim[0].size = size;
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
    if (d.name == e->module->batch.name || d.name == e->module->seq.name) {
        fail(e, name->at, 330, "'%s' is a dim of the input, which is not padded", text(e, d.name));
        return;
    }
    if (!chosen)
        return;
    e->padding_said |= d.name == e->vocab;
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
    for (size_t i = 0; i < pads->n; i++)
        if (i + 1 != from)
            pad(e, pads->data[i], chosen && i >= from);
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

/* The next multiple of both. */
static int64_t rounded(int64_t size, int64_t a, int64_t b)
{
    int64_t m = a;
    while (m % b)
        m += a;
    return (size + m - 1) / m * m;
}

bool pad_by_default(Elab *e)
{
    const Module *m = e->module;
    const ElaborateOptions *o = e->options;
    if (!e->vocab || e->padding_said || !o->is_gpu || !o->is_gpu(o->who, text(e, m->layout.device)))
        return false;
    const int64_t bytes = dtype_bytes(m->train.half ? m->train.half : m->train.compute);
    const int64_t valid = dim_info(e, e->vocab)->valid, ranks = ranks_of(m, e->vocab);
    const int64_t words = WORD / bytes * ranks; /* elements of whole words on each rank */
    if (valid % words == 0 || (valid % ranks && valid % (WORD / bytes) == 0))
        return false;
    int64_t size = rounded(valid, words, TILE);
    if ((size - valid) * MOST > valid)
        size = rounded(valid, words, 1);
    if (size > INT32_MAX)
        return false;
    resize(e, e->vocab, size);
    e->module->layout.padded = size;
    return true;
}

void undo_padding(Elab *e)
{
    resize(e, e->vocab, dim_info(e, e->vocab)->valid);
    e->module->layout.padded = 0;
}
