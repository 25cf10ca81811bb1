/* nest_tile.c - tiles for pointwise kernels whose operands lie across each other; see nest.h.
 *
 * A loop along which an operand has a stride reads a line of memory for each element, and if the
 * stride is a power of two the lines soon push each other out of the caches: a transposing copy
 * then moves a gigabyte a second. In a tile every line is used as a whole while it is there. */
#include "plan/nest.h"

#include <string.h>

enum {
    LINE_BYTES = 64,
    LINE_MIN = 16,    /* elements of a line that a tile has */
    SHORT = 4,        /* a loop with fewer iterations is not worth it */
    SMALL = 4096,     /* an operand of so many elements stays in the nearest cache */
    BLOCK_MAX = 4096, /* elements of a block */
};

static int64_t loop_stride(const Nest *n, const Operand *o, int loop)
{
    int d = operand_dim(o, nest_loop(n, loop)->dim.name);
    return d < 0 ? 0 : o->stride[d];
}

/* Marks arguments that are read at other indices than those of the loops: below an op that moves.
 */
static void mark_moved(const Module *m, const Region *body, Value v, bool moves, bool *moved)
{
    const Ins *i = m->values.data[v].def;
    for (size_t k = 0; k < body->args.n; k++)
        if (body->args.data[k] == v)
            moved[k] |= moves;
    if (!i || i->home != body)
        return;
    moves |= i->op == OP_rename || i->op == OP_pick || i->op == OP_window || i->op == OP_rotate ||
             i->op == OP_reindex;
    for (uint32_t k = 0; k < i->nin; k++)
        mark_moved(m, body, i->in[k], moves, moved);
}

static bool tiles_at_all(const Nest *n, const Kernel *k)
{
    int loops = n->nouter + n->ninner;
    if (n->kind != NEST_map || k->phase != PHASE_whole || k->columns || loops < 2)
        return false;
    for (int i = 0; i < loops; i++)
        if (nest_loop(n, i)->rotated)
            return false;
    for (int i = k->nin; i < k->noperands; i++) /* what is overwritten lies as what is read */
        if (k->alias[i] >= 0 &&
            memcmp(k->operand[i].stride, k->operand[k->alias[i]].stride,
                   (size_t)k->operand[i].type.rank * sizeof *k->operand[i].stride) != 0)
            return false;
    return nest_loop(n, loops - 1)->dim.size >= SHORT;
}

/* The loops of an operand but the innermost, by rising stride; how many. */
static int by_stride(const Nest *n, const Operand *o, int *loop)
{
    int count = 0;
    for (int i = 0; i + 1 < n->nouter + n->ninner; i++) {
        if (loop_stride(n, o, i) == 0 || nest_loop(n, i)->dim.size == 1)
            continue;
        int at = count++;
        for (; at > 0 && loop_stride(n, o, loop[at - 1]) > loop_stride(n, o, i); at--)
            loop[at] = loop[at - 1];
        loop[at] = i;
    }
    return count;
}

static bool known_dims(const Nest *n, const Operand *o)
{
    for (int i = 0; i < o->type.rank; i++)
        if (nest_dim(n, o->type.dims[i].name) < 0)
            return false;
    return true;
}

/* Enlarges the tiles so that they have whole lines of an operand that lies across the innermost
 * loop. False: it does not, or has no neighbours anywhere. */
static bool want_lines(const Nest *n, const Operand *o, int64_t *tile)
{
    int last = n->nouter + n->ninner - 1, loop[NEST_DIMS], count = by_stride(n, o, loop);
    int64_t line = 1, want = LINE_BYTES / dtype_bytes(o->type.dtype), piece[NEST_DIMS];
    if (!known_dims(n, o) || type_elements(&o->type) < SMALL || loop_stride(n, o, last) <= 1)
        return false;
    want = want < LINE_MIN ? LINE_MIN : want;
    int used = 0;
    while (used < count && line < want && loop_stride(n, o, loop[used]) == line) {
        int64_t size = nest_loop(n, loop[used])->dim.size, more = (want + line - 1) / line;
        piece[used] = size < more ? size : more;
        line *= piece[used];
        if (piece[used++] < size)
            break;
    }
    if (line < SHORT)
        return false;
    for (int i = 0; i < used; i++)
        if (tile[loop[i]] < piece[i])
            tile[loop[i]] = piece[i];
    return true;
}

/* The tiled loops in order, the innermost with what room there is. False: too many, too large. */
static bool cut_loops(const Nest *n, const int64_t *tile, NestTile *t)
{
    int loops = n->nouter + n->ninner;
    int64_t others = 1, last = nest_loop(n, loops - 1)->dim.size;
    for (int i = 0; i + 1 < loops; i++) {
        if (!tile[i])
            continue;
        if (t->n == NEST_TILED - 1)
            return false;
        t->loop[t->n] = i;
        t->size[t->n++] = tile[i];
        others *= tile[i];
    }
    if (others * LINE_MIN > BLOCK_MAX)
        return false;
    int64_t max = BLOCK_MAX / others, size = 64;
    while (size > max)
        size /= 2;
    t->loop[t->n] = loops - 1;
    t->size[t->n++] = last <= size + size / 2 && last <= max ? last : last < size ? last : size;
    t->units = 1;
    for (int i = 0, at = 0; i < loops; i++) {
        int64_t of = nest_loop(n, i)->dim.size;
        bool tiled = at < t->n && t->loop[at] == i;
        if (tiled)
            t->pieces[at] = (of + t->size[at] - 1) / t->size[at];
        t->units *= tiled ? t->pieces[at++] : of;
    }
    return true;
}

static void turn(const Nest *n, const Operand *o, const NestTile *t, NestTurned *u)
{
    for (int i = 0; i < t->n; i++)
        u->at[i] = loop_stride(n, o, t->loop[i]);
    for (int i = 0; i + 1 < t->n; i++) {
        if (!u->at[i])
            continue;
        int at = u->n++;
        for (; at > 0 && u->at[u->tiled[at - 1]] < u->at[i]; at--)
            u->tiled[at] = u->tiled[at - 1];
        u->tiled[at] = i;
    }
    u->block = t->size[t->n - 1];
    u->in[t->n - 1] = 1;
    u->line = 1;
    bool lines = true;
    for (int i = u->n - 1; i >= 0; i--) {
        int k = u->tiled[i];
        u->in[k] = u->block;
        u->block *= t->size[k];
        lines &= u->at[k] == u->line;
        u->run += lines;
        u->line *= lines ? t->size[k] : 1;
        lines &= t->size[k] == nest_loop(n, t->loop[k])->dim.size;
    }
}

NestTile nest_tile(const Module *m, const Nest *n, const Kernel *k)
{
    NestTile t = {0};
    const Region *body = k->ins->body;
    int64_t tile[NEST_DIMS] = {0};
    bool moved[MAX_OPERANDS] = {0}, across[MAX_OPERANDS] = {0}, any = false;
    if (!tiles_at_all(n, k))
        return t;
    for (size_t i = 0; i < body->results.n; i++)
        mark_moved(m, body, body->results.data[i], false, moved);
    for (int i = 0; i < k->noperands; i++)
        any |= across[i] = (i >= k->nin || !moved[i]) && want_lines(n, &k->operand[i], tile);
    if (!any || !cut_loops(n, tile, &t))
        return (NestTile){0};
    for (int i = 0; i < k->noperands; i++)
        if (across[i])
            turn(n, &k->operand[i], &t, &t.turned[i]);
    return t;
}

double kernel_turns(const Module *m, const Kernel *k)
{
    Nest n = nest_of(m, k);
    NestTile t = nest_tile(m, &n, k);
    double bytes = 0;
    for (int i = 0; i < k->noperands; i++)
        bytes += t.turned[i].n ? (double)type_bytes(&k->operand[i].type) : 0;
    return bytes;
}
