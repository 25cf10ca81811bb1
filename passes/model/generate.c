/* generate.c - @generate becomes @prefill and @decode, which go on from caches: see generate.h.
 *
 *   before:  @generate(params, tokens[batch, seq = S], pos)      -> logits at pos
 *   after:   @prefill(params, tokens[batch, seq = n], begin[batch], count[batch], cache...)
 *                                                                -> logits at the last one,
 * cache...
 *            @decode   the same with n = 1
 *
 * With `group` G @prefill has a batch of one sequence for G of @decode's, and caches of its own,
 * whose numbers follow on those of @decode: of a prompt that G texts begin with. Pass spread does
 * the rest.
 *
 * A position is computed from itself, and from what positions before it left in caches: keys and
 * values as attention takes them, the last elements of what is read behind (x[seq - 1]), the state
 * of a recurrence, how many positions chose an expert. What looks at later positions, or at all in
 * any other way, is refused. */
#include "passes/model/generate.h"
#include "passes/passes.h"
#include "passes/walk.h"

#include <string.h>

Value generate_refuse(Generate *g, const Ins *at, const char *why)
{
    if (!g->why) {
        g->wrong = at;
        g->why = why;
    }
    return 0;
}

/* ---- dims ------------------------------------------------------------------------------------ */

bool generate_is_alias(const Generate *g, Name d)
{
    for (size_t k = 0; k < g->alias.n; k++)
        if (g->alias.data[k] == d)
            return true;
    return false;
}

Dim generate_dim(const Generate *g, Dim d, Image image)
{
    if (image == NEAR && generate_is_alias(g, d.name))
        d.name = g->seq;
    if (d.name == g->seq)
        d.size = g->n;
    if (d.name == g->batch.name)
        d.size = g->batch.size;
    for (size_t k = 0; k < g->resized.n; k++)
        if (g->resized.data[k].name == d.name)
            d.size = g->resized.data[k].size;
    return d;
}

Type generate_type(const Generate *g, const Type *t, Image image)
{
    Type r = *t;
    for (int k = 0; k < r.rank; k++)
        r.dims[k] = generate_dim(g, r.dims[k], image);
    return r;
}

Attrs generate_attrs(const Generate *g, const Attrs *a, Image image)
{
    Attrs r = *a;
    r.along = generate_dim(g, r.along, image);
    r.dim = generate_dim(g, r.dim, image);
    r.to = generate_dim(g, r.to, image);
    r.keys = generate_dim(g, r.keys, image);
    for (int k = 0; k < r.over.n; k++)
        r.over.dim[k] = generate_dim(g, r.over.dim[k], image);
    return r;
}

/* ---- positions ------------------------------------------------------------------------------- */

static Builder at_top(const Generate *g)
{
    return (Builder){.m = g->m, .region = g->to->body};
}

Value generate_each(Generate *g, Builder *b, Value x)
{
    if (type_find(type_of(g->m, x), g->batch.name) >= 0)
        return x;
    return build_as(b, x, type_stacked(type_of(g->m, x), g->batch));
}

Value generate_place(Generate *g, DType t)
{
    Value *known = &g->place[t == DT_i32 ? 0 : t == DT_f64 ? 2 : 1];
    Builder b = at_top(g);
    const Dim seq = {.name = g->seq, .size = g->n};
    if (!*known)
        *known = build2(&b, OP_add, build_cast(&b, g->begin, t), build_iota(&b, t, seq));
    return *known;
}

void generate_start(Generate *g)
{
    Builder b = at_top(g);
    const Dim seq = {.name = g->seq, .size = g->n};
    const Value zero = build_const(&b, DT_i32, 0);
    const Value last = build_const(&b, DT_i32, (double)g->window - 1);
    g->at = build2(&b, OP_min, generate_place(g, DT_i32), last);
    g->valid = build2(&b, OP_gt, g->count, build_iota(&b, DT_i32, seq));
    g->fresh = build2(&b, OP_eq, g->begin, zero);
    g->active = build2(&b, OP_gt, g->count, zero);
}

/* ---- caches ---------------------------------------------------------------------------------- */

Value generate_cache(Generate *g, Frame *f, const Type *t, size_t *number)
{
    while (f->outer && !f->loop)
        f = f->outer;
    if (f->loop) {
        const Type stacked = type_stacked(t, f->loop->attrs.dim);
        return repeat_slice(g->m, f->loop, generate_cache(g, f->outer, &stacked, number));
    }
    const FnArg arg = {.role = ARG_cache, .tensor = g->base + (uint32_t)g->left.n};
    *number = g->left.n;
    vec_push(g->tmp, &g->left, 0);
    vec_push(g->m->arena, &g->to->args, arg);
    return region_arg(g->m, g->to->body, *t, name_intern(g->m->names, "cache"));
}

void generate_leave(Generate *g, Frame *f, size_t number, Value v)
{
    for (; f; f = f->outer)
        if (f->loop)
            v = repeat_stack(g->m, f->loop, v);
    g->left.data[number] = v;
}

/* ---- images ---------------------------------------------------------------------------------- */

Frame *generate_frame(Frame *f, const Region *home)
{
    while (f->outer && f->from != home)
        f = f->outer;
    return f;
}

/* The type of a result: that of @generate, with the dim of the batch if an operand has it now. */
static Type result_type(const Generate *g, const Ins *i, uint32_t k, const Type *rule, Image image)
{
    const Type t = generate_type(g, type_of(g->m, i->out[k]), image);
    if (type_find(&t, g->batch.name) >= 0 || type_find(rule, g->batch.name) < 0)
        return OP_AMONG(i->op, OP_split, OP_merge, OP_join) ? *rule : t;
    return op_is(i->op, POINTWISE) || i->op == OP_cast ? type_stacked(&t, g->batch) : *rule;
}

/* The same instruction on the images of its operands. */
static bool plain(Generate *g, Frame *f, const Ins *i, Image image)
{
    Module *m = g->m;
    Value in[RULE_OPERANDS];
    Type rule[8], types[8];
    for (uint32_t k = 0; k < i->nin; k++) {
        in[k] = generate_image(g, f, i->in[k], image);
        if (!in[k])
            return false;
    }
    const Attrs a = generate_attrs(g, &i->attrs, image);
    const char *wrong = type_check(m, i->op, &a, (int)i->nin, in, 8, rule);
    if (wrong)
        return generate_refuse(g, i, wrong);
    for (uint32_t k = 0; k < i->nout; k++) {
        types[k] = result_type(g, i, k, &rule[k], image);
        if (types[k].rank > MAX_RANK)
            return generate_refuse(g, i, "a value would have more dims than 8");
    }
    Builder b = builder_at(m, f->to, i);
    Ins *made = build_typed(&b, i->op, &a, (int)i->nin, in, (int)i->nout, types, NULL);
    made->exact = i->exact;
    for (uint32_t k = 0; k < i->nout; k++) {
        m->values.data[made->out[k]].name = m->values.data[i->out[k]].name;
        map_set(m, &g->image[image], i->out[k], made->out[k]);
    }
    return true;
}

/* Along which of its dims does a value have positions? */
static bool has_positions(const Generate *g, const Type *t)
{
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k].name == g->seq || generate_is_alias(g, t->dims[k].name))
            return true;
    return false;
}

/* The elements at the new positions of what there is of each position of the window, and does not
 * depend on tokens. */
static Value looked_up(Generate *g, Value x, Image image)
{
    Module *m = g->m;
    Builder b = at_top(g);
    const Type t = *type_of(m, x);
    bool looked = false;
    for (int k = 0; k < t.rank; k++) {
        const Dim d = t.dims[k];
        if (d.name != g->seq && (image == FAR || !generate_is_alias(g, d.name)))
            continue;
        if (looked)
            return generate_refuse(g, NULL, "a parameter has the sequence twice");
        const Attrs rename = {.dim = d, .to = {.name = g->context, .size = d.size}};
        const Attrs gather = {.dim = rename.to};
        const Value table = build(&b, OP_rename, &rename, 1, &x);
        x = build(&b, OP_gather, &gather, 2, (Value[]){table, g->at});
        looked = true;
    }
    return x;
}

/* An argument of the function, or of a body that is in no frame. */
static Value argument(Generate *g, Value v, Image image)
{
    const int k = arg_index(g->m, v);
    const FnArg a = g->from->args.data[k];
    const Type *t = type_of(g->m, v);
    if (a.role == ARG_param || a.role == ARG_seed || a.role == ARG_step) {
        const Value same = map_get(&g->given, v);
        if (!has_positions(g, t))
            return same;
        if (type_find(t, g->batch.name) >= 0)
            return generate_refuse(g, NULL, "a parameter has the dim of the batch");
        return looked_up(g, same, image);
    }
    return generate_refuse(g, NULL, "an input is read along the keys");
}

Value generate_image(Generate *g, Frame *f, Value v, Image image)
{
    const ValueInfo *info = &g->m->values.data[v];
    const Type *t = &info->type;
    Frame *home = generate_frame(f, info->home);
    if (image == FAR) { /* only what has keys is different from near */
        bool keys = false;
        for (int k = 0; k < t->rank; k++)
            keys |= generate_is_alias(g, t->dims[k].name);
        image = keys ? FAR : NEAR;
    }
    const Value known = map_get(&g->image[image], v);
    if (known != v)
        return known;
    if (g->why)
        return 0;
    if (!info->def) {
        const Value x = home->outer ? generate_refuse(g, NULL, "an iteration reads along the keys")
                                    : argument(g, v, image);
        if (x)
            map_set(g->m, &g->image[image], v, x);
        return x;
    }
    bool done = false;
    const Ins *i = info->def;
    bool good =
        i->op == OP_repeat ? generate_loop(g, home, i) : generate_special(g, home, i, image, &done);
    if (good && i->op != OP_repeat && !done)
        good = plain(g, home, i, image);
    if (!good)
        return generate_refuse(g, i, "it has no meaning for some positions alone");
    return map_get(&g->image[image], v);
}

/* ---- what is needed
 * ------------------------------------------------------------------------------ */

static void mark(Generate *g, Value v)
{
    if (g->live[v])
        return;
    g->live[v] = true;
    const ValueInfo *info = &g->m->values.data[v];
    const Ins *i = info->def, *loop = info->home->owner;
    if (i && i->op == OP_repeat) {
        for (uint32_t k = 0; k < i->nout; k++)
            if (i->out[k] == v)
                mark(g, i->body->results.data[k]);
        for (uint32_t k = 0; k < (uint32_t)i->attrs.carried; k++)
            if (i->out[k] == v)
                mark(g, i->body->args.data[k]);
        return;
    }
    for (uint32_t k = 0; i && k < i->nin; k++)
        mark(g, i->in[k]);
    if (i || !loop)
        return;
    const uint32_t k = (uint32_t)arg_index(g->m, v);
    if (k < loop->nin)
        mark(g, loop->in[k]);
    if (k < (uint32_t)loop->attrs.carried)
        mark(g, loop->body->results.data[k]);
}

/* Names of the sequence, and dims whose size follows from it. */
static void look(void *ctx, Ins *i)
{
    Generate *g = ctx;
    const Attrs *a = &i->attrs;
    if (!i->nout || !g->live[i->out[0]])
        return;
    if (i->op == OP_rename && a->dim.name == g->seq)
        vec_push(g->tmp, &g->alias, a->to.name);
    if (i->op != OP_slots || a->along.name != g->seq)
        return;
    const Ins *top = g->m->values.data[i->in[0]].def; /* chooses no expert twice */
    Resized r = {.name = a->to.name, .size = g->n};
    for (int k = 0; k < a->over.n && (a->sorted || !top || top->op != OP_top); k++)
        r.size *= a->over.dim[k].size;
    vec_push(g->tmp, &g->resized, r);
}

/* ---- functions ------------------------------------------------------------------------------- */

static Value new_arg(Generate *g, ArgRole role, Type t, const char *name)
{
    vec_push(g->m->arena, &g->to->args, (FnArg){.role = role});
    return region_arg(g->m, g->to->body, t, name_intern(g->m->names, name));
}

static void arguments(Generate *g)
{
    const Type each = {.dtype = DT_i32, .rank = 1, .dims = {g->batch}};
    bool read = false;
    for (size_t k = 0; k < g->from->args.n; k++) {
        const FnArg a = g->from->args.data[k];
        const Value v = g->from->body->args.data[k];
        if (!g->live[v] || a.role == ARG_pos)
            continue;
        read |= a.role == ARG_tokens;
        vec_push(g->m->arena, &g->to->args, a);
        Type t = *type_of(g->m, v);
        if (a.role == ARG_tokens)
            t = generate_type(g, &t, NEAR);
        const Value x = region_arg(g->m, g->to->body, t, g->m->values.data[v].name);
        map_set(g->m, a.role == ARG_tokens ? &g->image[NEAR] : &g->given, v, x);
    }
    g->begin = new_arg(g, ARG_begin, each, "begin");
    g->count = new_arg(g, ARG_count, each, "count");
    if (!read)
        generate_refuse(g, NULL, "its logits do not depend on the tokens");
}

/* One of both functions; NULL: refused. */
static Fn *made(Generate *g, const char *name)
{
    Module *m = g->m;
    const Fn *from = g->from;
    g->to = NEW(m->arena, Fn);
    g->to->name = name_intern(m->names, name);
    g->to->body = region_new(m, NULL);
    Frame top = {.from = from->body, .to = g->to->body};
    arguments(g);
    generate_start(g);
    const Value logits = g->why ? 0 : generate_image(g, &top, from->body->results.data[0], NEAR);
    if (!logits)
        return NULL;
    Builder b = at_top(g);
    const Type t = generate_type(g, type_of(m, from->body->results.data[0]), NEAR);
    vec_push(m->arena, &g->to->results, from->results.data[0]);
    vec_push(m->arena, &g->to->body->results, build_as(&b, generate_each(g, &b, logits), t));
    for (size_t k = 0; k < g->left.n; k++) {
        const FnResult r = {.role = RES_cache, .tensor = g->base + (uint32_t)k};
        vec_push(m->arena, &g->to->results, r);
        vec_push(m->arena, &g->to->body->results, g->left.data[k]);
    }
    g->to->whole = g->whole;
    g->to->cuts = g->cuts;
    return g->to;
}

/* base: the number of its first cache; one of its sequences is `each` of @generate's. */
static Fn *make(Job *j, const Fn *from, const char *name, int64_t n, uint32_t base, int64_t each)
{
    Module *m = j->m;
    Generate g = {.m = m,
                  .tmp = j->tmp,
                  .from = from,
                  .batch = m->batch,
                  .seq = m->seq.name,
                  .window = m->seq.size,
                  .n = n < m->seq.size ? n : m->seq.size,
                  .cuts = m->seq.size,
                  .base = base,
                  .known = m->values.n};
    g.context =
        name_intern(m->names, arena_printf(m->arena, "%s.context", name_str(m->names, g.seq)));
    g.live = NEW_ARRAY(j->tmp, bool, m->values.n);
    const Type *logits = type_of(m, from->body->results.data[0]);
    g.batch.size = logits->dims[type_find(logits, m->batch.name)].size / each;
    mark(&g, from->body->results.data[0]);
    each_ins(from->body, look, &g);
    Fn *fn = g.why ? NULL : made(&g, name);
    if (fn)
        return fn;
    const Span at = g.wrong ? g.wrong->span : (Span){0};
    diag_error(m->diag, at, 535, "text cannot be generated position by position%s%s%s: %s",
               g.wrong ? ": '" : "", g.wrong ? op_info[g.wrong->op].name : "", g.wrong ? "'" : "",
               g.why);
    return NULL;
}

static uint32_t caches_of(const Fn *fn)
{
    uint32_t n = 0;
    for (size_t k = 0; k < fn->args.n; k++)
        n += fn->args.data[k].role == ARG_cache;
    return n;
}

PassStatus pass_generate(Job *j)
{
    Module *m = j->m;
    Fn *from = module_fn(m, "generate");
    size_t kept = 0;
    if (!from)
        return PASS_ok;
    Fn *decode = make(j, from, "decode", 1, 0, 1);
    const uint32_t base = decode && from->group ? caches_of(decode) : 0;
    Fn *prefill = decode
                      ? make(j, from, "prefill", from->prefill, base, from->group ? from->group : 1)
                      : NULL;
    if (!prefill)
        return PASS_error;
    for (size_t k = 0; k < m->fns.n; k++)
        if (m->fns.data[k] != from)
            m->fns.data[kept++] = m->fns.data[k];
    m->fns.n = kept;
    vec_push(m->arena, &m->fns, prefill);
    vec_push(m->arena, &m->fns, decode);
    return PASS_ok;
}
