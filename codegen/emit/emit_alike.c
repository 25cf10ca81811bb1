/* emit_alike.c - the actions that make the same of the same rows on all replicas, for the runtime's
 * --health (mg_program.alike): runs of numbers. */
#include "codegen/emit/emit.h"
#include "plan/alike.h"

/* True if the program has any. */
bool emit_alike(Emitter *e)
{
    const bool *alike = plan_alike(e->a, e->p);
    int n = 0;
    for (uint32_t from = 0, to; alike && from < e->p->nactions; from = to) {
        for (to = from + 1; to < e->p->nactions && alike[to] == alike[from]; to++)
            ;
        if (!alike[from])
            continue;
        if (!n)
            fputs("/* Actions before the guard that make the same of the same rows on all replicas: "
                  "from, and behind\n * the last. */\n"
                  "static const mg_actions alike[] = {",
                  e->out);
        fprintf(e->out, "%s{%u, %u}", n++ % 8 ? ", " : n > 1 ? ",\n    " : "\n    ", from, to);
    }
    if (n)
        fputs("\n};\n\n", e->out);
    return n;
}
