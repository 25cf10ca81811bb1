/* fuse_emit.c - writes a region anew: each cluster as one `fused` instruction, in an order in which
 * everything comes after what it reads, and otherwise as before. */
#include "passes/fuse/fuse.h"
#include "passes/walk.h"

#include <stdlib.h>
#include <string.h>

typedef struct Emit {
    Fuse *f;
    ValueMap inner;     /* values inside the kernel being written */
    VEC(Value) entered; /* keys to forget when it is done */
    Value *replaced;    /* per old value: the kernel's result that stands for it */
    bool *done;         /* per position that stands alone */
    Ins **old;          /* the region as it was */
    size_t old_values;
} Emit;

/* ---- one kernel ----------------------------------------------------------------------------- */

static void enter(Emit *e, Value v, Value as)
{
    map_set(e->f->m, &e->inner, v, as);
    vec_push(e->f->tmp, &e->entered, v);
}

/* An instruction of the body that computes what `def` would there: the program may compute a value
 * once for the loss and once for its gradient. 0 if there is none. A copy of the same type is there
 * to be a part of a join, and two joins have one each. */
static Value computed_already(const Emit *e, const Builder *b, const Ins *def)
{
    const Module *m = e->f->m;
    if (def->op == OP_copy && type_equal(type_of(m, def->out[0]), type_of(m, def->in[0])))
        return 0;
    for (size_t k = 0; k < b->region->ins.n; k++) {
        const Ins *i = b->region->ins.data[k];
        bool same = i->op == def->op && i->nin == def->nin &&
                    attrs_equal(i->op, &i->attrs, &def->attrs) &&
                    type_equal(type_of(m, i->out[0]), type_of(m, def->out[0]));
        for (uint32_t n = 0; same && n < def->nin; n++)
            same = i->in[n] == map_get(&e->inner, def->in[n]);
        if (same)
            return i->out[0];
    }
    return 0;
}

/* Makes v known in the body: as an operand, or computed there. */
static void provide(Emit *e, const Cluster *c, Builder *b, Value v)
{
    Fuse *f = e->f;
    if (map_get(&e->inner, v) != v)
        return;
    int at = f->at[v];
    const Ins *def = f->m->values.data[v].def;
    if (!(at >= 0 && cluster_has(c, at)) && !(def && fuse_leaf(def))) {
        const ValueInfo info = f->m->values.data[v];
        enter(e, v, region_arg(f->m, b->region, info.type, info.name));
        return;
    }
    for (uint32_t k = 0; k < def->nin; k++)
        provide(e, c, b, def->in[k]);
    Value known = computed_already(e, b, def);
    if (known) {
        enter(e, v, known);
        return;
    }
    ir_clone(b, def, &e->inner);
    vec_push(f->tmp, &e->entered, v);
}

/* The name of a kernel's result that the program does not name: that of its last op. */
static Name result_name(const Fuse *f, Value v)
{
    const ValueInfo *info = &f->m->values.data[v];
    return info->name ? info->name : name_intern(f->m->names, op_info[info->def->op].name);
}

/* The body's results, each once: which of them stands for each of the shape's. */
static int body_results(Emit *e, const Shape *s, Region *body, int which[FUSE_OPERANDS])
{
    for (int k = 0; k < s->nout; k++) {
        Value v = map_get(&e->inner, s->out[k]);
        size_t at = 0;
        while (at < body->results.n && body->results.data[at] != v)
            at++;
        which[k] = (int)at;
        if (at == body->results.n)
            vec_push(e->f->m->arena, &body->results, v);
    }
    return (int)body->results.n;
}

/* The kernel is named, placed and blamed after the last of its results. */
static Builder builder_like(Fuse *f, Region *r, const Ins *i)
{
    return (Builder){f->m, r, i->span, i->path, i->block, i->backward, i->again};
}

static void emit_cluster(Emit *e, const Cluster *c)
{
    static const char *const kinds[] = {
        [KIND_none] = "row", [KIND_map] = "map", [KIND_row] = "row", [KIND_col] = "col"};
    Fuse *f = e->f;
    const Shape *s = &c->shape;
    const Ins *last = f->m->values.data[s->out[s->nout - 1]].def;
    Region *body = region_new(f->m, f->r);
    Builder inner = builder_like(f, body, last), outer = builder_like(f, f->r, last);
    Type types[FUSE_OPERANDS];
    int which[FUSE_OPERANDS];
    e->entered.n = 0;
    for (int k = 0; k < s->nout; k++)
        provide(e, c, &inner, s->out[k]);
    Value in[FUSE_OPERANDS];
    int nin = 0;
    for (int k = 0; k < s->nin; k++) /* what a trimmed body does not read is no operand */
        if (map_get(&e->inner, s->in[k]) != s->in[k])
            in[nin++] = s->in[k];
    body->args.n = 0;
    for (int k = 0; k < nin; k++)
        vec_push(f->m->arena, &body->args, map_get(&e->inner, in[k]));
    int nout = body_results(e, s, body, which);
    for (int k = 0; k < nout; k++)
        types[k] = *type_of(f->m, body->results.data[k]);
    Attrs a = {.kind = name_intern(f->m->names, kinds[s->kind])};
    Ins *fused = build_typed(&outer, OP_fused, &a, nin, in, nout, types, body);
    for (int k = s->nout - 1; k >= 0; k--) {
        Value v = fused->out[which[k]];
        f->m->values.data[v].name = result_name(f, s->out[k]);
        e->replaced[s->out[k]] = v;
    }
    for (size_t k = 0; k < e->entered.n; k++)
        map_set(f->m, &e->inner, e->entered.data[k], 0);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* A unit is emitted as one: a cluster, or an instruction that stands alone. */
typedef struct Unit {
    const Cluster *cluster; /* NULL: `at` stands alone */
    int at, place;
    bool done;
} Unit;

static bool value_ready(const Emit *e, const Cluster *reader, Value v)
{
    const Fuse *f = e->f;
    int at = v < e->old_values ? f->at[v] : -1;
    if (at < 0 || (reader && (cluster_has(reader, at) || fuse_leaf(e->old[at]))))
        return true;
    return f->owner[at] ? e->replaced[v] != 0 : e->done[at];
}

static bool relay_ready(const Emit *e, const Ins *i)
{
    const Ins *before = ir_relay_before(i, e->old, (size_t)e->f->n);
    return !before || value_ready(e, NULL, before->out[0]);
}

static bool uses_ready(const Emit *e, const Ins *i)
{
    if (!relay_ready(e, i))
        return false;
    for (uint32_t k = 0; k < i->nin; k++)
        if (!value_ready(e, NULL, i->in[k]))
            return false;
    if (!i->body || i->op == OP_fused)
        return true;
    for (size_t k = 0; k < i->body->ins.n; k++)
        if (!uses_ready(e, i->body->ins.data[k]))
            return false;
    for (size_t k = 0; k < i->body->results.n; k++)
        if (!value_ready(e, NULL, i->body->results.data[k]))
            return false;
    return true;
}

static bool unit_ready(const Emit *e, const Unit *u)
{
    int guard = e->f->guard;
    if (guard >= 0 && u->place > 2 * guard && !e->done[guard])
        return false; /* nothing crosses the guard */
    if (!u->cluster)
        return uses_ready(e, e->old[u->at]);
    for (int k = 0; k < u->cluster->shape.nin; k++)
        if (!value_ready(e, u->cluster, u->cluster->shape.in[k]))
            return false;
    for (int k = 0; k < u->cluster->n; k++)
        if (!relay_ready(e, e->old[u->cluster->member[k]]))
            return false;
    return true;
}

/* A cluster wants to stand where its last own instruction stood, but before whoever outside reads
 * it. In halves of positions. */
static int cluster_place(const Fuse *f, const Cluster *c)
{
    int place = 0;
    for (int k = 0; k < c->n; k++)
        if (!c->extra[k])
            place = 2 * c->member[k];
    for (int k = 0; k < c->n; k++)
        for (int n = 0; !c->extra[k] && n < f->users[c->member[k]].n; n++) {
            int u = f->users[c->member[k]].at[n];
            if (!cluster_has(c, u) && 2 * u - 1 < place)
                place = 2 * u - 1;
        }
    return place;
}

static Unit *list_units(const Fuse *f, int *count)
{
    Unit *u = NEW_ARRAY(f->tmp, Unit, f->n + 1);
    int n = 0;
    for (int at = 0; at < f->n; at++) {
        const Cluster *c = f->owner[at];
        if (!c && fuse_leaf(f->r->ins.data[at]))
            continue; /* a copy is in every kernel that wants it */
        if (!c)
            u[n++] = (Unit){.at = at, .place = 2 * at};
    }
    for (size_t k = 0; k < f->clusters.n; k++)
        if (!f->clusters.data[k]->gone)
            u[n++] = (Unit){.cluster = f->clusters.data[k],
                            .place = cluster_place(f, f->clusters.data[k])};
    *count = n;
    return u;
}

static void emit_unit(Emit *e, Unit *u)
{
    u->done = true;
    if (u->cluster) {
        emit_cluster(e, u->cluster);
    } else {
        vec_push(e->f->m->arena, &e->f->r->ins, e->old[u->at]);
        e->done[u->at] = true;
    }
}

void fuse_emit(Fuse *f)
{
    Module *m = f->m;
    Emit e = {.f = f, .old = f->r->ins.data, .old_values = m->values.n};
    e.replaced = NEW_ARRAY(f->tmp, Value, m->values.n);
    e.done = NEW_ARRAY(f->tmp, bool, f->n + 1);
    int n;
    Unit *unit = list_units(f, &n);
    f->r->ins.data = NULL;
    f->r->ins.n = f->r->ins.cap = 0;
    for (int left = n; left > 0; left--) {
        Unit *best = NULL;
        for (int k = 0; k < n; k++)
            if (!unit[k].done && (!best || unit[k].place < best->place) && unit_ready(&e, &unit[k]))
                best = &unit[k];
        if (!best)
            ir_broken(f->m, NULL, "fuse: kernels that wait for each other");
        emit_unit(&e, best);
    }
    Value *map = NEW_ARRAY(f->tmp, Value, m->values.n);
    memcpy(map, e.replaced, e.old_values * sizeof *map);
    ir_replace(f->r, map);
}
