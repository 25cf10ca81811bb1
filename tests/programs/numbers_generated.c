/* numbers_generated.c - the program that generates against whole windows; see try.h. */
#include "tests/programs/try.h"

#include <string.h>

#include "tests/passes/generated.h"
#include "tests/programs/gen.h"

void compare_generated(const char *text, double work, Shared *s)
{
    enum { TURNS = 6 };
    const double WORK_MAX = 1e5;
    const int64_t head = (int64_t)(strlen(text) % 2); /* of some, rows are longer than tiles */
    Model generates, whole;
    if (!(work <= WORK_MAX) || !strstr(text, ORDERED) ||
        !generated_open(&generates, "program.mg", text, NULL, GENERATED_TEXTS, head) ||
        !generated_open(&whole, "program.mg", text, NULL, 0, 0))
        return;
    const Generated g = generated_compare(&generates, &whole, TURNS, 5);
    if (!(g.worst <= BOUND)) {
        const Fn *fn = module_fn(whole.m, "sample");
        const double *size = noise(&whole, fn, g.args, run_fn(&whole, fn, g.args));
        if (!(g.worst <= BOUND * size[0]))
            differs("a generated token's logits", g.worst);
    }
    s->compared |= g.tokens ? COMPARED_generated : 0;
}
