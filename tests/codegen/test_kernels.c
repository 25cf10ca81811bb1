/* Generated kernels of the processor, by LLVM or in C (NATIVE_OPEN), against the reference
 * interpreter: compare.h. */
#include "tests/codegen/compare.h"
#include "tests/codegen/native.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void open_native(Comparison *c, Model *t, const Plan *p)
{
    c->kernels = NEW(t->a, Native);
    NATIVE_OPEN(c->kernels, t, p);
}

static void close_native(Comparison *c)
{
    native_close(c->kernels);
}

/* All units at once, or in random pieces, the pieces in random order. */
static void run_in_pieces(Comparison *c, const Plan *p, const Action *act, void *const *at, int way)
{
    const Native *native = c->kernels;
    int64_t units = p->kernels.data[act->kernel].units, cut[17];
    int n = way ? 1 + draw_int(&c->rng, 16) : 1;
    for (int i = 0; i <= n; i++)
        cut[i] = units * i / n;
    for (int i = 1; i < n; i++) /* not just where they are equal */
        if (cut[i - 1] + 1 < cut[i] && draw_int(&c->rng, 2))
            cut[i]--;
    int first = draw_int(&c->rng, n);
    for (int i = 0; i < n; i++) {
        int k = (first + i) % n;
        native->kernel[act->kernel](at, cut[k], cut[k + 1]);
    }
}

static const Comparison like = {
    .open = open_native,
    .run = run_in_pieces,
    .close = close_native,
    .halves = true,
    .term_by_term = TERM_BY_TERM,
};

int main(void)
{
    return compare_all(&like, PROGRAMS);
}
