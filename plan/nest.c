/* nest.c - chooses the loops of a kernel; see nest.h. */
#include "plan/nest.h"

#include <string.h>

enum {
    BLOCK = 4096,         /* elements of a unit when one long loop is cut */
    INNER = 256,          /* a unit should have at least so many */
    GROUP = 64,           /* elements of a row that one loop sums, whatever dims they are of */
    GRAIN_BYTES = 1 << 17 /* what a thread should have to do before it is worth waking: ~10 us */
};

const NestLoop *nest_loop(const Nest *n, int i)
{
    return i < n->nouter ? &n->outer[i] : &n->inner[i - n->nouter];
}

int nest_dim(const Nest *n, Name d)
{
    for (int i = 0; i < n->ndims; i++)
        if (n->dim[i].name == d)
            return i;
    return -1;
}

int operand_dim(const Operand *o, Name d)
{
    return type_find(&o->type, d);
}

static void add_dim(Nest *n, Dim d)
{
    if (nest_dim(n, d.name) < 0 && n->ndims < NEST_DIMS)
        n->dim[n->ndims++] = d;
}

static void add_type(Nest *n, const Type *t)
{
    for (int i = 0; i < t->rank; i++)
        add_dim(n, t->dims[i]);
}

/* Dims whose index itself matters somewhere in the body: never merged. */
static bool sensitive(const Region *body, Name d)
{
    for (size_t i = 0; i < body->ins.n; i++) {
        const Ins *ins = body->ins.data[i];
        const Attrs *a = &ins->attrs;
        if ((ins->op == OP_iota || ins->op == OP_rotate || ins->op == OP_rename ||
             ins->op == OP_pick) &&
            (a->dim.name == d || a->to.name == d))
            return true;
        if (ins->op == OP_window && a->along.name == d)
            return true;
        if (ins->op == OP_reindex && (a->dim.name == d || dims_have(&a->over, d)))
            return true;
    }
    return false;
}

static bool rotated(const Region *body, Name d)
{
    for (size_t i = 0; i < body->ins.n; i++)
        if (body->ins.data[i]->op == OP_rotate && body->ins.data[i]->attrs.dim.name == d)
            return true;
    return false;
}

/* The dims the reductions of a body run over. */
static DimList reduced_dims(const Region *body)
{
    DimList l = {0};
    for (size_t i = 0; i < body->ins.n; i++) {
        const Ins *ins = body->ins.data[i];
        if (ins->op == OP_sum || ins->op == OP_rmax)
            for (int k = 0; k < ins->attrs.over.n && l.n < MAX_RANK; k++)
                if (!dims_have(&l, ins->attrs.over.dim[k].name))
                    l.dim[l.n++] = ins->attrs.over.dim[k];
    }
    return l;
}

/* The operand whose memory order the loops follow: the one with most elements; of two alike, a
 * result, whose stores should be contiguous. */
static const Operand *leader(const Kernel *k)
{
    const Operand *best = NULL;
    int64_t max = -1;
    for (int i = 0; i < k->noperands; i++) {
        int64_t n = type_elements(&k->operand[i].type);
        if (n > max || (n == max && i >= k->nin)) {
            max = n;
            best = &k->operand[i];
        }
    }
    return best;
}

/* Order of the iterated dims: those the leader lacks first, then the leader's by falling stride; in
 * row kernels the reduced dims last, in partial sums first. */
static void order_dims(Nest *n, const Operand *lead, const DimList *reduced, bool partial)
{
    for (int i = 1; i < n->ndims; i++)
        for (int j = i; j > 0; j--) {
            Dim a = n->dim[j - 1], b = n->dim[j];
            int ia = lead ? operand_dim(lead, a.name) : -1,
                ib = lead ? operand_dim(lead, b.name) : -1;
            int64_t sa = ia < 0 ? INT64_MAX : lead->stride[ia];
            int64_t sb = ib < 0 ? INT64_MAX : lead->stride[ib];
            bool grouped = n->kind == NEST_row || partial;
            bool ra = grouped && dims_have(reduced, a.name);
            bool rb = grouped && dims_have(reduced, b.name);
            if (ra != rb ? rb != partial : sa >= sb)
                break;
            n->dim[j - 1] = b;
            n->dim[j] = a;
        }
}

/* May dim a (outer) and dim b (next inner) be walked by one loop? */
static bool mergeable(const Kernel *k, const Region *body, Dim a, Dim b)
{
    if (sensitive(body, a.name) || sensitive(body, b.name))
        return false;
    for (int i = 0; i < k->noperands; i++) {
        const Operand *o = &k->operand[i];
        int ia = operand_dim(o, a.name), ib = operand_dim(o, b.name);
        if (ia < 0 && ib < 0)
            continue;
        if (ia < 0 || ib < 0 || o->stride[ia] != o->stride[ib] * b.size)
            return false;
    }
    return true;
}

/* Are the dims from `group` on one after another in every operand? */
static bool merges(const Nest *n, const Kernel *k, const Region *body, int group)
{
    for (int i = group + 1; i < n->ndims; i++)
        if (!mergeable(k, body, n->dim[i - 1], n->dim[i]))
            return false;
    return true;
}

/* One loop for the dims from `group` on, however they lie. */
static void one_loop(Nest *n, int group, NestLoop *loops, int *count)
{
    int64_t size = 1;
    for (int i = n->ndims - 1; i >= group; i--) {
        n->loop[i] = (int8_t)*count;
        n->below[i] = size;
        size *= n->dim[i].size;
    }
    loops[(*count)++] =
        (NestLoop){.dim = {.name = n->dim[n->ndims - 1].name, .size = size}, .reduced = true};
}

/* Row kernels on a host: the reduced dims come last, in their own order; the first of those that
 * one loop walks. */
static int row_group(Nest *n, const Region *body, const DimList *reduced)
{
    int64_t size = 1;
    int group = n->ndims;
    for (int i = 0; i < reduced->n; i++)
        n->dim[n->ndims - reduced->n + i] = reduced->dim[i];
    while (group > n->ndims - reduced->n && size < GROUP &&
           (group == n->ndims || !rotated(body, n->dim[group - 1].name))) {
        size *= n->dim[--group].size;
        if (rotated(body, n->dim[group].name))
            break;
    }
    return group;
}

/* group: the first dim of a row kernel's last loop, or -1 where what fits is merged. */
static void make_loops(Nest *n, const Kernel *k, const Region *body, const DimList *reduced,
                       int group, NestLoop *loops, int *count)
{
    for (int i = 0; i < n->ndims; i++) {
        if (i == group && !merges(n, k, body, group)) {
            one_loop(n, group, loops, count);
            return;
        }
        bool apart = group >= 0 && i <= group;
        bool red = n->kind != NEST_map && dims_have(reduced, n->dim[i].name);
        NestLoop l = {n->dim[i], red, rotated(body, n->dim[i].name)};
        NestLoop *last = *count ? &loops[*count - 1] : NULL;
        if (last && last->reduced == red && i != n->first_column && !(apart && red) &&
            mergeable(k, body, n->dim[i - 1], n->dim[i])) {
            n->loop[i - 1] = -1;
            last->dim = (Dim){.name = n->dim[i].name, .size = last->dim.size * n->dim[i].size};
            n->loop[i] = (int8_t)(*count - 1);
        } else {
            n->loop[i] = (int8_t)*count;
            loops[(*count)++] = l;
        }
    }
}

/* The dim that the innermost ones, `columns` elements in all, begin with; 0: none but perhaps the
 * first. */
static int column_begin(const Nest *n, int64_t columns)
{
    int64_t inner = 1;
    int i = n->ndims;
    while (i > 0 && inner < columns)
        inner *= n->dim[--i].size;
    return inner == columns ? i : 0;
}

/* How many of the loops are outer: as many as leave a unit enough to do, all before the first that
 * must be inner. */
static int outer_loops(const Nest *n, const Kernel *k, const NestLoop *loops, int count)
{
    int64_t inner = 1;
    int outer = 0;
    switch (n->kind) {
    case NEST_row:
    case NEST_col:
        if (n->kind == NEST_col && k->phase == PHASE_partial)
            return 0;
        while (outer < count && !loops[outer].reduced && !loops[outer].rotated)
            outer++;
        if (n->kind == NEST_col && outer == count)
            outer = count - 1 > 0 ? count - 1 : 0;
        return outer;
    case NEST_map:
    case NEST_combine:
        outer = count;
        while (outer > 0 && (outer == count || inner < INNER))
            inner *= loops[--outer].dim.size;
        for (int i = 0; i < outer; i++)
            if (loops[i].rotated)
                outer = i;
        return outer;
    }
    return 0;
}

static void count_units(Nest *n, const Kernel *k)
{
    n->units = 1;
    if (k->phase == PHASE_partial) {
        n->units = k->chunks;
        while (n->nlead < n->ninner && n->inner[n->nlead].reduced)
            n->nlead++;
        /* Something must be left for the innermost loop; one loop alone is walked in its share. */
        if (n->nlead == n->ninner && n->nlead > 1)
            n->nlead--;
        return;
    }
    for (int i = 0; i < n->nouter; i++)
        n->units *= n->outer[i].dim.size;
    NestLoop *last = n->ninner ? &n->inner[n->ninner - 1] : NULL;
    if (k->columns)
        n->units *= k->columns / MG_TILE;
    else if ((n->kind == NEST_map || n->kind == NEST_combine) && n->ninner == 1 && !last->rotated &&
             last->dim.size > 2 * BLOCK) {
        n->block = BLOCK;
        n->blocks = (last->dim.size + BLOCK - 1) / BLOCK;
        n->units *= n->blocks;
    }
}

static Nest make_nest(const Module *m, const Kernel *k, bool host)
{
    Nest n = {0};
    const Region *body = k->ins->body;
    const char *kind = name_str(m->names, k->ins->attrs.kind);
    DimList reduced = reduced_dims(body);
    n.kind = k->phase == PHASE_combine  ? NEST_combine
             : strcmp(kind, "row") == 0 ? NEST_row
             : strcmp(kind, "col") == 0 ? NEST_col
                                        : NEST_map;
    for (size_t i = 0; i < body->results.n; i++)
        add_type(&n, type_of(m, body->results.data[i]));
    if (n.kind != NEST_map && n.kind != NEST_combine)
        for (int i = 0; i < reduced.n; i++)
            add_dim(&n, reduced.dim[i]);
    Kernel partial = *k; /* a combine steps through its results, the partials likewise */
    if (n.kind == NEST_combine) {
        partial.noperands = 0;
        for (int i = k->noperands - k->nout; i < k->noperands; i++)
            partial.operand[partial.noperands++] = k->operand[i];
        partial.nin = 0;
        reduced.n = 0;
    } else if (k->phase == PHASE_partial) {
        partial.noperands = k->nin; /* the workspaces are dense in the results' order: see below */
        for (int i = k->nin; i < k->noperands; i++)
            partial.operand[partial.noperands++] = k->operand[i];
    }
    order_dims(&n, leader(&partial), &reduced, k->phase == PHASE_partial);
    NestLoop loops[NEST_DIMS];
    int count = 0;
    n.first_column = column_begin(&n, k->columns);
    int group = host && n.kind == NEST_row ? row_group(&n, body, &reduced) : -1;
    make_loops(&n, &partial, body, &reduced, group, loops, &count);
    n.nouter = k->columns && count ? count - 1 : outer_loops(&n, k, loops, count);
    n.ninner = count - n.nouter;
    memcpy(n.outer, loops, (size_t)n.nouter * sizeof *loops);
    memcpy(n.inner, loops + n.nouter, (size_t)n.ninner * sizeof *loops);
    count_units(&n, k);
    return n;
}

Nest nest_of(const Module *m, const Kernel *k)
{
    return make_nest(m, k, false);
}

Nest nest_on_host(const Module *m, const Kernel *k)
{
    return make_nest(m, k, true);
}

void kernel_nest(const Module *m, Kernel *k)
{
    Nest n = nest_on_host(m, k);
    double bytes = 0;
    for (int i = 0; i < k->noperands; i++)
        bytes += (double)type_bytes(&k->operand[i].type);
    NestTile tile = nest_tile(m, &n, k);
    k->units = tile.n ? tile.units : n.units;
    double per_unit = bytes / (double)k->units;
    k->grain = per_unit >= GRAIN_BYTES ? 1 : (int64_t)((double)GRAIN_BYTES / (per_unit + 1)) + 1;
}

bool kernel_goes_by_rows(const Module *m, const Kernel *k, int c)
{
    const Operand *o = &k->operand[c];
    int64_t expect = 1;
    Nest n = nest_of(m, k);
    if (n.kind != NEST_map || k->phase != PHASE_whole || n.ninner != 1 ||
        n.inner[0].dim.size != k->columns || o->type.rank != n.ndims)
        return false;
    for (int i = n.ndims; i-- > 0;) {
        const int at = operand_dim(o, n.dim[i].name);
        if (at < 0 || (o->stride[at] != expect && n.dim[i].size > 1))
            return false;
        expect *= n.dim[i].size;
    }
    for (int i = 0; i < n.nouter + n.ninner; i++)
        if (nest_loop(&n, i)->rotated)
            return false;
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

bool nest_wide(const Nest *n, const Type *t)
{
    for (int i = 0; i < n->ndims; i++) {
        int loop = n->loop[i];
        for (int k = i; loop < 0 && k < n->ndims; k++)
            loop = n->loop[k];
        if (loop >= n->nouter && type_find(t, n->dim[i].name) >= 0)
            return true;
    }
    return false;
}

bool nest_reduces(const Ins *i)
{
    return i->op == OP_sum || i->op == OP_rmax;
}

int nest_stages(const Region *body, int *stage)
{
    int max = 0;
    for (size_t i = 0; i < body->ins.n; i++) {
        const Ins *ins = body->ins.data[i];
        int s = 0;
        for (uint32_t k = 0; k < ins->nin; k++)
            s = stage[ins->in[k]] > s ? stage[ins->in[k]] : s;
        s += nest_reduces(ins);
        for (uint32_t k = 0; k < ins->nout; k++)
            stage[ins->out[k]] = s;
        max = s > max ? s : max;
    }
    return max;
}

bool nest_one_walk(const Module *m, const Nest *n, const Region *body, const int *stage)
{
    bool one = true, any = false;
    for (size_t i = 0; i < body->ins.n; i++) {
        const Ins *ins = body->ins.data[i];
        one &= !nest_reduces(ins) || (ins->op == OP_rmax && stage[ins->out[0]] == 1);
    }
    for (size_t r = 0; r < body->results.n; r++) {
        const Value v = body->results.data[r];
        const bool wide = nest_wide(n, type_of(m, v));
        one &= !wide || !stage[v];
        any |= wide;
    }
    return one && any;
}
