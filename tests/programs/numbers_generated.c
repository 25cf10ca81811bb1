/* numbers_generated.c - the program that generates against whole windows, and over the layout's
 * ranks against one; see try.h. */
#include "tests/programs/try.h"

#include <string.h>

#include "tests/passes/generated.h"
#include "decide/make.h"
#include "plan/check/check.h"
#include "tests/plan/texts.h"
#include "tests/programs/gen.h"

/* Opens the text's program for as many texts as its layout says; false: refused. */
static bool open_texts(Model *t, const char *text)
{
    model_open(t);
    const uint32_t file = diag_add_file(t->m->diag, "program.mg", text, strlen(text));
    const Ast *ast = mg_parse(t->a, names_new(t->a), t->m->diag, file);
    return ast && texts_elaborate(t, ast, (ElaborateOptions){0}, -1);
}

/* Turns over ranks, by the module after pass local and by its plan, which is proved. */
static bool compare_ranks(const char *text)
{
    enum { MOST_RANKS = 16 };
    Texts x;
    ManyTexts y;
    uint64_t order = 9;
    if (!open_texts(&y.t, text) || mesh_ranks(y.t.m) == 1 || mesh_ranks(y.t.m) > MOST_RANKS ||
        !open_texts(&x.t, text))
        return false;
    texts_alone(x.t.m);
    if (!texts_passes(&x.t) || !texts_passes(&y.t) || !texts_shard(&y))
        return false;
    texts_run(&x);
    const Plan *p = texts_plan(&y);
    if (plan_check(p, stderr))
        differs("the plan of ranks that generate", 1);
    for (int n = 0; n < TURNS; n++) {
        const Turn *turn = &x.turn[n];
        const Fn *fn = module_fn(x.t.m, turn->name);
        texts_lies(&y, turn)->size = noise(&x.t, fn, turn->args, turn->want);
        const Compared c[2] = {texts_compare(&x, &y, turn),
                               texts_compare_planned(&x, &y, p, turn, &order)};
        for (int k = 0; k < 2; k++)
            if (!(c[k].worst <= BOUND))
                differs(c[k].where, c[k].worst);
    }
    return true;
}

/* Unless the logits of a token are off by no more than rounding explains. */
static void judge(Model *whole, const Generated *g, const char *what)
{
    if (g->worst <= BOUND)
        return;
    const Fn *fn = module_fn(whole->m, "sample");
    const double *size = noise(whole, fn, g->args, run_fn(whole, fn, g->args));
    if (!(g->worst <= BOUND * size[0]))
        differs(what, g->worst);
}

void compare_generated(const char *text, double work, Shared *s)
{
    enum { TURNS = 6 };
    const double WORK_MAX = 1e5;
    const int64_t head = (int64_t)(strlen(text) % 2); /* of some, rows are longer than tiles */
    Model generates, shares, whole;
    if (!(work <= WORK_MAX) || !strstr(text, ORDERED) ||
        !generated_open(&generates, "program.mg", text, NULL, GENERATED_TEXTS, head) ||
        !generated_open(&whole, "program.mg", text, NULL, 0, 0))
        return;
    const Generated g = generated_compare(&generates, &whole, TURNS, 5);
    judge(&whole, &g, "a generated token's logits");
    if (!generated_open_shared(&shares, "program.mg", text, NULL, head))
        differs("a program whose texts share a prompt", 1);
    const Generated behind = generated_compare_shared(&shares, &whole, TURNS, strlen(text));
    judge(&whole, &behind, "the logits of a token behind a prompt that texts share");
    s->compared |= g.tokens ? COMPARED_generated : 0;
    s->compared |= compare_ranks(text) ? COMPARED_ranks : 0;
}
