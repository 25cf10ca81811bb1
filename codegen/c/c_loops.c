/* c_loops.c - the loops of a kernel in C: over the units of a call, and inside of one unit. */
#include "codegen/c/c_gen.h"

int c_loops(const CGen *g)
{
    return g->c.nest.nouter + g->c.nest.ninner;
}

static long long size_of(const CGen *g, int loop)
{
    return nest_loop(&g->c.nest, loop)->dim.size;
}

/* ---- names -------------------------------------------------------------------------------- */

/* The loop over dim i: its own, or the loop of the neighbours that it is merged with. */
static int loop_of(const Nest *n, int i)
{
    while (i < n->ndims && n->loop[i] < 0)
        i++;
    return i < n->ndims ? n->loop[i] : -1;
}

/* "seq"; for merged dims "batch_seq", or "batch_to_hidden". Dims of size 1 are not in the name. */
static const char *loop_name(const CGen *g, int loop)
{
    const Nest *n = &g->c.nest;
    Name first = 0, last = 0;
    int dims = 0;
    for (int i = 0; i < n->ndims; i++)
        if (loop_of(n, i) == loop && n->dim[i].size > 1) {
            first = first ? first : n->dim[i].name;
            last = n->dim[i].name;
            dims++;
        }
    const char *from = name_str(g->c.m->names, first), *to = name_str(g->c.m->names, last);
    return dims < 2 ? to : arena_printf(g->c.a, "%s_%s%s", from, dims > 2 ? "to_" : "", to);
}

/* ---- indices ------------------------------------------------------------------------------ */

/* Declares an index, if anything reads it. */
static const char *index_is(CGen *g, const char *base, const char *x)
{
    bool is_read;
    const char *name = c_index(g, base, &is_read);
    if (is_read)
        code_line(&g->c, "const int64_t %s = %s;", name, x);
    return name;
}

static const char *digit(CGen *g, const char *of, int64_t below, int64_t size, bool outermost)
{
    const char *x = of;
    if (below > 1)
        x = arena_printf(g->c.a, "%s / %lld", x, (long long)below);
    return outermost ? x : arena_printf(g->c.a, "%s %% %lld", x, (long long)size);
}

/* Enters the index of a loop for each of its dims. If its dims do not lie side by side, each dim
 * has its own part of the index. */
static void enter_loop(CGen *g, int loop, const char *index, CodeEnv *e)
{
    const Nest *n = &g->c.nest;
    code_env_loop(&g->c, e, loop, index);
    for (int i = 0; i < n->ndims; i++) {
        if (n->loop[i] != loop || !n->below[i])
            continue;
        const bool outermost = n->below[i] * n->dim[i].size == size_of(g, loop);
        const char *own = n->dim[i].size == 1 ? "0"
                          : n->dim[i].size == size_of(g, loop)
                              ? index
                              : index_is(g, name_str(g->c.m->names, n->dim[i].name),
                                         digit(g, index, n->below[i], n->dim[i].size, outermost));
        for (int k = 0; k < e->n; k++)
            if (e->dim[k] == n->dim[i].name)
                e->index[k] = own;
    }
}

void c_split(CGen *g, int first, int end, const char *of, CodeEnv *e)
{
    int64_t below = 1;
    for (int i = end - 1; i >= first; i--) {
        const char *index = "0";
        if (size_of(g, i) > 1)
            index = index_is(g, loop_name(g, i), digit(g, of, below, size_of(g, i), i == first));
        enter_loop(g, i, index, e);
        below *= size_of(g, i);
    }
}

/* ---- loops -------------------------------------------------------------------------------- */

const char *c_for(CGen *g, const char *base, const char *from, const char *to)
{
    const size_t live = g->live.n;
    const char *i = c_fresh(g, base);
    code_line(&g->c, "for (int64_t %s = %s; %s < %s; %s++) {", i, from, i, to, i);
    c_open(g);
    g->live_at[g->braces - 1] = live;
    return i;
}

const char *c_open_loop(CGen *g, int loop, const char *from, const char *to, CodeEnv *e)
{
    const char *i = c_for(g, loop_name(g, loop), from, to);
    enter_loop(g, loop, i, e);
    return i;
}

void c_open_loops(CGen *g, int first, int end, int which, CodeEnv *e)
{
    for (int i = first; i < end; i++) {
        const CCut *c = &g->cut[i];
        if (c->index || (which >= 0 && nest_loop(&g->c.nest, i)->reduced != (which == 1)))
            continue;
        if (size_of(g, i) == 1)
            enter_loop(g, i, "0", e);
        else
            c_open_loop(g, i, c->from, c->to, e);
    }
}

/* ---- units -------------------------------------------------------------------------------- */

static CCut whole(CGen *g, int loop)
{
    return (CCut){1, size_of(g, loop), "0", arena_printf(g->c.a, "%lld", size_of(g, loop)), NULL};
}

/* A unit has one index of each outer loop; of the other loops, the last may be cut. */
void c_cut(CGen *g)
{
    const Nest *n = &g->c.nest;
    const NestTile tile = nest_tile(g->c.m, n, g->c.k);
    const int last = c_loops(g) - 1;
    for (int i = 0; i <= last; i++) {
        g->cut[i] = whole(g, i);
        if (tile.n || i < n->nouter) {
            g->cut[i].pieces = size_of(g, i);
            g->cut[i].size = 1;
        }
    }
    for (int t = 0; t < tile.n; t++) {
        g->cut[tile.loop[t]].pieces = tile.pieces[t];
        g->cut[tile.loop[t]].size = tile.size[t];
    }
    if (!tile.n && n->block) {
        g->cut[last].pieces = n->blocks;
        g->cut[last].size = n->block;
    } else if (g->c.k->columns) {
        g->cut[last].pieces = g->c.k->columns / MG_TILE;
        g->cut[last].size = MG_TILE;
    }
}

/* The smaller of the number x and the end of a loop, if its last piece is smaller. */
static const char *up_to(CGen *g, int loop, const char *x)
{
    const long long size = size_of(g, loop);
    return size % g->cut[loop].size
               ? arena_printf(g->c.a, "%s < %lld ? %s : %lld", x, size, x, size)
               : x;
}

/* The one loop that is cut: its pieces are neighbours, so that units [begin, end) are a part of it.
 */
static void one_cut(CGen *g, int loop, CodeEnv *e)
{
    CCut *c = &g->cut[loop];
    if (c->size == 1) {
        c->index = c_open_loop(g, loop, "begin", "end", e);
        return;
    }
    const char *end = arena_printf(g->c.a, "end * %lld", (long long)c->size);
    c->from = arena_printf(g->c.a, "begin * %lld", (long long)c->size);
    c->to = c_fresh(g, "last");
    code_line(&g->c, "const int64_t %s = %s;", c->to, up_to(g, loop, end));
}

/* The piece of a loop that is number x. */
static void piece(CGen *g, int loop, const char *x, CodeEnv *e)
{
    CCut *c = &g->cut[loop];
    const char *name = loop_name(g, loop);
    if (c->size == 1) {
        c->index = index_is(g, name, x);
        enter_loop(g, loop, c->index, e);
        return;
    }
    c->from = c_fresh(g, arena_printf(g->c.a, "%s_from", name));
    code_line(&g->c, "const int64_t %s = %s * %lld;", c->from, x, (long long)c->size);
    const char *end = arena_printf(g->c.a, "%s + %lld", c->from, (long long)c->size);
    c->to = c_fresh(g, arena_printf(g->c.a, "%s_to", name));
    code_line(&g->c, "const int64_t %s = %s;", c->to, up_to(g, loop, end));
}

void c_units(CGen *g, CodeEnv *e)
{
    int cuts = 0, only = -1, first = -1;
    for (int i = 0; i < c_loops(g); i++) {
        if (g->cut[i].pieces == 1 && g->cut[i].size == 1) {
            g->cut[i].index = "0";
            enter_loop(g, i, "0", e);
        }
        if (g->cut[i].pieces > 1) {
            first = cuts++ ? first : i;
            only = i;
        }
    }
    if (!cuts) {
        code_line(&g->c, "if (begin == end) /* of one unit */");
        code_line(&g->c, "    return;");
        return;
    }
    if (cuts == 1) {
        one_cut(g, only, e);
        return;
    }
    const char *unit = c_for(g, "unit", "begin", "end");
    int64_t below = 1;
    for (int i = c_loops(g) - 1; i >= 0; i--) {
        if (g->cut[i].pieces == 1)
            continue;
        piece(g, i, digit(g, unit, below, g->cut[i].pieces, i == first), e);
        below *= g->cut[i].pieces;
    }
}
