/* stages.c - how many layers each stage of a pipeline has; see shard.h.
 *
 * The first rank also computes what comes before the layers, the last what comes after them (the
 * logits, mostly): they have fewer layers where that makes the slowest rank faster. What is
 * compared are a microbatch's arithmetic and bytes, forward and backward.
 *
 * Each chunk has room for the layers of the largest stage. So with several chunks a rank no stage
 * has more layers than it must: one more in one of them would take a layer's memory in each chunk
 * of each rank, twice as much where stages are of one layer. Whether that memory is worth it, plans
 * say (decide/stages.c), and a layout may say the numbers itself. */
#include "ir/cost.h"
#include "pipeline/pipeline.h"
#include "passes/spmd/shard.h"
#include "ir/propose.h"

#include <string.h>

/* Operations that a device does while it moves a byte, about: of processors some ten, of GPUs,
 * which move little beside products, more. */
enum { PER_BYTE = 20, PER_EXP = 10 };

typedef struct Weight {
    double layer, before, after; /* of one layer; outside of them on the first and the last rank */
    int64_t layers;
} Weight;

/* Per stage, how many layers. */
typedef VEC(int64_t) Cut;

static double weight_of(const Module *m, const Ins *i)
{
    Cost c = ir_cost(m, i);
    return c.flops + PER_EXP * c.exps + PER_BYTE * c.bytes;
}

typedef struct Weigher {
    const Module *m;
    const StageSet *available, *needed;
    Weight w;
} Weigher;

static void weigh(Weigher *s, const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        if (ir_is_staged(s->m, i)) {
            s->w.layers = i->attrs.dim.size;
            s->w.layer += weight_of(s->m, i) / (double)i->attrs.dim.size;
            continue;
        }
        StageSet at = i->nout ? s->available[i->out[0]] : 0;
        if (at == AT_ALL)
            at = s->needed[i->out[0]];
        if (at == AT_ALL || !at)
            continue; /* on all ranks alike */
        s->w.before += at & AT_FIRST ? weight_of(s->m, i) : 0;
        s->w.after += at & AT_LAST ? weight_of(s->m, i) : 0;
    }
}

/* Of the loop over microbatches, which is a function's only one with layers in it. */
static Weight weights(const Module *m, Arena *tmp)
{
    const Fn *fn = module_fn(m, "train") ? module_fn(m, "train") : m->fns.data[0];
    Weigher s = {.m = m,
                 .available = ir_available(m, fn->body, fn, tmp),
                 .needed = ir_stage_set(m, fn, tmp)};
    for (size_t k = 0; k < fn->body->ins.n; k++)
        if (fn->body->ins.data[k]->op == OP_repeat)
            weigh(&s, fn->body->ins.data[k]->body);
    return s.w;
}

/* Gives layer after layer to the rank that then has the least to do, the last of several; to none
 * more than `most`. */
static void share_out(const Weight *w, int64_t ranks, int chunks, int64_t most, int64_t *layers)
{
    int64_t left = w->layers;
    for (int64_t r = 0; r < ranks; r++) {
        layers[r] = chunks - (r == 0) - (r == ranks - 1); /* a stage between has one at least */
        left -= layers[r];
    }
    for (; left > 0; left--) {
        int64_t best = -1;
        double least = 0;
        for (int64_t r = 0; r < ranks; r++) {
            double load = (double)(layers[r] + 1) * w->layer + (r == 0 ? w->before : 0) +
                          (r == ranks - 1 ? w->after : 0);
            if (layers[r] < most && (best < 0 || load <= least)) {
                best = r;
                least = load;
            }
        }
        layers[best]++;
    }
}

/* The stages of a rank have as many layers each; the first and the last of all have fewer where
 * that does not come out even. */
static void cut(const Module *m, const Weight *w, Cut *c, Arena *a)
{
    const Pipeline *p = &m->layout.pipeline;
    const int64_t ranks = mesh_size(m, p->axis), stages = mesh_stages(m),
                  even = (w->layers + stages - 1) / stages;
    int64_t *of_rank = NEW_ARRAY(a, int64_t, ranks);
    share_out(w, ranks, p->chunks, p->chunks > 1 ? p->chunks * even : w->layers, of_rank);
    for (int s = 0; s < stages; s++) {
        const int rank = mg_rank_of_stage(MG_LOOP, (int)ranks, s);
        int64_t n = of_rank[rank], chunk = s / ranks, rest = n % p->chunks;
        bool more = rank == 0 ? chunk >= p->chunks - rest : chunk < rest;
        vec_push(a, c, n / p->chunks + more);
    }
}

static void take(Module *m, const int64_t *layers, size_t stages)
{
    Pipeline *p = &m->layout.pipeline;
    p->layers.data = NULL; /* what it was may be another module's, too */
    p->layers.n = p->layers.cap = 0;
    p->max_layers = 0;
    for (size_t s = 0; s < stages; s++) {
        vec_push(m->arena, &p->layers, layers[s]);
        p->max_layers = layers[s] > p->max_layers ? layers[s] : p->max_layers;
    }
}

/* ---- numbers that the layout says ------------------------------------------------------------ */

/* Proposes the numbers of a cut. */
static void propose_cut(const Module *m, const Cut *c, Arena *tmp)
{
    const char *text = "[";
    for (size_t s = 0; s < c->n; s++)
        text = arena_printf(tmp, "%s%s%lld", text, s ? ", " : "", (long long)c->data[s]);
    text = arena_printf(tmp, "%s]", text);
    if (m->layout.pipeline.cut_span.file)
        diag_remedy(m->diag, &(Remedy){1, {{m->layout.pipeline.cut_span, text}}}, "stages = %s",
                    text);
}

/* As many numbers as stages, and as many layers in them as there are. */
static bool is_a_cut(const Module *m, const Weight *w, const Cut *own, Arena *tmp)
{
    const Pipeline *p = &m->layout.pipeline;
    const Span at = p->cut_span.file ? p->cut_span : p->span;
    const int stages = mesh_stages(m);
    const char *dim = name_str(m->names, p->dim);
    int64_t sum = 0;
    for (size_t s = 0; s < p->layers.n; s++)
        sum += p->layers.data[s] < INT64_MAX - sum ? p->layers.data[s] : INT64_MAX - sum;
    if (p->layers.n != (size_t)stages)
        diag_error(m->diag, at, 344,
                   "%zu numbers of layers for %d stages: %lld ranks of %d chunk%s", p->layers.n,
                   stages, (long long)mesh_size(m, p->axis), p->chunks, p->chunks == 1 ? "" : "s");
    else if (sum != w->layers)
        diag_error(m->diag, at, 344, "%lld layers in stages, and '%s' has %lld", (long long)sum,
                   dim, (long long)w->layers);
    else
        return true;
    propose_cut(m, own, tmp);
    if (p->layers.n == (size_t)stages)
        propose_size(m->diag, dim, sum);
    return false;
}

/* ---- schedules ------------------------------------------------------------------------------- */

/* Another size of microbatches, the nearest first; else another batch. */
static void propose_microbatches(const Module *m, const PipeForm *f)
{
    const int64_t ranks = mesh_batch_ranks(m), mine = m->batch.size / ranks,
                  now = m->layout.microbatch;
    for (int64_t off = 1; off < mine; off++)
        for (int64_t n = now - off; n <= now + off; n += 2 * off) {
            PipeForm other = *f;
            if (n < 1 || mine % n)
                continue;
            other.microbatches = (int)(mine / n);
            if (pipe_legal(&other) && propose_microbatch(m->diag, &m->layout, n))
                return;
        }
    for (int step = -1; step <= 1; step += 2) {
        int n = pipe_legal_microbatches(f, step);
        if (n)
            propose_size(m->diag, name_str(m->names, m->batch.name), n * now * ranks);
    }
}

/* Is there such a schedule for the microbatches of a step? */
static bool has_schedule(const Module *m)
{
    const Pipeline *p = &m->layout.pipeline;
    PipeForm f = {.ranks = (int)mesh_size(m, p->axis), .chunks = p->chunks, .group = p->group};
    f.microbatches = (int)mesh_microbatches(m);
    for (int s = 0; s < PIPE_SCHEDULES; s++) {
        f.schedule = (PipeSchedule)s;
        if (strcmp(name_str(m->names, p->schedule), pipe_schedule_name(f.schedule)) != 0)
            continue;
        Arena *tmp = arena_new();
        bool made = pipe_make(tmp, m->diag, &f) != NULL;
        arena_free(tmp);
        if (!made) {
            diag_note(m->diag, p->span, "the pipeline is this one");
            propose_microbatches(m, &f);
        }
        return made;
    }
    return true; /* a table of its own */
}

/* As many layers as stages need, or as few ranks as those layers are enough for. */
static void propose_stages(const Module *m, const Weight *w, int n)
{
    const Pipeline *p = &m->layout.pipeline;
    if (w->layers > 1)
        propose_size(m->diag, name_str(m->names, p->dim), n);
    for (int64_t ranks = (w->layers + 2) / p->chunks; ranks > 0; ranks--)
        for (size_t i = 0; i < m->layout.mesh.n; i++)
            if (p->axis >> i & 1 && ranks < m->layout.mesh.data[i].size &&
                propose_size(m->diag, name_str(m->names, m->layout.mesh.data[i].name), ranks))
                return;
}

bool stages_choose(Module *m)
{
    Pipeline *p = &m->layout.pipeline;
    if (!p->axis)
        return true;
    Arena *tmp = arena_new();
    const Weight w = weights(m, tmp);
    const int n = mesh_stages(m);
    const bool said = p->layers.n > 0;
    bool enough = n <= MAX_STAGES && w.layers > 1 && (said || w.layers >= n - 2);
    Cut own = {0};
    if (!enough) {
        diag_error(m->diag, p->span, 344,
                   "%d stages of %lld layer%s: all but the first and the last have one", n,
                   (long long)w.layers, w.layers == 1 ? "" : "s");
        propose_stages(m, &w, n);
    } else {
        cut(m, &w, &own, tmp);
        enough = !said || is_a_cut(m, &w, &own, tmp);
    }
    if (enough && said)
        take(m, p->layers.data, p->layers.n);
    else if (enough)
        take(m, own.data, own.n);
    arena_free(tmp);
    return enough && (!module_fn(m, "train") || has_schedule(m));
}
