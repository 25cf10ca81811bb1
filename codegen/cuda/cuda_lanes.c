/* cuda_lanes.c - chooses the elements that a thread computes together.
 *
 * A thread computes 16 bytes of the widest operand at a time, along the innermost loop; of columns
 * that is the widest operand that is read. An operand is read or written as a vector under two
 * conditions: its elements are contiguous along that loop, and its place is aligned in every
 * action. All other operands are accessed element by element.
 *
 * A map that reads an operand that is contiguous along another loop than the lanes', as a
 * transposition does, shares a warp's threads out over both: so many are neighbours along that loop
 * that they read a sector of 32 bytes together (of numbers of 8 bits half of one), and the others
 * along the lanes', where each has 16 bytes. */
#include "codegen/cuda/cuda_gen.h"

#include <string.h>

enum { VECTOR_BYTES = 16, ROW_MIN = 32 /* vectors of a row, so that a warp is busy */ };

static int64_t stride_along(const CudaGen *g, const Operand *o, int loop)
{
    for (int i = 0; i < g->c.nest.ndims; i++) {
        int d = g->c.nest.loop[i] == loop ? operand_dim(o, g->c.nest.dim[i].name) : -1;
        if (d >= 0)
            return o->stride[d];
    }
    return 0;
}

static bool divides(int64_t bytes, const Place *at)
{
    bool good = at->offset % bytes == 0;
    for (int i = 0; i < at->nloops; i++)
        good &= at->loop[i].stride % bytes == 0;
    return good;
}

static bool program_aligned(const CudaGen *g, const Plan *p, const Program *f, int o, int64_t bytes)
{
    bool good = true;
    for (size_t i = 0; f && i < f->actions.n; i++) {
        const Action *a = &f->actions.data[i];
        if (a->kind == ACT_kernel && &p->kernels.data[a->kernel] == g->c.k)
            good &= divides(bytes, &a->operand[o].at);
    }
    return good;
}

/* Does a vector begin wherever one could, at each of the operand's places? */
static bool is_aligned(const CudaGen *g, const Plan *p, int o, int lanes)
{
    const Operand *x = &g->c.k->operand[o];
    int64_t width = dtype_bytes(x->type.dtype), bytes = width * lanes;
    for (int d = 0; d < x->type.rank; d++)
        if (x->stride[d] != 1 && x->stride[d] * width % bytes)
            return false;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        if (!program_aligned(g, p, p->programs[k], o, bytes))
            return false;
    return true;
}

bool cuda_in_order(const Region *body)
{
    for (size_t k = 0; k < body->ins.n; k++)
        if (body->ins.data[k]->op == OP_sum && body->ins.data[k]->exact)
            return true;
    return false;
}

/* The loop along which most is read that is contiguous along it, but the lanes'. */
static void read_across(CudaGen *g)
{
    enum { WARP = 32, SECTOR = 32, MOST = 16 /* neighbours, so that writes are whole sectors */ };
    const Nest *n = &g->c.nest;
    int64_t most = 0;
    for (int o = 0; o < g->c.k->nin && n->kind == NEST_map && g->lanes > 1; o++)
        for (int i = 0; i < n->nouter + n->ninner; i++) {
            const Operand *x = &g->c.k->operand[o];
            const int width = (int)dtype_bytes(x->type.dtype);
            const int span = SECTOR / width < MOST ? SECTOR / width : MOST;
            const int64_t words = nest_loop(n, g->lane_loop)->dim.size / g->lanes;
            if (i == g->lane_loop || stride_along(g, x, i) != 1 ||
                nest_loop(n, i)->dim.size % span || words % (WARP / span) ||
                type_bytes(&x->type) <= most)
                continue;
            most = type_bytes(&x->type);
            g->across = i;
            g->span = span;
        }
}

void cuda_lanes(CudaGen *g, const Plan *p)
{
    const Nest *n = &g->c.nest;
    int loops = n->nouter + n->ninner, last = loops - 1, widest = 0;
    g->lanes = 1;
    g->across = -1;
    if (!loops || n->kind == NEST_combine || (n->kind == NEST_row && last < n->nouter))
        return;
    g->lane_loop = last;
    const bool sums = n->kind == NEST_col;
    const int operands = sums ? g->c.k->nin : g->c.k->noperands;
    if (sums && nest_loop(n, last)->reduced && cuda_in_order(g->c.body))
        return;
    for (int o = 0; o < operands; o++) {
        int width = (int)dtype_bytes(g->c.k->operand[o].type.dtype);
        if (stride_along(g, &g->c.k->operand[o], last) == 1 && width > widest)
            widest = width;
    }
    int lanes = widest ? VECTOR_BYTES / widest : 1;
    lanes = lanes > LANES_MAX ? LANES_MAX : lanes;
    int64_t size = nest_loop(&g->c.nest, last)->dim.size, row = 1;
    for (int i = n->nouter; i < loops; i++)
        row *= nest_loop(&g->c.nest, i)->dim.size;
    if (lanes < 2 || size % lanes || (n->kind == NEST_row && row < (int64_t)ROW_MIN * lanes))
        return;
    for (int o = 0; o < operands; o++) {
        g->aligned[o] = is_aligned(g, p, o, lanes);
        g->vector[o] = g->aligned[o] && stride_along(g, &g->c.k->operand[o], last) == 1;
        if (g->vector[o])
            g->lanes = lanes;
    }
    read_across(g);
}

bool cuda_along_lanes(const CudaGen *g, Name d)
{
    for (int i = 0; i < g->c.nest.ndims; i++)
        if (g->c.nest.loop[i] == g->lane_loop && g->c.nest.dim[i].name == d)
            return true;
    return false;
}

void cuda_forget_moved(CudaGen *g)
{
    g->moved.n = g->counted.n = 0;
    g->first = NULL;
}

void cuda_new_lanes(CudaGen *g)
{
    memset(g->wide, 0, sizeof g->wide);
    memset(g->turned, 0, sizeof g->turned);
    cuda_forget_moved(g);
    g->turn_at = g->turn_to = NULL;
}

CodeEnv cuda_at_lane(CudaGen *g, const CodeEnv *first, const char *lane)
{
    CodeEnv e = *first;
    for (int i = 0; i < first->n; i++)
        if (e.index[i] && cuda_along_lanes(g, e.dim[i]))
            e.index[i] = arena_printf(g->c.a, "(%s + %s)", first->index[i], lane);
    return e;
}

CodeEnv cuda_lane(CudaGen *g, const CodeEnv *first, int lane)
{
    g->lane = lane;
    for (int i = 0; i < first->n && lane == 0; i++)
        if (first->index[i] && cuda_along_lanes(g, first->dim[i]))
            g->first = first->index[i];
    return lane ? cuda_at_lane(g, first, arena_printf(g->c.a, "%d", lane)) : *first;
}
