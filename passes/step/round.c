/* round.c - pass round: parameters that are rounded to halves have a copy that is rounded already.
 *
 *   before:  @train(w, ...) { %h: bf16 = cast %w ... guard ... %new = ... }  -> update w
 *            @eval(w, ...)  { %h: bf16 = cast %w ... }
 *   after:   @train(w, h, ...) { ... guard ... %new = ..., %h2: bf16 = cast %new }
 *                                                                        -> update w, update h
 *            @eval(h, ...)  { ... }
 *            @round(w)      { %h: bf16 = cast %w }                       -> update h
 *
 * The copy is a tensor of its own, which lives from step to step: h = round(w) between any two
 * functions (I13, ir/rounded.c). Whatever sets w runs @round afterwards. A step that the guard ends
 * leaves both as they were; a frozen parameter has no new value, and neither has its copy.
 *
 * A parameter that nothing reads any more but @round and its own update is a `master`: it lies over
 * the mesh as its state does, and what is gathered after the update is the copy.
 *
 * why here: the update is written, and how tensors lie is not yet settled. */
#include "passes/passes.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

typedef struct Round {
    Module *m;
    Fn *fn;         /* at hand */
    uint32_t *copy; /* per tensor: its copy, or 0 */
    bool *read;     /* per tensor: a function reads it itself */
    ValueMap map;
} Round;

/* The parameter that v is, as an argument of the function; false: none. */
static bool parameter_of(const Round *r, Value v, uint32_t *tensor)
{
    const Region *body = r->fn->body;
    if (r->m->values.data[v].home != body || r->m->values.data[v].def)
        return false;
    for (size_t k = 0; k < body->args.n; k++)
        if (body->args.data[k] == v && r->fn->args.data[k].role == ARG_param) {
            *tensor = r->fn->args.data[k].tensor;
            return true;
        }
    return false;
}

static void new_copy(Round *r, uint32_t of)
{
    Module *m = r->m;
    Tensor t = m->tensors.data[of];
    t.name = name_intern(m->names,
                         arena_printf(m->arena, ROUNDED_SLOT ".%s", name_str(m->names, t.name)));
    t.slot = name_intern(m->names, ROUNDED_SLOT);
    t.rounded = true;
    t.type.dtype = m->train.half;
    t.init = INIT_const;
    t.formula = 0;
    t.follows = 0;
    t.a = t.b = 0;
    t.parameter = of;
    r->copy[of] = (uint32_t)m->tensors.n;
    vec_push(m->arena, &m->tensors, t);
}

/* The function's argument of a role for a tensor, which it may not have had yet. */
static Value argument(Round *r, ArgRole role, uint32_t tensor, Name name)
{
    for (size_t k = 0; k < r->fn->args.n; k++)
        if (r->fn->args.data[k].role == role && r->fn->args.data[k].tensor == tensor)
            return r->fn->body->args.data[k];
    vec_push(r->m->arena, &r->fn->args, (FnArg){role, tensor});
    return region_arg(r->m, r->fn->body, r->m->tensors.data[tensor].type, name);
}

static void read_copy(void *ctx, Value *use)
{
    *use = map_get(&((Round *)ctx)->map, *use);
}

/* Casts of parameters go, and what read them reads the copies. */
static void take_casts(Round *r, Region *in)
{
    size_t kept = 0;
    for (size_t n = 0; n < in->ins.n; n++) {
        Ins *i = in->ins.data[n];
        uint32_t of;
        if (i->body)
            take_casts(r, i->body);
        if (i->op != OP_cast || !dtype_is_half(type_of(r->m, i->out[0])->dtype) ||
            !parameter_of(r, i->in[0], &of)) {
            in->ins.data[kept++] = i;
            continue;
        }
        if (!r->copy[of])
            new_copy(r, of);
        map_set(r->m, &r->map, i->out[0],
                argument(r, ARG_rounded, r->copy[of], r->m->values.data[i->out[0]].name));
    }
    in->ins.n = kept;
}

static void note_read(void *ctx, Value *use)
{
    Round *r = ctx;
    uint32_t of;
    if (parameter_of(r, *use, &of))
        r->read[of] = true;
}

/* Notes the parameters that the function reads; behind the guard there are updates alone. */
static void note_reads(Round *r)
{
    const Region *body = r->fn->body;
    for (size_t k = 0; k < body->ins.n && body->ins.data[k]->op != OP_guard; k++)
        each_use(body->ins.data[k], note_read, r);
}

static void give_rounded(Round *r, uint32_t copy, Value from)
{
    Module *m = r->m;
    const Ins *def = m->values.data[from].def, *merge = NULL;
    Builder b = {.m = m, .region = r->fn->body};
    if (def && def->op == OP_merge) { /* made in blocks: the kernel that makes them rounds */
        merge = def;
        from = merge->in[0];
        def = m->values.data[from].def;
    }
    if (def)
        b = builder_at(m, r->fn->body, def);
    b.span = m->tensors.data[copy].span;
    vec_push(m->arena, &r->fn->results, (FnResult){RES_update, copy});
    Value half = build_cast(&b, from, m->train.half);
    if (merge)
        half = build(&b, OP_merge, &merge->attrs, 1, &half);
    vec_push(m->arena, &r->fn->body->results, half);
}

/* Each new value of a parameter is rounded as well. */
static void round_updates(Round *r)
{
    const size_t results = r->fn->results.n;
    for (size_t k = 0; k < results; k++) {
        const FnResult res = r->fn->results.data[k];
        if (res.role == RES_update && r->copy[res.tensor])
            give_rounded(r, r->copy[res.tensor], r->fn->body->results.data[k]);
    }
}

/* @round: all copies, of the parameters as they are. */
static void make_copies(Round *r, size_t tensors)
{
    Module *m = r->m;
    r->fn = NEW(m->arena, Fn);
    r->fn->name = name_intern(m->names, "round");
    r->fn->body = region_new(m, NULL);
    for (uint32_t t = 0; t < tensors; t++)
        if (r->copy[t])
            give_rounded(r, r->copy[t], argument(r, ARG_param, t, m->tensors.data[t].name));
    vec_push(m->arena, &m->fns, r->fn);
}

PassStatus pass_round(Job *j)
{
    Module *m = j->m;
    const size_t tensors = m->tensors.n, fns = m->fns.n;
    Round r = {.m = m};
    if (!m->train.half)
        return PASS_ok;
    r.copy = NEW_ARRAY(j->tmp, uint32_t, tensors * 2);
    r.read = NEW_ARRAY(j->tmp, bool, tensors * 2);
    for (size_t f = 0; f < fns; f++) {
        r.fn = m->fns.data[f];
        take_casts(&r, r.fn->body);
        for (size_t k = 0; k < r.fn->body->ins.n; k++)
            each_use(r.fn->body->ins.data[k], read_copy, &r);
        for (size_t k = 0; k < r.fn->body->results.n; k++)
            read_copy(&r, &r.fn->body->results.data[k]);
        simplify_dce(m, r.fn, j->tmp); /* slices of what is now sliced rounded are no reads */
        note_reads(&r);
    }
    for (size_t f = 0; f < fns; f++) {
        r.fn = m->fns.data[f];
        round_updates(&r);
    }
    for (size_t t = 0; t < tensors; t++)
        m->tensors.data[t].master = r.copy[t] && !r.read[t];
    if (m->tensors.n > tensors)
        make_copies(&r, tensors);
    return PASS_ok;
}
