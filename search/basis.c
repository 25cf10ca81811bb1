/* basis.c - what is known of all points from the program of one rank: bounds from below, and an
 * estimate; see try.h.
 *
 * The bounds hold whatever is decided. No rank multiplies faster than the device, and all ranks
 * together compute what the model says. With 1f1b, rank r computes its stage of every microbatch
 * while others wait: before it begins the first has gone forward through the stages before, and
 * behind its last the same stages go back. So a step of m microbatches takes m w_r + sum of w_s
 * over s < r at least, for each r, where w_s is what stage s takes of a microbatch. Whatever the
 * cut, of p stages that take W together that is W / (1 - (1 - 1 / m)^p) or more: the mean over r
 * with weights that leave nothing but W. Other schedules fill that time; of them only the
 * arithmetic counts. A rank has at least the mean of what ranks have of each tensor that lasts. */
#include "search/try.h"

#include <math.h>
#include <string.h>

#include "decide/make.h"
#include "ir/cost.h"
#include "plan/place/place.h"

/* Is a dim in "kv_heads, ffn"? */
static bool among(const char *dims, const char *dim)
{
    const size_t n = strlen(dim);
    for (const char *at = dims; *at;) {
        const size_t k = strcspn(at, ",");
        if (k == n && !strncmp(at, dim, n))
            return true;
        at += k;
        at += strspn(at, ", ");
    }
    return false;
}

static bool split_by(const Space *s, SearchRole role, const char *dim)
{
    if (role == ROLE_pp)
        return s->layers && !strcmp(s->layers, dim);
    for (size_t i = 0; i < s->rules.n; i++)
        for (size_t k = 0; k < s->rules.data[i].axes.n; k++)
            if (s->rules.data[i].axes.data[k].role == role && among(s->rules.data[i].dims, dim))
                return true;
    return false;
}

/* Without padding. */
static double bytes_of(const Tensor *t)
{
    double bytes = (double)type_bytes(&t->type);
    for (int k = 0; k < t->type.rank; k++)
        if (t->valid[k] > 0 && t->valid[k] < t->type.dims[k].size)
            bytes *= (double)t->valid[k] / (double)t->type.dims[k].size;
    return bytes;
}

static void hold(Basis *b, const Space *s, const Module *m, const Tensor *t, Arena *a)
{
    const bool state = (t->slot && !t->rounded) || t->master || tensor_is_ahead(t);
    Held h = {.bytes = bytes_of(t), .zero = state ? 1 : 3};
    for (int k = 0; k < t->type.rank; k++)
        for (int r = 0; r < ROLE_count; r++)
            h.by[r] |= split_by(s, (SearchRole)r, name_str(m->names, t->type.dims[k].name));
    vec_push(a, &b->held, h);
    if (t->slot || t->frozen)
        return;
    const DType sums = m->train.sums ? m->train.sums : m->train.compute;
    h.bytes *= (double)dtype_bytes(sums) / (double)dtype_bytes(t->type.dtype);
    h.zero = 2;
    h.sums = true;
    vec_push(a, &b->held, h);
    b->parameters += (double)type_elements(&t->type);
}

/* Elements of a sequence; 0: the value has nothing of sequences. */
static double of_sequence(const Module *m, const Type *t)
{
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k].name == m->batch.name)
            return (double)type_elements(t) / (double)t->dims[k].size;
    return 0;
}

/* Elements that the largest repeat carries, of one sequence. */
static double carried_of(const Module *m, const Region *r)
{
    double most = 0;
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        double elements = 0;
        if (!i->body)
            continue;
        for (int c = 0; i->op == OP_repeat && c < i->attrs.carried; c++)
            elements += of_sequence(m, &m->values.data[i->in[c]].type);
        most = fmax(most, fmax(elements, carried_of(m, i->body)));
    }
    return most;
}

/* FLOP/s of what multiplies fastest. */
static double rate_of(const Device *d, const Train *t)
{
    double rate = fmax(product_flops(d, t), t->fp8 ? product_flops_fp8(d) : 0);
    for (int i = 0; i < d->nattention; i++)
        rate =
            fmax(rate, fmax(d->attention[i].forward, d->attention[i].gradient) * peak_flops(d, t));
    return fmax(rate, fmax(d->attention_share, d->attention_grad_share) * peak_flops(d, t));
}

bool basis_make(Basis *b, Space *s, Module *m, const Device *d, Arena *a)
{
    *b = (Basis){.device = d, .budget = (double)plan_budget(m, d)};
    const int64_t at_once = m->layout.microbatch > 0 ? m->layout.microbatch : 1;
    space_sizes(s, m, d);
    b->batch = s->nbatch;
    b->tokens = s->nbatch * (s->nseq ? s->nseq : 1);
    b->shared = d->target == TARGET_host && d->streams < 2;
    for (size_t k = 0; k < m->fns.n; k++)
        b->carried = fmax(b->carried, carried_of(m, m->fns.data[k]->body));
    b->carried *= (double)dtype_bytes(m->train.half ? m->train.half : m->train.compute);
    PlanJob job = plan_compared(m, d, a, NULL);
    job.rough = true;
    if (!plan_timed(&job) || !job.plan->train)
        return false;
    b->trains = true;
    b->flops = job.plan->train->flops;
    b->seconds = job.plan->train->seconds;
    b->rate = rate_of(d, &job.m->train);
    b->kept = (double)job.plan->memory[OWN_activations] / (double)at_once;
    for (size_t k = 0; k < job.m->tensors.n; k++)
        hold(b, s, job.m, &job.m->tensors.data[k], a);
    return true;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

double bound_bytes(const Basis *b, const Point *p, int64_t microbatches)
{
    double bytes = 0;
    for (size_t k = 0; k < b->held.n; k++) {
        const Held *h = &b->held.data[k];
        double parts = (double)p->size[ROLE_pp]; /* on average, wherever it is */
        for (int r = ROLE_dp; r < ROLE_count; r++)
            if (h->by[r] || (p->zero >= h->zero && r != ROLE_tp))
                parts *= (double)p->size[r];
        if (!h->sums || microbatches > 1)
            bytes += h->bytes / parts;
    }
    return bytes;
}

double bound_seconds(const Basis *b, const Point *p, int64_t microbatches)
{
    double ranks = 1;
    for (int r = 0; r < ROLE_count; r++)
        ranks *= (double)p->size[r];
    const double even = b->flops / b->rate / (b->shared ? 1 : ranks);
    const double pp = (double)p->size[ROLE_pp], m = (double)microbatches;
    if (p->size[ROLE_pp] == 1 || p->schedule != PIPE_1F1B || b->shared)
        return even;
    return even * pp / m / (1 - pow(1 - 1 / m, pp));
}

/* A step with so many bytes of the kept ones too many, as a part of one with room for all: those
 * that cost least to compute are given up first. */
static double with_less_kept(double lacks, double kept)
{
    const double FORWARD = 0.3, /* of a step, which is computed again if nothing is kept */
        CHEAP_FIRST = 1.5;
    return lacks > 0 && kept > 0 ? 1 + FORWARD * pow(fmin(1, lacks / kept), CHEAP_FIRST) : 1;
}

/* Of the device's bytes for a plan: what is left beside what no estimate counts. A guess. */
static const double FREE = 0.9;

/* A rank's share of the levels below the device: of all of them, or of the nearest alone. */
static double below(const Basis *b, int64_t ranks, bool nearest)
{
    const Device *d = b->device;
    const int64_t together = ranks < device_machine(d) ? ranks : device_machine(d);
    double all = 0;
    for (int l = LEVEL_device + 1; l < LEVEL_count && !(nearest && all > 0); l++)
        all += (double)d->level[l].memory;
    return all / (double)together;
}

double room_bytes(const Basis *b, int64_t ranks, bool offload)
{
    return b->budget / (b->shared ? (double)ranks : 1) + (offload ? below(b, ranks, false) : 0);
}

double streams_seconds(const Basis *b, const Space *s, const Point *p)
{
    /* PASSES is fitted to quick plans of Qwen2.5 32B on four cards: parameters come twice, sums of
     * their gradients come and go. HALF: bytes of an element. */
    const double PASSES = 4, HALF = 2;
    double mine = HALF * b->parameters;
    for (int r = 0; r < ROLE_count; r++)
        if (r == ROLE_pp || r == ROLE_tp || r == ROLE_ep || p->zero == 3)
            mine /= (double)p->size[r];
    if (!p->offload || 2 * mine < FREE * b->budget)
        return 0;
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++)
        if (b->device->level[l].memory)
            return (double)point_microbatches(s, p) * PASSES * mine / b->device->level[l].in;
    return 0;
}

bool is_tight(const Basis *b, int64_t ranks, double lasts)
{
    return lasts > FREE * (b->budget + below(b, ranks, true));
}

double expected_seconds(const Basis *b, const Tried *rough, bool offload)
{
    /* By `offload auto` next to nothing of a step waits for what lasts. */
    const double all = (double)(offload ? rough->kept : rough->bytes);
    return rough->seconds * with_less_kept(all - b->budget, (double)rough->kept);
}

/* ---- the estimate ---------------------------------------------------------------------------- */

/* Bytes that the first stage keeps at its peak, about. Its microbatches on the way are as many as
 * there are stages; with chunks those of the last chunk's, too; zb-h1 keeps most for its products
 * of weights, behind the backward pass. Without positions along tp some values are whole on all
 * ranks.
 */
static double kept_bytes(const Basis *b, const Space *s, const Point *p, double micro)
{
    const double WHOLE = 1.0 / 3, ZB_KEEPS = 2.5;
    const double pp = (double)p->size[ROLE_pp], tp = (double)p->size[ROLE_tp];
    double bytes = b->kept * (double)p->microbatch / (double)p->size[ROLE_cp];
    bytes *= s->sequence && !p->sequence ? WHOLE + (1 - WHOLE) / tp : 1 / tp;
    bytes *= fmin(micro, pp) / pp;
    if (p->chunks > 1)
        bytes *= 1 + (pp - 1) / (pp * p->chunks);
    return bytes * (p->schedule == PIPE_ZB_H1 && pp > 1 ? ZB_KEEPS : 1);
}

/* Bytes/s that a rank receives along the axis of a role: in a node by its links; of several nodes,
 * those of its ranks that a node has take in what all of them need together. */
static double bandwidth(const Basis *b, const Space *s, const Point *p, SearchRole role)
{
    const Device *d = b->device;
    int64_t within = 1; /* neighbours on the axis are so many ranks apart */
    for (int i = ROLE_count - 1; i >= 0 && s->order[i] != role; i--)
        within *= p->size[s->order[i]];
    if (within * p->size[role] <= s->node || !(d->node_bandwidth > 0))
        return d->link_bandwidth;
    const double here = within < s->node ? (double)(s->node / within) : 1;
    return fmin(d->link_bandwidth, here * d->node_bandwidth);
}

/* Seconds in which a rank sends its share of so many bytes. */
static double sends(const Basis *b, const Space *s, const Point *p, SearchRole role, double bytes)
{
    const double n = (double)p->size[role], bw = bandwidth(b, s, p, role);
    return n > 1 && bw > 0 ? (n - 1) / n * bytes / bw : 0;
}

double estimate_seconds(const Basis *b, const Space *s, const Point *p)
{
    /* Shares of sends that nothing hides; passes over a layer's activations and its parameters.
     * ONCE, of the rows those that are sent once to a machine, is a guess: it goes by how many are
     * chosen. */
    const double EXPOSED = 0.5, LATE = 0.3, TENSOR = 10, CONTEXT = 0.5, EXPERTS = 10, HALF = 2,
                 TENSOR_LOSS = 0.02, ZB = 3, ONCE = 0.6;
    const double micro = (double)point_microbatches(s, p), pp = (double)p->size[ROLE_pp];
    double ranks = 1;
    for (int r = 0; r < ROLE_count; r++)
        ranks *= (double)p->size[r];
    double computes = b->seconds / (b->shared ? 1 : ranks);
    computes *= 1 + TENSOR_LOSS * log2((double)p->size[ROLE_tp]);
    const double kept = kept_bytes(b, s, p, micro);
    const double lasts = p->offload ? 0 : bound_bytes(b, p, (int64_t)micro);
    computes *= with_less_kept(lasts + kept - FREE * b->budget, kept);
    const double layers = (double)(s->nlayers ? s->nlayers : 1) / pp;
    const double act =
        micro * layers * b->carried * (double)p->microbatch / (double)p->size[ROLE_cp];
    /* Keys go all the way round, through one card at a time where the ring is of several nodes. */
    const double whole = act * (double)p->size[ROLE_cp];
    const bool far = bandwidth(b, s, p, ROLE_cp) < b->device->link_bandwidth;
    double waits = EXPOSED * sends(b, s, p, ROLE_tp, TENSOR * act) +
                   (p->once ? ONCE : 1) * sends(b, s, p, ROLE_ep, EXPERTS * act);
    if (p->size[ROLE_cp] > 1)
        waits += CONTEXT * whole / (far ? b->device->node_bandwidth : b->device->link_bandwidth);
    const double mine = b->parameters / pp / (double)p->size[ROLE_tp] / (double)p->size[ROLE_ep];
    const SearchRole data = p->size[ROLE_dp] > 1   ? ROLE_dp
                            : p->size[ROLE_cp] > 1 ? ROLE_cp
                                                   : ROLE_ep;
    const double sum = sends(b, s, p, data, 2 * HALF * mine), half = sum / 2;
    const double once = p->zero == 0 ? 2 * sum : sum + half;
    const double each = p->zero < 2 ? 0 : p->zero == 2 ? micro * sum : micro * (sum + 2 * half);
    waits += p->zero < 2
                 ? LATE * once
                 : fmax(0, each - computes) + LATE * each / micro + (p->zero == 2 ? half : 0);
    const double chunks = p->schedule == PIPE_ZB_H1 ? ZB : p->chunks;
    return computes * (1 + (pp - 1) / micro / chunks) + waits;
}
