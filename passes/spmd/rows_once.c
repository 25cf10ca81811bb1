/* rows_once.c - what a rule `experts -> node (once), ep` asks of a layout and a program.
 *
 *   x: [batch@ep.node, hidden]     what a rank has of positions
 *   x: [batch@ep, hidden] = all_gather x {node}      with those of its peers, once each
 *   z: [experts@node, batch@ep, slot, hidden] = dispatch x     what its peers' experts have of them
 *   z: [experts@node.ep, batch, slot, hidden] = all_to_all z {ep}
 *   ... products, and back: y: [batch@ep, hidden]{partial: node} = combine z
 *   y: [batch@ep.node, hidden] = reduce_scatter y {node}
 *
 * Each rank has a peer in each place of node, of the same place on all other axes. Where node is
 * machines, a row crosses the network once for each other machine, and within a machine once for
 * each of its experts. Numbers are those of a rule without the word: slots are given to whole
 * groups before any row moves.
 *
 * That holds if experts lie on node first, so that neighbours are of one machine; if no rule takes
 * node for something else where rows are sent; and if positions are split over node, within all
 * else that they are split over: gathered over node, they are neighbours again. */
#include "passes/spmd/rows_once.h"

#include "ir/mesh.h"
#include "passes/walk.h"

static const char *named(const Module *m, const LayoutRule *r)
{
    return r->of ? class_names[r->of] : name_str(m->names, r->dim);
}

static bool refuse(const Module *m, const LayoutRule *r, const char *what, const char *help)
{
    diag_error(m->diag, r->span, 348, "rows of '%s' are not sent once over %s: %s", named(m, r),
               mesh_axes_text(m, r->once), what);
    if (help)
        diag_help(m->diag, "%s", help);
    return false;
}

/* The first dispatch to these experts in a region; NULL. */
static const Ins *sends(const Region *r, Name experts)
{
    const Ins *found = NULL;
    for (size_t k = 0; k < r->ins.n && !found; k++) {
        const Ins *i = r->ins.data[k];
        found = i->op == OP_dispatch && i->attrs.dim.name == experts ? i : NULL;
        if (!found && i->body)
            found = sends(i->body, experts);
    }
    return found;
}

/* The first dispatch to rows that are sorted; NULL. */
static const Ins *sends_sorted(const Region *r)
{
    const Ins *found = NULL;
    for (size_t k = 0; k < r->ins.n && !found; k++) {
        const Ins *i = r->ins.data[k];
        found = i->op == OP_dispatch && i->attrs.sorted ? i : NULL;
        if (!found && i->body)
            found = sends_sorted(i->body);
    }
    return found;
}

/* "dp, ep, node": a rule's axes, those of `last` behind the others. */
static const char *with_last(const Module *m, const LayoutRule *r, Axes last)
{
    const char *all = "";
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < r->n; k++)
            if ((last >> r->axis[k] & 1) == (Axes)turn)
                all = arena_printf(m->arena, "%s%s%s", all, *all ? ", " : "",
                                   name_str(m->names, m->layout.mesh.data[r->axis[k]].name));
    return all;
}

/* How positions lie on the axes: each within all else that its dim is split over. Of several rules
 * the first one has an axis. */
static bool positions_fit(const Module *m, const LayoutRule *r, const Type *x)
{
    Axes split = 0;
    for (size_t k = 0; k < m->layout.rules.n; k++) {
        const LayoutRule *of = &m->layout.rules.data[k];
        Axes own = 0;
        if (of->of || of == r || type_find(x, of->dim) < 0)
            continue;
        for (int a = 0; a < of->n; a++)
            own |= (Axes)1 << of->axis[a];
        own &= r->once & ~split;
        split |= own;
        if (!own)
            continue;
        const Axes last = (Axes)1 << of->axis[of->n - 1];
        if (own != last)
            return refuse(m, r,
                          arena_printf(m->arena,
                                       "'%s' is split over it outside of other axes, and positions "
                                       "that are gathered there would be no neighbours",
                                       name_str(m->names, of->dim)),
                          arena_printf(m->arena, "%s -> %s", name_str(m->names, of->dim),
                                       with_last(m, of, own)));
    }
    if (r->once & ~split)
        return refuse(m, r,
                      arena_printf(m->arena,
                                   "no rule splits positions over %s, and each of its %lld ranks "
                                   "would compute the same of them",
                                   mesh_axes_text(m, r->once & ~split),
                                   (long long)mesh_size(m, r->once & ~split)),
                      arena_printf(m->arena, "a rule of '%s' that has %s as its last axis",
                                   name_str(m->names, m->batch.name),
                                   mesh_axes_text(m, r->once & ~split)));
    return true;
}

/* A rule before this one that has an axis of `once`. */
static const LayoutRule *earlier(const Module *m, const LayoutRule *r)
{
    for (const LayoutRule *of = m->layout.rules.data; of != r; of++)
        for (int a = 0; a < of->n && !of->of; a++)
            if (r->once >> of->axis[a] & 1)
                return of;
    return NULL;
}

static bool is_possible(const Module *m, const LayoutRule *r)
{
    const Ins *to = NULL;
    bool grouped = false;
    for (size_t f = 0; f < m->fns.n && !to; f++) {
        to = sends(m->fns.data[f]->body, r->dim);
        grouped = !to && rows_multiplied(m->fns.data[f]->body, r->dim);
        to = grouped ? sends_sorted(m->fns.data[f]->body) : to;
    }
    if (!to)
        return refuse(m, r, "nothing is dispatched to experts along that dim", NULL);
    const LayoutRule *before = earlier(m, r);
    if (before)
        return refuse(
            m, r,
            arena_printf(m->arena, "the rule of '%s' takes the axis before", named(m, before)),
            "the rule of experts comes first");
    for (int k = 1; k < r->n; k++)
        if ((r->once >> r->axis[k] & 1) && !(r->once >> r->axis[k - 1] & 1))
            return refuse(m, r, "experts are split over another axis outside of it",
                          "in the mesh and in the rule axes of 'once' come before the others");
    if (grouped && !r->rows)
        return refuse(m, r, "they are sorted by expert, and no axis of the rule says `(rows)`",
                      "experts -> node (once), ep (rows)");
    return positions_fit(m, r, type_of(m, to->in[0]));
}

bool rows_once_is_possible(const Module *m)
{
    for (size_t k = 0; k < m->layout.rules.n; k++) {
        const LayoutRule *r = &m->layout.rules.data[k];
        if (!r->once)
            continue;
        if (r->of) {
            diag_error(m->diag, r->span, 348,
                       "'once' in a rule for '%s': it is for the dim of experts that rows are sent "
                       "to",
                       class_names[r->of]);
            return false;
        }
        if (!is_possible(m, r))
            return false;
    }
    return true;
}
