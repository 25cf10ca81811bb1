/* pieces.c - into how many pieces collectives are cut with the products beside them, and whether
 * all that an iteration computes takes turns piece by piece, by plans that are made with it.
 *
 * Each of the two parts of a step, forward and backward, is cut by itself: a backward pass has
 * gradients of weights to compute while it sends, a forward pass has nothing else. Both share how
 * positions are dealt out to ranks, so both have one number of pieces, or none. Pieces are
 * sequences where a rank computes several at once; else they are blocks of positions
 * (LayoutRule.blocks).
 *
 * More pieces leave less of a collective that nothing runs beside, but each is a message, and its
 * product is smaller. Taken is the fastest step by plans with what the backward pass keeps by
 * default, as the frontier is chosen afterwards. Where collectives are made to wait
 * (--overlap=none) the choice is the same: where a rank's positions are, its sums begin, and what
 * overlaps shall change no bit. */
#include "decide/pieces.h"

#include "decide/make.h"
#include "plan/whole.h"

enum { MOST = 4, PARTS = 2 };

/* Of a step: nothing is cut for less. */
static const double WORTH = 0.01;

/* Seconds of the two parts of a microbatch, of the step, and of waits for collectives, by a plan;
 * how many collectives its step has. */
typedef struct Times {
    double part[PARTS], step, waits;
    int64_t collectives;
} Times;

static bool times_of(const Module *module, const Device *d, const Layout *as, Times *t)
{
    Arena *a = arena_new();
    Module *m = module_copy(module, "train", diag_silent(module->diag, a), a);
    m->layout = *as;
    m->layout.overlap = true; /* collectives have the room to run beside the rest */
    for (int k = 0; k < OFFLOAD_count; k++)
        m->layout.offload[k] = LEVEL_device; /* where things lie changes no bit, so no piece */
    m->layout.optimizer = OPTIMIZER_device;
    PlanJob job = plan_compared(m, d, a, "turns");
    job.rough = true;
    const bool any = plan_timed(&job);
    if (any) {
        const Whole w = plan_parts(job.plan);
        *t = (Times){.part = {w.forward, w.backward}, .step = job.plan->train->seconds};
        for (int k = 0; k < w.naxes; k++)
            t->waits += w.along[k].exposed;
        for (size_t k = 0; k < job.plan->train->actions.n; k++)
            t->collectives += job.plan->train->actions.data[k].kind == ACT_comm;
    }
    arena_free(a);
    return any;
}

/* A tensor, a layer's slice of one, or what is rounded or seen of either. */
static bool is_tensor(const Module *m, const Fn *fn, Value v)
{
    const ValueInfo *x = &m->values.data[v];
    Value stacked;
    if (x->def)
        return (op_is(x->def->op, VIEW) || x->def->op == OP_cast) &&
               is_tensor(m, fn, x->def->in[0]);
    if (slice_loop(m, v, &stacked))
        return is_tensor(m, fn, stacked);
    return !x->home->owner && fn->args.data[arg_index(m, v)].role <= ARG_rounded;
}

/* Does a product multiply by a tensor with this dim? Its parts are files', whose elements are
 * neighbours. A table of positions is added, and stays whole where these are in blocks. */
static bool is_multiplied(const Module *m, const Fn *fn, const Region *r, Name dim)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        if (i->body && is_multiplied(m, fn, i->body, dim))
            return true;
        for (uint32_t o = 0; OP_AMONG(i->op, OP_dot, OP_grouped) && o < i->nin; o++)
            if (type_find(type_of(m, i->in[o]), dim) >= 0 && is_tensor(m, fn, i->in[o]))
                return true;
    }
    return false;
}

/* Does a rule before this one use its last axis for another dim? Then what the rule splits there is
 * gathered before a product, and scattered behind one. */
static bool follows_tensors(const Module *m, size_t rule)
{
    const LayoutRule *r = &m->layout.rules.data[rule];
    for (size_t k = 0; k < rule; k++) {
        const LayoutRule *before = &m->layout.rules.data[k];
        for (int a = 0; a < before->n; a++)
            if (!before->of && before->dim != r->dim && before->axis[a] == r->axis[r->n - 1])
                return true;
    }
    return false;
}

static bool is_innermost(const LayoutRule *r)
{
    for (int k = 0; k + 1 < r->n; k++)
        if (r->axis[k] > r->axis[r->n - 1])
            return false;
    return !(r->zigzag >> r->axis[r->n - 1] & 1);
}

/* As it was, but for the rules of positions that are in so many blocks. */
static void deal_out(const Module *m, Layout *as, int64_t blocks, Arena *a)
{
    const Layout was = *as;
    const Fn *train = module_fn(m, "train");
    as->rules.data = NULL;
    as->rules.n = as->rules.cap = 0;
    for (size_t k = 0; k < was.rules.n; k++) {
        LayoutRule r = was.rules.data[k];
        if (!r.of && r.dim != m->layout.pipeline.dim && r.dim != m->batch.name &&
            !is_multiplied(m, train, train->body, r.dim) && follows_tensors(m, k) &&
            is_innermost(&r))
            r.blocks = blocks;
        vec_push(a, &as->rules, r);
    }
}

/* The faster way for each of the two parts with n pieces; false: there is no plan. given: nothing
 * else will do. */
static bool choose_ways(const Module *m, const Device *d, int64_t n, bool given, Layout *best)
{
    Layout as = m->layout;
    double part[PARTS] = {0};
    Times with;
    if (m->layout.microbatch % n)
        deal_out(m, &as, n, m->arena);
    *best = as;
    for (int way = given; way < 3; way++) {
        for (int k = 0; k < PARTS; k++)
            as.pieces[k] = (LayoutPieces){way ? n : 0, way == 2};
        if (!times_of(m, d, &as, &with))
            return false;
        for (int k = 0; k < PARTS; k++)
            if (way == given || with.part[k] < part[k]) {
                part[k] = with.part[k];
                best->pieces[k] = as.pieces[k];
            }
    }
    return true;
}

/* As many pieces as the command line says. A device that does not compute while it sends takes them
 * as well, though no plan is the faster for it. */
static void take_given(Module *m, const Device *d)
{
    Times whole, cut;
    Layout as, none = m->layout;
    const int64_t given = m->layout.pieces[0].n;
    for (int k = 0; k < PARTS; k++)
        none.pieces[k] = (LayoutPieces){.n = 1};
    if (d->streams > 1 && choose_ways(m, d, given, true, &as))
        m->layout = as;
    if (!times_of(m, d, &none, &whole) || !times_of(m, d, &m->layout, &cut) ||
        cut.collectives > whole.collectives)
        return;
    diag_warning(m->diag, (Span){0}, 558, "--pieces=%lld cuts nothing: %s", (long long)given,
                 !whole.collectives ? "the ranks of this layout send nothing"
                                    : "no collective here has a product beside it and a dim "
                                      "outside of both that so many divide");
    diag_help(m->diag, "leave the option out, and mgc cuts where that makes a step faster");
}

void pieces_choose(Module *m, const Device *device)
{
    Times none, with;
    Layout as, best = m->layout;
    Device concurrent = *device, *d = &concurrent;
    const int64_t given = m->layout.pieces[0].n;
    concurrent.collectives_wait = false;
    if (given == 1 || !module_fn(m, "train"))
        return;
    if (given) {
        take_given(m, d);
        return;
    }
    if (!m->layout.mesh.n || d->streams < 2)
        return;
    if (!times_of(m, d, &m->layout, &none) || none.waits < WORTH * none.step)
        return;
    double least = (1 - WORTH) * none.step;
    for (int64_t n = 2; n <= MOST; n *= 2)
        if (choose_ways(m, d, n, false, &as) && (as.pieces[0].n || as.pieces[1].n) &&
            times_of(m, d, &as, &with) && with.step < least) {
            least = with.step;
            best = as;
        }
    m->layout = best;
}
