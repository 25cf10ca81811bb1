/* by_chunk.c - where a pipeline's ranks have several chunks, what a step gathers and reduces of all
 * layers is cut by chunk; part of passes gather_once and prefetch_gathers.
 *
 *   before:  x = repeat micro[8] (g) { ... repeat layers[6] relay (slice w) { a = all_gather w ...
 * } } r = reduce_scatter g after:   a0 = all_gather (window w [0, 3));  a1 = all_gather (window w
 * [3, 6));  a = join a0, a1 x = repeat micro[8] (g) { ... repeat layers[6] relay (slice a) { ... }
 * } r1 = reduce_scatter (window g [3, 6));  r0 = reduce_scatter (window g [0, 3)) r = join r0, r1
 *
 * So written they stand before and behind all microbatches. But a chunk needs its own parameters
 * alone, with its first microbatch, and has its gradients with its last one: the planner lets them
 * run beside the microbatches of other chunks, and while the rank waits (plan/order/beside.c). What
 * is sent, and summed, is the same, element by element.
 *
 * Joins are storage that the parts are computed in, one behind the other. */
#include "passes/spmd/by_chunk.h"
#include "ir/mesh.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

enum { PARTS = 24 /* that a join has at most */ };

typedef struct ByChunk {
    Module *m;
    Arena *tmp;
    Name layers;
    int chunks;
    int64_t of_chunk; /* layers */
    int64_t least;    /* bytes of a chunk that are worth a message */
} ByChunk;

static bool begin(ByChunk *u, Module *m, Arena *tmp)
{
    const Pipeline *l = &m->layout.pipeline;
    *u = (ByChunk){
        .m = m, .tmp = tmp, .layers = l->dim, .chunks = l->chunks, .of_chunk = l->max_layers};
    return l->axis && l->chunks <= PARTS;
}

static bool has_relay(const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k]->op == OP_repeat && r->ins.data[k]->attrs.relay)
            return true;
    return false;
}

bool is_rounds(const Ins *i)
{
    return i->op == OP_repeat && !i->attrs.relay && has_relay(i->body);
}

/* Is a value of all layers of a rank? */
static bool is_of_layers(const ByChunk *u, Value v)
{
    const Type *t = type_of(u->m, v);
    const int d = type_find(t, u->layers);
    return d >= 0 && t->dims[d].size == u->chunks * u->of_chunk;
}

static Value part_of_chunk(const ByChunk *u, Builder *b, Value v, int chunk)
{
    return build_window(b, v, u->layers, chunk * u->of_chunk, u->of_chunk);
}

/* All chunks, of each its part; named as a value is. */
static Value joined(const ByChunk *u, Builder *b, const Value *part, Value as)
{
    Type t = *type_of(u->m, part[0]);
    Dim *layers = &t.dims[type_find(&t, u->layers)];
    if (u->chunks == 1)
        return part[0];
    layers->size *= u->chunks;
    const Attrs a = {.dim = *layers};
    const Value all = build_typed(b, OP_join, &a, u->chunks, part, 1, &t, NULL)->out[0];
    u->m->values.data[all].name = u->m->values.data[as].name;
    return all;
}

/* ---- parameters ------------------------------------------------------------------------------ */

Value gather_by_chunk(Module *m, Builder *b, Value tensor, const Ins *last, Arena *tmp)
{
    const Ins *chain[8];
    int n = 0;
    for (const Ins *i = last; i && i->op == OP_all_gather && n < 8;
         i = m->values.data[i->in[0]].def)
        chain[n++] = i;
    ByChunk u;
    Value part[PARTS];
    if (!begin(&u, m, tmp) || !is_of_layers(&u, tensor))
        return 0;
    for (int k = 0; k < u.chunks; k++) {
        part[k] = part_of_chunk(&u, b, tensor, k);
        for (int i = n; i-- > 0;) {
            part[k] = build(b, OP_all_gather, &chain[i]->attrs, 1, &part[k]);
            m->values.data[part[k]].name = m->values.data[last->out[0]].name;
        }
    }
    return joined(&u, b, part, last->out[0]);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* A sum over ranks of what the rounds added up, and the sums of that over other axes. */
typedef struct Chain {
    const Ins *of[8];
    int n;
} Chain;

/* The chain that begins with i: each of its sums is read by the next alone. */
static Chain chain_from(const Uses *uses, Ins *const *ins, size_t n, Ins *i)
{
    Chain c = {{i}, 1};
    for (size_t k = 0; k < n && c.n < 8; k++)
        if (op_is(ins[k]->op, SUMS) && ins[k]->in[0] == c.of[c.n - 1]->out[0] &&
            uses->count[ins[k]->in[0]] == 1)
            c.of[c.n++] = ins[k];
    return c;
}

static bool is_cut(const ByChunk *u, const Uses *uses, const Ins *i)
{
    const Ins *rounds = op_is(i->op, SUMS) ? u->m->values.data[i->in[0]].def : NULL;
    return rounds && is_rounds(rounds) && uses->count[i->in[0]] == 1 && is_of_layers(u, i->in[0]) &&
           !(i->op == OP_reduce_scatter && i->attrs.dim.name == u->layers) &&
           !(i->attrs.axes & u->m->layout.pipeline.axis) &&
           type_bytes(type_of(u->m, i->in[0])) >= u->chunks * u->least;
}

static Value cut(const ByChunk *u, Builder *b, const Chain *c)
{
    Value part[PARTS];
    for (int k = u->chunks; k-- > 0;) { /* the last chunk has its gradients first */
        part[k] = part_of_chunk(u, b, c->of[0]->in[0], k);
        for (int n = 0; n < c->n; n++) {
            const Value was = c->of[n]->out[0];
            part[k] = build(b, c->of[n]->op, &c->of[n]->attrs, 1, &part[k]);
            u->m->values.data[part[k]].name = u->m->values.data[was].name;
        }
    }
    return joined(u, b, part, c->of[c->n - 1]->out[0]);
}

void reduce_by_chunk(Module *m, int64_t least, Arena *tmp)
{
    ByChunk u;
    Fn *fn = module_fn(m, "train");
    if (!fn || !least || !begin(&u, m, tmp) || u.chunks < 2)
        return;
    u.least = least;
    Region *r = fn->body;
    const Uses uses = ir_uses(m, r, tmp);
    const Region was = *r;
    const size_t values = m->values.n;
    Value *map = NEW_ARRAY(tmp, Value, values);
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < was.ins.n; k++) {
        Ins *i = was.ins.data[k];
        vec_push(m->arena, &r->ins, i);
        if (!is_cut(&u, &uses, i))
            continue;
        Builder b = builder_at(m, r, i);
        const Chain c = chain_from(&uses, was.ins.data, was.ins.n, i);
        map[c.of[c.n - 1]->out[0]] = cut(&u, &b, &c);
    }
    Value *all = NEW_ARRAY(tmp, Value, m->values.n);
    for (size_t v = 0; v < values; v++)
        all[v] = map[v];
    ir_replace(r, all);
    simplify_dce(m, fn, tmp);
}
