/* spread.c - texts that begin with one prompt take what it left in caches.
 *
 *   before:  @prefill(..., cache N, N + 1, ...)     one sequence for each G texts of @decode
 *            @decode(..., cache 0, 1, ... N - 1)
 *   after:   also @spread(count[batch], cache 0, ... 2 N - 1) -> cache 0, ... N - 1
 *
 * Text k takes of each cache the row of prompt k / G, if count[k] says so, and else keeps its own.
 * A cache is copied whole, whatever it keeps of a prompt: keys and values, latent rows, rings, the
 * state of a recurrence, counts. This is a program of one rank: a rank has the prompts of its own
 * texts (grammar/generates.c), so nothing is sent.
 *
 * Texts are looked at as [prompts, G], which is a view of a cache, so a kernel writes the rows that
 * are taken into it. */
#include "passes/passes.h"
#include "passes/step/parts.h"

typedef struct Spread {
    Module *m;
    Fn *to;
    Builder b;
    Dim prompt, again; /* [prompts], and G by the name of the texts */
    Value taken;       /* bool[prompt, again] */
} Spread;

static uint32_t caches_of(const Fn *fn, uint32_t *first)
{
    uint32_t n = 0;
    *first = UINT32_MAX;
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->args.data[k].role == ARG_cache) {
            const uint32_t number = fn->args.data[k].tensor;
            *first = number < *first ? number : *first;
            n++;
        }
    return n;
}

static const Type *cache_type(const Module *m, const Fn *fn, uint32_t number)
{
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->args.data[k].role == ARG_cache && fn->args.data[k].tensor == number)
            return type_of(m, fn->body->args.data[k]);
    return NULL;
}

static Value argument(Spread *s, ArgRole role, uint32_t number, Type t, const char *name)
{
    vec_push(s->m->arena, &s->to->args, (FnArg){.role = role, .tensor = number});
    return region_arg(s->m, s->to->body, t, name_intern(s->m->names, name));
}

/* A view of what there is of each text. */
static Value by_prompts(Spread *s, Value x)
{
    return build(&s->b, OP_split, &(Attrs){.dim = s->again, .to = s->prompt}, 1, &x);
}

static void one(Spread *s, uint32_t number, Value was, Value of_prompt)
{
    Module *m = s->m;
    const Attrs apart = {.dim = s->again, .to = s->prompt};
    const Attrs rename = {.dim = {.name = s->again.name, .size = s->prompt.size}, .to = s->prompt};
    const Value old = by_prompts(s, was);
    const Value row = build(&s->b, OP_rename, &rename, 1, &of_prompt);
    const Type t = *type_of(m, old);
    const Value in[3] = {s->taken, row, old};
    const Value now = build_typed(&s->b, OP_select, NULL, 3, in, 1, &t, NULL)->out[0];
    vec_push(m->arena, &s->to->results, ((FnResult){.role = RES_cache, .tensor = number}));
    vec_push(m->arena, &s->to->body->results, build(&s->b, OP_merge, &apart, 1, &now));
}

PassStatus pass_spread(Job *j)
{
    Module *m = j->m;
    const Fn *prefill = module_fn(m, "prefill"), *decode = module_fn(m, "decode");
    uint32_t first, own;
    if (!prefill || !decode || module_fn(m, "spread"))
        return PASS_ok;
    const uint32_t n = caches_of(decode, &own);
    if (caches_of(prefill, &first) != n || first != n || !n)
        return PASS_ok; /* both have the same caches, or none */
    Spread s = {.m = m, .to = NEW(m->arena, Fn)};
    Dim texts = m->batch;
    texts.size = fn_rows(m, decode);
    s.prompt = (Dim){.name = name_intern(m->names, arena_printf(m->arena, "%s.prompt",
                                                                name_str(m->names, texts.name))),
                     .size = fn_rows(m, prefill)};
    s.again = (Dim){.name = texts.name, .size = texts.size / s.prompt.size};
    s.to->name = name_intern(m->names, "spread");
    s.to->batch = decode->batch;
    s.to->body = region_new(m, NULL);
    s.b = (Builder){.m = m, .region = s.to->body};
    const Type each = {.dtype = DT_i32, .rank = 1, .dims = {texts}};
    const Value count = argument(&s, ARG_count, 0, each, "count");
    Value *cache = NEW_ARRAY(j->tmp, Value, 2 * (size_t)n);
    for (uint32_t k = 0; k < 2 * n; k++)
        cache[k] = argument(&s, ARG_cache, k, *cache_type(m, k < n ? decode : prefill, k), "cache");
    const Value told = by_prompts(&s, count);
    s.taken = build2(&s.b, OP_gt, told, build_const(&s.b, DT_i32, 0));
    for (uint32_t k = 0; k < n; k++)
        one(&s, k, cache[k], cache[n + k]);
    vec_push(m->arena, &m->fns, s.to);
    return PASS_ok;
}
