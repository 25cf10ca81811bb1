/* remat_candidates.c - what an iteration of a repeat may keep for the backward part; see
 * recompute.h.
 *
 * A copy that keeps everything is differentiated: so the values that the backward part reads are
 * found. Of the instructions that lead there, those that are worth a choice are the candidates:
 * each set of them is a way to treat an iteration. What is kept is there; everything else that is
 * read is computed again from it. A set costs its bytes, and the time of what is computed again;
 * only sets are left that no other beats in both. The times are estimates: whoever chooses plans
 * what is left. */
#include "ir/cost.h"
#include "ir/mesh.h"
#include "passes/autodiff/gradient.h"
#include "passes/passes.h"
#include "passes/autodiff/recompute.h"
#include "passes/spmd/sent.h"
#include "passes/view.h"
#include "passes/walk.h"

#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 12, ADDITIONS = 4 };

typedef struct Unit {
    const Ins *ins;
    bool there; /* costs nothing to have: a table, what a loop inside gives or this one stacks,
                   small and kept */
    bool read;  /* by the backward part */
    bool candidate;
    bool ends;    /* one or two products, which are not kept apart from it */
    bool instead; /* of something expensive that leads to it */
    int64_t bytes;
    double seconds;
    double
        worth; /* seconds that keeping it saves, at least if what leads to it is not kept either */
} Unit;

typedef struct Search {
    const Module *m;
    const Region *body;
    Arena *a;
    Unit *unit; /* per instruction of the body */
    int *home;  /* per value: its instruction's number, or -1 */
    int candidate[CANDIDATES], n;
} Search;

typedef struct Set {
    unsigned mask; /* of candidates */
    int64_t bytes;
    double seconds;
} Set;

/* ---- what is read ---------------------------------------------------------------------------- */

int keep_loops(const Module *m, const Ins **loops, int limit)
{
    const Fn *fn = module_fn(m, "train");
    int n = 0;
    for (size_t k = 0; fn && k < fn->body->ins.n; k++)
        if (fn->body->ins.data[k]->op == OP_repeat && n < limit)
            loops[n++] = fn->body->ins.data[k];
    return n;
}

/* Values of loop number `loop` that the backward part reads if everything is kept. */
static bool *read_values(const Module *m, int loop, Arena *a)
{
    bool *read = NEW_ARRAY(a, bool, m->values.n);
    Arena *tmp = arena_new();
    const Ins *loops[KEEP_LOOPS];
    Module *c = module_copy(m, "train", diag_silent(m->diag, tmp), tmp);
    c->layout.recompute = RECOMPUTE_none;
    c->layout.plan = NULL;
    Job j = {.m = c, .tmp = tmp, .log = stderr};
    if (pass_recompute(&j) == PASS_ok && pass_differentiate(&j) == PASS_ok &&
        keep_loops(c, loops, KEEP_LOOPS) > loop)
        for (size_t k = 0; k < loops[loop]->body->results.n; k++) {
            Value v = loops[loop]->body->results.data[k];
            if (k >= (size_t)loops[loop]->attrs.carried && v < m->values.n)
                read[v] = true;
        }
    arena_free(tmp);
    return read;
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* The one use of what i computes, in the body; NULL: none, or several. */
static const Ins *only_user(const Search *s, const Ins *i)
{
    const Ins *user = NULL;
    for (size_t n = 0; n < s->body->ins.n; n++) {
        const Ins *x = s->body->ins.data[n];
        bool uses = false;
        for (uint32_t k = 0; k < x->nin; k++)
            for (uint32_t o = 0; o < i->nout; o++)
                uses |= x->in[k] == i->out[o];
        if (uses && (user || x->body))
            return NULL;
        user = uses ? x : user;
    }
    for (size_t k = 0; k < s->body->results.n; k++)
        for (uint32_t o = 0; o < i->nout; o++)
            if (s->body->results.data[k] == i->out[o])
                return NULL;
    return user;
}

/* The product that v is, rounded or not, if `sum` alone reads it and the backward part does not. */
static Unit *summed_product(const Search *s, Value v, const Ins *sum)
{
    for (int at; (at = s->home[v]) >= 0; v = s->unit[at].ins->in[0]) {
        Unit *u = &s->unit[at];
        if (u->read || only_user(s, u->ins) != sum)
            return NULL;
        if (u->ins->op == OP_dot)
            return u;
        if (u->ins->op != OP_cast)
            return NULL;
        sum = u->ins;
    }
    return NULL;
}

/* The sum of two products is added up by the longer one (passes/library/products.c): they are one
 * unit, and only their sum is worth keeping. */
static bool sums_products(const Search *s, const Ins *i)
{
    for (int k = 0; i->op == OP_add && k < 2; k++) {
        const Ins *dot = s->m->values.data[i->in[k]].def;
        if (!dot || dot->op != OP_dot || !summed_product(s, i->in[k], i) ||
            !type_equal(type_of(s->m, i->in[k]), type_of(s->m, i->out[0])))
            return false;
    }
    return i->op == OP_add && i->in[0] != i->in[1];
}

static bool is_cheap(const Unit *u)
{
    return op_is(u->ins->op, CHEAP | POINTWISE) && !u->ends;
}

/* So many bytes to each other rank along these axes. */
static double seconds_along(const Module *m, Axes axes, double bytes, const Device *d)
{
    const double n = (double)mesh_size(m, axes), node = (double)mesh_block(m, axes, d->node_ranks);
    const double near = bytes * (node - 1) / d->link_bandwidth;
    const double far = n > node ? bytes * (n - node) / d->node_bandwidth : 0;
    return near > far ? near : far;
}

/* Rows that go to experts of other ranks, or come from there, are sent again, too: to each expert
 * those of its slots, or all positions once to all peers. */
static double seconds_sent(const Module *m, const Ins *i, const Device *d)
{
    const Axes axes = OP_AMONG(i->op, OP_dispatch, OP_combine) ? rows_sent(m, i) : 0;
    if (!axes || !d->link_bandwidth)
        return 0;
    const bool there = i->op == OP_dispatch;
    const Axes once = axes & mesh_once(m, i->attrs.dim.name), each = axes & ~once;
    const Type *rows = type_of(m, there ? i->out[0] : i->in[0]);
    const Type *positions = type_of(m, there ? i->in[0] : i->out[0]);
    return seconds_along(m, each, (double)type_bytes(rows) / (double)mesh_size(m, each), d) +
           seconds_along(m, once, (double)type_bytes(positions), d);
}

/* An instruction that is fused with its neighbours costs about a third of a pass over its result.
 */
static double seconds_of(const Module *m, const Unit *u, const Device *d)
{
    const Ins *i = u->ins;
    Cost c = ir_cost(m, i);
    if (op_is(i->op, VIEW))
        return 0;
    if (is_cheap(u))
        return (double)type_bytes(type_of(m, i->out[0])) / d->bandwidth / 3;
    const bool fp8 = i->attrs.fp8 && m->train.fp8_products;
    double compute = c.flops / (fp8 ? product_flops_fp8(d) : product_flops(d, &m->train));
    double memory = c.bytes / d->bandwidth;
    return (compute > memory ? compute : memory) + seconds_sent(m, i, d);
}

static void describe(Search *s, const Device *d, const bool *read, const bool *leaf)
{
    int64_t carried = 0;
    for (size_t k = 0; k < s->body->args.n && k < (size_t)s->body->owner->attrs.carried; k++)
        carried += type_bytes(type_of(s->m, s->body->args.data[k]));
    for (size_t v = 0; v < s->m->values.n; v++)
        s->home[v] = -1;
    for (size_t n = 0; n < s->body->ins.n; n++) {
        const Ins *i = s->body->ins.data[n];
        Unit *u = &s->unit[n];
        *u = (Unit){.ins = i, .there = i->body || !i->nout};
        for (uint32_t k = 0; k < i->nout; k++) {
            s->home[i->out[k]] = (int)n;
            u->there |= leaf[i->out[k]] || repeat_stacks(s->body->owner, i->out[k]);
            u->read |= read[i->out[k]];
            u->bytes += type_bytes(type_of(s->m, i->out[k]));
        }
        if (u->there)
            continue;
        u->ends = ir_ends_product(s->m, i) || sums_products(s, i);
        u->seconds = u->worth = seconds_of(s->m, u, d);
        u->candidate = u->read || !is_cheap(u);
        /* Sums of rows and such: they are not worth a question. */
        if (!is_cheap(u) && u->bytes * 32 < carried)
            u->there = true;
        u->candidate &= !u->there;
    }
}

/* Is all that i reads there, but for what `from` computes? */
static bool rest_is_there(const Search *s, const Ins *i, const Ins *from)
{
    for (uint32_t k = 0; k < i->nin; k++) {
        int n = s->home[i->in[k]];
        if (n >= 0 && !s->unit[n].there && s->unit[n].ins != from)
            return false;
    }
    return true;
}

/* A value that the backward pass does not read may lead to one that it reads and that is no larger:
 * keeping that one is better. NULL: there is none. */
static Unit *better(const Search *s, const Unit *u)
{
    const Ins *at = u->ins;
    while (!u->read) {
        const Ins *next = only_user(s, at);
        if (!next || !next->nout)
            return NULL;
        Unit *v = &s->unit[s->home[next->out[0]]];
        if (!is_cheap(v) || !rest_is_there(s, next, at))
            return NULL;
        if (v->candidate)
            return v->bytes <= u->bytes ? v : NULL;
        at = next;
    }
    return NULL;
}

/* An end stands for its products, and for their sum before it is rounded. */
static void leave_ends(Search *s)
{
    for (size_t n = 0; n < s->body->ins.n; n++) {
        Unit *end = &s->unit[n];
        const Ins *sum = end->ins;
        if (!end->ends)
            continue;
        if (sum->op == OP_cast) {
            sum = s->m->values.data[sum->in[0]].def;
            s->unit[s->home[sum->out[0]]].candidate = false;
        }
        for (int k = 0; k < 2; k++) {
            Unit *product = summed_product(s, sum->in[k], sum);
            if (!product || !product->candidate)
                continue;
            product->candidate = false;
            end->worth += product->worth;
        }
    }
}

static int less_worth(const void *x, const void *y)
{
    const Unit *a = *(Unit *const *)x, *b = *(Unit *const *)y;
    double p = a->worth / (double)a->bytes, q = b->worth / (double)b->bytes;
    return p != q ? (p < q ? -1 : 1) : (a > b) - (a < b);
}

/* Of what is equally good one is left. */
static void leave_beaten(Search *s)
{
    leave_ends(s);
    for (size_t k = 0; k < s->body->ins.n; k++) {
        Unit *u = &s->unit[k], *v = u->candidate ? better(s, u) : NULL;
        if (v) {
            v->worth += u->worth;
            v->instead = true;
            u->candidate = false;
        }
    }
}

/* Of too many candidates those with the least time for their bytes are never kept. */
static void choose_candidates(Search *s)
{
    Unit **all = NEW_ARRAY(s->a, Unit *, s->body->ins.n + 1);
    size_t n = 0;
    for (size_t k = 0; k < s->body->ins.n; k++)
        if (s->unit[k].candidate)
            all[n++] = &s->unit[k];
    qsort(all, n, sizeof *all, less_worth);
    for (size_t k = 0; n > CANDIDATES && k < n - CANDIDATES; k++)
        all[k]->candidate = false;
    for (size_t k = 0; k < s->body->ins.n; k++)
        if (s->unit[k].candidate)
            s->candidate[s->n++] = (int)k;
}

/* ---- sets ------------------------------------------------------------------------------------ */

/* Computes the cost of a set of kept instructions; false: the set keeps a value that nothing reads.
 */
static bool measure(const Search *s, const bool *kept, bool *wanted, Set *set)
{
    size_t n = s->body->ins.n;
    for (size_t k = 0; k < n; k++)
        wanted[k] = s->unit[k].read;
    set->bytes = 0;
    set->seconds = 0;
    for (size_t k = n; k-- > 0;) {
        const Unit *u = &s->unit[k];
        if (!wanted[k] && kept[k])
            return false;
        if (!wanted[k] || u->there)
            continue;
        if (kept[k]) {
            set->bytes += u->bytes;
            continue;
        }
        set->seconds += u->seconds;
        for (uint32_t x = 0; x < u->ins->nin; x++)
            if (s->home[u->ins->in[x]] >= 0)
                wanted[s->home[u->ins->in[x]]] = true;
    }
    return true;
}

static int fewer_bytes(const void *x, const void *y)
{
    const Set *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    return (a->mask > b->mask) - (a->mask < b->mask);
}

static size_t all_sets(const Search *s, Set *set)
{
    bool *kept = NEW_ARRAY(s->a, bool, s->body->ins.n + 1);
    bool *wanted = NEW_ARRAY(s->a, bool, s->body->ins.n + 1);
    size_t n = 0;
    for (unsigned mask = 0; mask < 1u << s->n; mask++) {
        for (int k = 0; k < s->n; k++)
            kept[s->candidate[k]] = mask >> k & 1;
        set[n].mask = mask;
        n += measure(s, kept, wanted, &set[n]);
    }
    return n;
}

/* Those that no other one beats, the fewest bytes first. */
static size_t frontier(Set *set, size_t n)
{
    size_t left = 0;
    qsort(set, n, sizeof *set, fewer_bytes);
    for (size_t k = 0; k < n; k++)
        if (!left || set[k].seconds < set[left - 1].seconds)
            set[left++] = set[k];
    return left;
}

/* Leaves out those between two others that save least time a byte more than their neighbour. */
static size_t thin(Set *set, size_t n, size_t limit)
{
    while (n > limit) {
        size_t worst = 1;
        double least = 0;
        for (size_t k = 1; k + 1 < n; k++) {
            /* how far it lies below the line between its neighbours, in seconds */
            double share = (double)(set[k].bytes - set[k - 1].bytes) /
                           (double)(set[k + 1].bytes - set[k - 1].bytes);
            double line = set[k - 1].seconds + share * (set[k + 1].seconds - set[k - 1].seconds);
            double below = line - set[k].seconds;
            if (k == 1 || below < least) {
                worst = k;
                least = below;
            }
        }
        memmove(set + worst, set + worst + 1, (n - worst - 1) * sizeof *set);
        n--;
    }
    return n;
}

/* ---- options --------------------------------------------------------------------------------- */

static const char *names_of(const Search *s, const bool *keep)
{
    const char *all = "";
    for (int k = 0; k < s->n; k++) {
        const Ins *i = s->unit[s->candidate[k]].ins;
        if (keep[i->out[0]])
            all = arena_printf(s->a, "%s%s%s", all, *all ? " " : "", ins_called(s->m, i));
    }
    return *all ? all : "nothing";
}

static void keep_inside(const Module *m, const Region *r, bool *keep)
{
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        for (uint32_t k = 0; k < i->nout; k++)
            keep[i->out[k]] = !op_is(i->op, CHEAP | POINTWISE) || ir_ends_product(m, i);
        if (i->body)
            keep_inside(m, i->body, keep);
    }
}

/* The values that are kept by default. */
static KeepOption default_option(const Search *s)
{
    KeepOption o = {.keep = NEW_ARRAY(s->a, bool, s->m->values.n), .names = ""};
    for (size_t n = 0; n < s->body->ins.n; n++) {
        const Unit *u = &s->unit[n];
        bool cheap = is_cheap(u), kept = u->candidate && (!cheap || u->instead);
        if (u->ins->body)
            keep_inside(s->m, u->ins->body, o.keep);
        for (uint32_t k = 0; k < u->ins->nout; k++)
            o.keep[u->ins->out[k]] = kept || (u->there && !cheap);
        if (kept)
            o.names = arena_printf(s->a, "%s%s%s", o.names, *o.names ? " " : "",
                                   ins_called(s->m, u->ins));
    }
    return o;
}

/* The candidates of a set; what is small and expensive is kept beside them. */
static KeepOption option_of(const Search *s, const Set *set)
{
    KeepOption o = {.keep = NEW_ARRAY(s->a, bool, s->m->values.n)};
    for (size_t n = 0; n < s->body->ins.n; n++) {
        const Unit *u = &s->unit[n];
        if (u->ins->body)
            keep_inside(s->m, u->ins->body, o.keep);
        for (uint32_t k = 0; k < u->ins->nout; k++)
            o.keep[u->ins->out[k]] = u->there && !is_cheap(u);
    }
    for (int k = 0; k < s->n; k++)
        for (uint32_t x = 0; x < s->unit[s->candidate[k]].ins->nout; x++)
            o.keep[s->unit[s->candidate[k]].ins->out[x]] = set->mask >> k & 1;
    o.names = names_of(s, o.keep);
    return o;
}

static Search *search_open(const Module *m, const Ins *loop, int number, const Device *d, Arena *a)
{
    Search *s = NEW(a, Search);
    *s = (Search){.m = m, .body = loop->body, .a = a};
    s->unit = NEW_ARRAY(a, Unit, loop->body->ins.n + 1);
    s->home = NEW_ARRAY(a, int, m->values.n);
    describe(s, d, read_values(m, number, a), activity_leaf(m, module_fn(m, "train")->body, a));
    leave_beaten(s);
    return s;
}

bool *keep_default(const Module *m, int loop, Arena *a)
{
    static const Device any = {.flops_f32 = 1,
                               .flops_f64 = 1,
                               .flops_tf32 = 1,
                               .flops_bf16 = 1,
                               .flops_fp8 = 1,
                               .flops_f16 = 1,
                               .product_share = 1,
                               .bandwidth = 1};
    const Ins *loops[KEEP_LOOPS];
    if (keep_loops(m, loops, KEEP_LOOPS) <= loop)
        return NULL;
    return default_option(search_open(m, loops[loop], loop, &any, a)).keep;
}

int keep_options(const Module *m, int loop, const Device *d, Arena *a,
                 KeepOption options[KEEP_OPTIONS])
{
    const Ins *loops[KEEP_LOOPS];
    if (keep_loops(m, loops, KEEP_LOOPS) <= loop)
        return 0;
    Search *s = search_open(m, loops[loop], loop, d, a);
    KeepOption usual = default_option(s);
    choose_candidates(s);
    Set *set = NEW_ARRAY(a, Set, 1u << s->n);
    size_t n = thin(set, frontier(set, all_sets(s, set)), KEEP_OPTIONS - 1);
    for (size_t k = 0; k < n; k++)
        options[k] = option_of(s, &set[k]);
    options[n++] = usual;
    return (int)n;
}

int keep_additions(const Module *m, int loop, const Device *d, Arena *a, KeepOption *usual,
                   KeepOption options[KEEP_OPTIONS])
{
    const Ins *loops[KEEP_LOOPS];
    if (keep_loops(m, loops, KEEP_LOOPS) <= loop)
        return 0;
    Search *s = search_open(m, loops[loop], loop, d, a);
    *usual = default_option(s);
    Unit **all = NEW_ARRAY(a, Unit *, s->body->ins.n + 1);
    size_t n = 0;
    int found = 0;
    for (size_t k = 0; k < s->body->ins.n; k++) {
        Unit *u = &s->unit[k];
        if (u->candidate && u->read && !usual->keep[u->ins->out[0]])
            all[n++] = u;
    }
    qsort(all, n, sizeof(Unit *), less_worth);
    for (size_t k = n; k-- > 0 && found < ADDITIONS;) {
        KeepOption *o = &options[found++];
        *o = (KeepOption){.keep = NEW_ARRAY(a, bool, m->values.n),
                          .names = ins_called(m, all[k]->ins)};
        for (uint32_t x = 0; x < all[k]->ins->nout; x++)
            o->keep[all[k]->ins->out[x]] = true;
    }
    return found;
}

/* Is it what is read of a layer's parameter that ranks have parts of (passes/step/even.c)? */
static bool is_gathered(const Module *m, const Ins *i)
{
    if (i->op != OP_window)
        return false;
    Value v = i->in[0], from;
    for (const Ins *def; (def = m->values.data[v].def) && OP_AMONG(def->op, OP_window, OP_cast);)
        v = def->in[0];
    bool slice = false;
    for (; slice_loop(m, v, &from); slice = true)
        for (v = from; m->values.data[v].def && m->values.data[v].def->op == OP_cast;)
            v = m->values.data[v].def->in[0];
    return slice && !m->values.data[v].def && !m->values.data[v].home->owner;
}

bool keep_halves(const Module *m, int loop, const Device *d, bool gathered, Arena *a,
                 KeepOption *option)
{
    const Ins *loops[KEEP_LOOPS];
    bool any = !gathered;
    if (keep_loops(m, loops, KEEP_LOOPS) <= loop)
        return false;
    Search *s = search_open(m, loops[loop], loop, d, a);
    *option = (KeepOption){.keep = NEW_ARRAY(a, bool, m->values.n),
                           .names = gathered ? "all halves that are read, and what is gathered"
                                             : "all halves that are read"};
    for (size_t n = 0; n < s->body->ins.n; n++) {
        const Unit *u = &s->unit[n];
        const bool parameter = is_gathered(m, u->ins);
        any |= parameter;
        if (u->ins->body)
            keep_inside(m, u->ins->body, option->keep);
        for (uint32_t k = 0; k < u->ins->nout; k++) {
            const Value v = u->ins->out[k];
            const bool expensive = u->there && !is_cheap(u);
            option->keep[v] =
                parameter ? gathered : expensive || dtype_is_half(type_of(m, v)->dtype);
        }
    }
    return any;
}
