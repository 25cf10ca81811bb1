/* texts.c - see texts.h. */
#include "tests/plan/texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "decide/make.h"

bool texts_elaborate(Model *t, const Ast *ast, ElaborateOptions o, int64_t texts)
{
    o.sequences = texts;
    o.prefill = PREFILL;
    o.precision = "f64";
    t->m = mg_elaborate(t->a, ast->names, t->m->diag, ast, &o);
    return t->m != NULL;
}

void texts_alone(Module *m)
{
    m->layout.mesh.n = m->layout.rules.n = 0;
    m->layout.pipeline = (Pipeline){0};
    m->layout.microbatch = m->batch.size;
}

bool texts_passes(Model *t)
{
    PlanJob job = {.m = t->m,
                   .a = t->a,
                   .after = "evaluate",
                   .upto = "quantize",
                   .decided = true,
                   .log = stderr};
    must_pass(t, pass_attention);
    const bool fine = plan_make(&job) == PASS_ok;
    t->m = job.m;
    return fine;
}

/* ---- one rank -------------------------------------------------------------------------------- */

static Tensor64 *argument(const Fn *fn, Tensor64 *args, ArgRole role)
{
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->args.data[k].role == role)
            return &args[k];
    return NULL;
}

/* Tokens of each text, behind those that it has; and caches as the turn before left them. */
static Tensor64 *arguments(Texts *x, const Fn *fn, int64_t *begin, const Tensor64 *caches,
                           uint64_t *rng)
{
    Tensor64 *args = inputs_for(&x->t, fn, 5, -0.8, 0.8), *tokens = argument(fn, args, ARG_tokens);
    const int64_t n = tokens->type.dims[1].size, most = x->t.m->seq.size;
    for (int64_t k = 0; k < tokens->type.dims[0].size; k++) {
        int64_t count = fn->whole ? n * (draw_int(rng, 4) > 0) : draw_int(rng, (int)n + 1);
        count = begin[k] + count > most ? 0 : count;
        argument(fn, args, ARG_begin)->data[k] = (double)begin[k];
        argument(fn, args, ARG_count)->data[k] = (double)count;
        for (int64_t i = 0; i < n; i++)
            tokens->data[k * n + i] = i < count ? draw_int(rng, (int)x->t.m->vocab) : 0;
        begin[k] += count;
    }
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->args.data[k].role == ARG_cache) {
            const Tensor64 *was = caches ? &caches[fn->args.data[k].tensor] : NULL;
            for (int64_t e = 0; e < type_elements(&args[k].type); e++)
                args[k].data[e] = was ? was->data[e] : 0;
        }
    return args;
}

void texts_run(Texts *x)
{
    enum { MOST = 256 };
    Tensor64 caches[MOST];
    int64_t *begin = NEW_ARRAY(x->t.a, int64_t, x->t.m->batch.size);
    uint64_t rng = 3;
    for (int n = 0; n < TURNS; n++) {
        Turn *turn = &x->turn[n];
        turn->name = n % 3 ? "decode" : "prefill";
        const Fn *fn = module_fn(x->t.m, turn->name);
        turn->args = arguments(x, fn, begin, n ? caches : NULL, &rng);
        turn->want = run_fn(&x->t, fn, turn->args);
        for (size_t k = 0; k < fn->results.n; k++)
            if (fn->results.data[k].role == RES_cache) {
                assert_true(fn->results.data[k].tensor < MOST);
                caches[fn->results.data[k].tensor] = turn->want[k];
            }
    }
}

/* ---- many ------------------------------------------------------------------------------------ */

bool texts_shard(ManyTexts *y)
{
    if (try_pass(&y->t, pass_shard) != PASS_ok)
        return false;
    must_pass(&y->t, pass_simplify);
    y->prefill = lies(&y->t, "prefill");
    y->decode = lies(&y->t, "decode");
    return true;
}

Lies *texts_lies(ManyTexts *y, const Turn *turn)
{
    return strcmp(turn->name, "decode") ? &y->prefill : &y->decode;
}

Compared texts_compare(const Texts *x, ManyTexts *y, const Turn *turn)
{
    return run_many(&x->t, turn->args, turn->want, &y->t, turn->name, texts_lies(y, turn));
}

Compared texts_compare_planned(const Texts *x, ManyTexts *y, const Plan *p, const Turn *turn,
                               uint64_t *order)
{
    return run_many_planned(&x->t, turn->args, turn->want, &y->t, p, turn->name,
                            texts_lies(y, turn), order);
}

Plan *texts_plan(ManyTexts *y)
{
    must_pass(&y->t, pass_local);
    y->t.m->layout.overlap = true;
    lower_physical(&y->t);
    return plan_for(&y->t, &test_device);
}
