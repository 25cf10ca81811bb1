/* fuse.c - drives fusion region by region; clusters as sets; see fuse.h. */
#include "passes/fuse/fuse.h"
#include "passes/passes.h"
#include "passes/view.h"

#include <string.h>

bool fusible(const Ins *i)
{
    return op_is(i->op, POINTWISE | FUSE) && !op_is(i->op, VIEW) && !fuse_leaf(i);
}

bool fuse_leaf(const Ins *i)
{
    return i->op == OP_const || i->op == OP_iota;
}

static const char *cluster_name(const Fuse *f, const Cluster *c)
{
    const Ins *last = f->r->ins.data[c->member[c->n - 1]];
    const char *hint = name_str(f->m->names, f->m->values.data[last->out[0]].name);
    return *hint ? hint : op_info[last->op].name;
}

void fuse_tell(const Fuse *f, const Cluster *a, const Cluster *b, const char *verdict,
               const char *why)
{
    if (f->why)
        fprintf(f->why, "fuse: %s#%d (%d ops), %s#%d (%d ops): %s%s%s\n", cluster_name(f, a),
                a->member[0], a->n, cluster_name(f, b), b->member[0], b->n, verdict,
                why ? ": " : "", why ? why : "");
}

/* ---- sets ----------------------------------------------------------------------------------- */

bool cluster_has(const Cluster *c, int at)
{
    int lo = 0, hi = c->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (c->member[mid] < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < c->n && c->member[lo] == at;
}

Cluster *cluster_union(const Fuse *f, const Cluster *a, const Cluster *b)
{
    Cluster *c = NEW(f->tmp, Cluster);
    c->member = NEW_ARRAY(f->tmp, int, a->n + b->n);
    c->extra = NEW_ARRAY(f->tmp, bool, a->n + b->n);
    for (int i = 0, k = 0; i < a->n || k < b->n;) {
        bool left = k == b->n || (i < a->n && a->member[i] <= b->member[k]);
        bool both = i < a->n && k < b->n && a->member[i] == b->member[k];
        c->member[c->n] = left ? a->member[i] : b->member[k];
        c->extra[c->n] = both ? a->extra[i] && b->extra[k] : left ? a->extra[i] : b->extra[k];
        c->n++;
        i += left;
        k += !left || both;
    }
    return c;
}

Cluster *cluster_with(const Fuse *f, const Cluster *a, int at, bool extra)
{
    Cluster one = {.n = 1, .member = &at, .extra = &extra};
    return cluster_union(f, a, &one);
}

/* Leaves out those that are gone. */
static void forget_gone(Holders *h)
{
    size_t left = 0;
    for (size_t k = 0; k < h->n; k++)
        if (!h->data[k]->gone)
            h->data[left++] = h->data[k];
    h->n = left;
}

void cluster_replace(Fuse *f, Cluster *c, Cluster *a, Cluster *b)
{
    if (a)
        a->gone = true;
    if (b)
        b->gone = true;
    for (int i = 0; i < c->n; i++) {
        forget_gone(&f->holders[c->member[i]]);
        vec_push(f->tmp, &f->holders[c->member[i]], c);
        if (!c->extra[i])
            f->owner[c->member[i]] = c;
    }
    vec_push(f->tmp, &f->clusters, c);
}

bool cluster_gives(const Fuse *f, const Cluster *c, const Cluster *a, const Cluster *b, int at)
{
    for (int k = 0; k < f->users[at].n; k++) {
        int u = f->users[at].at[k];
        if (u == f->n || !f->owner[u])
            return true;
        for (size_t h = 0; h < f->holders[u].n; h++) {
            const Cluster *x = f->holders[u].data[h];
            if (!x->gone && x != a && x != b && x != c && !cluster_has(x, at))
                return true;
        }
    }
    return false;
}

void fuse_prune(Fuse *f)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < f->clusters.n; i++) {
            Cluster *c = f->clusters.data[i];
            if (c->gone)
                continue;
            shape_of(f, c, NULL, NULL);
            if (c->shape.nout == 0)
                c->gone = changed = true;
        }
    }
}

/* ---- who uses what -------------------------------------------------------------------------- */

static void note_use(Fuse *f, Value v, int at)
{
    int def = f->at[v];
    if (def < 0)
        return;
    Users *u = &f->users[def];
    if (!u->n || u->at[u->n - 1] != at)
        u->at[u->n++] = at;
}

/* Calls note for each use in i, its regions included. */
static void uses_in(Fuse *f, const Ins *i, int at, void (*note)(Fuse *, Value, int))
{
    for (uint32_t k = 0; k < i->nin; k++)
        note(f, i->in[k], at);
    if (!i->body || i->op == OP_fused)
        return;
    for (size_t k = 0; k < i->body->ins.n; k++)
        uses_in(f, i->body->ins.data[k], at, note);
    for (size_t k = 0; k < i->body->results.n; k++)
        note(f, i->body->results.data[k], at);
}

static void count_use(Fuse *f, Value v, int at)
{
    (void)at;
    if (f->at[v] >= 0)
        f->users[f->at[v]].n++;
}

static void all_uses(Fuse *f, void (*note)(Fuse *, Value, int))
{
    for (int i = 0; i < f->n; i++) {
        const Ins *before = ir_relay_before(f->r->ins.data[i], f->r->ins.data, f->r->ins.n);
        uses_in(f, f->r->ins.data[i], i, note);
        if (before)
            note(f, before->out[0], i);
    }
    for (size_t i = 0; i < f->r->results.n; i++)
        note(f, f->r->results.data[i], f->n);
}

static void index_region(Fuse *f)
{
    f->n = (int)f->r->ins.n;
    f->guard = -1;
    f->at = NEW_ARRAY(f->tmp, int, f->m->values.n);
    f->users = NEW_ARRAY(f->tmp, Users, f->n);
    f->owner = NEW_ARRAY(f->tmp, Cluster *, f->n);
    f->holders = arena_array(f->tmp, (size_t)f->n, sizeof *f->holders);
    f->mark = NEW_ARRAY(f->tmp, int, f->n);
    f->look = NEW_ARRAY(f->tmp, int, f->n + 1);
    for (size_t i = 0; i < f->m->values.n; i++)
        f->at[i] = -1;
    for (int i = 0; i < f->n; i++) {
        const Ins *ins = f->r->ins.data[i];
        if (ins->op == OP_guard)
            f->guard = i;
        for (uint32_t k = 0; k < ins->nout; k++)
            f->at[ins->out[k]] = i;
    }
    all_uses(f, count_use);
    for (int i = 0; i < f->n; i++) {
        f->users[i].at = NEW_ARRAY(f->tmp, int, f->users[i].n);
        f->users[i].n = 0;
    }
    all_uses(f, note_use);
}

/* A constant that something other than a kernel reads has to be in memory. */
static bool leaf_is_read(const Fuse *f, int at)
{
    for (int k = 0; k < f->users[at].n; k++) {
        int u = f->users[at].at[k];
        if (u == f->n || !fusible(f->r->ins.data[u]))
            return true;
    }
    return false;
}

static void each_alone(Fuse *f)
{
    for (int i = 0; i < f->n; i++) {
        const Ins *ins = f->r->ins.data[i];
        if (!fusible(ins) && !(fuse_leaf(ins) && leaf_is_read(f, i)))
            continue;
        Cluster none = {0};
        cluster_replace(f, cluster_with(f, &none, i, false), NULL, NULL);
    }
    fuse_prune(f);
}

/* Instructions that are one kernel come together. */
static void cluster(Fuse *f)
{
    each_alone(f);
    fuse_columns(f);
    fuse_chains(f);
    fuse_siblings(f);
    fuse_spare(f);
    fuse_prune(f);
}

static void fuse_region(Module *m, const Fn *fn, Region *r, Arena *tmp, FILE *why)
{
    fuse_prepare(m, r, tmp);
    Fuse f = {.m = m,
              .stages = ir_stage_set(m, fn, tmp),
              .r = r,
              .tmp = tmp,
              .why = why,
              .depth = depth_dims(m)};
    index_region(&f);
    fuse_find_delays(&f);
    /* Delays of what is sent are not in the key; and decisions that are recalled are not told. */
    const bool known = !why && !f.delays;
    const MemoKey key = known ? fuse_key(&f) : (MemoKey){0};
    if (!known || !fuse_recall(&f, key)) {
        cluster(&f);
        if (known)
            fuse_remember(&f, key);
    }
    fuse_emit(&f);
    for (size_t i = 0; i < r->ins.n; i++)
        if (r->ins.data[i]->op == OP_repeat)
            fuse_region(m, fn, r->ins.data[i]->body, tmp, why);
}

void fuse_module(Module *m, Arena *tmp, FILE *why)
{
    for (size_t i = 0; i < m->fns.n; i++) {
        if (why)
            fprintf(why, "@%s\n", name_str(m->names, m->fns.data[i]->name));
        fuse_index_layers(m, m->fns.data[i]->body);
        fuse_region(m, m->fns.data[i], m->fns.data[i]->body, tmp, why);
    }
}

PassStatus pass_fuse(Job *j)
{
    fuse_module(j->m, j->tmp, j->fusion);
    return PASS_ok;
}
