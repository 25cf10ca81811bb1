/* emit_alike.c - what the runtime compares for --health: the actions that make the same of the same
 * rows on all replicas (mg_program.alike), and what lies in memory at the guard (mg_program.held).
 */
#include "codegen/emit/emit.h"
#include "plan/alike.h"
#include "plan/held.h"

#include <string.h>

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
            fputs(
                "/* Actions before the guard that make the same of the same rows on all replicas: "
                "from, and behind\n * the last. */\n"
                "static const mg_actions alike[] = {",
                e->out);
        fprintf(e->out, "%s{%u, %u}", n++ % 8 ? ", " : n > 1 ? ",\n    " : "\n    ", from, to);
    }
    if (n)
        fputs("\n};\n\n", e->out);
    return n;
}

bool emit_held(Emitter *e)
{
    const HeldList all = plan_held(e->a, e->p);
    if (all.n)
        fputs("/* Bytes that are made before the guard and read behind it, how many times, how far "
              "apart. */\n"
              "static const mg_held held[] = {",
              e->out);
    size_t column = EMIT_WIDTH;
    for (size_t i = 0; i < all.n; i++) {
        const mg_held *h = &all.data[i];
        const char *text =
            arena_printf(e->a, "{%lld, %lld, %lld, %lld, %d},", (long long)h->offset,
                         (long long)h->bytes, (long long)h->n, (long long)h->stride, h->at);
        const bool fits = column + 1 + strlen(text) <= EMIT_WIDTH;
        fprintf(e->out, "%s%s", fits ? " " : "\n    ", text);
        column = (fits ? column + 1 : 4) + strlen(text);
    }
    if (all.n)
        fputs("\n};\n\n", e->out);
    return all.n;
}
