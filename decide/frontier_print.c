/* frontier_print.c - what repeats may keep, and the fastest choices for some memories, as text. */
#include "base/quantity.h"
#include "decide/frontier_open.h"

enum { LINES = 12 };

/* "layers 0..7 in segments of 4 keep q k; 8..11 keep gate up" */
static const char *described(const Frontier *f, const KeepChoice *c)
{
    const char *all = "";
    int64_t at = 0;
    for (int r = 0; r < c->n; r++) {
        int l = c->range[r].loop;
        const KeepKind *k = &f->kind[l][c->range[r].kind];
        at = r && c->range[r - 1].loop == l ? at : 0;
        all = arena_printf(f->a, "%s%s%s %lld..%lld", all, r ? "; " : "",
                           name_str(f->m->names, f->loop[l]->attrs.dim.name), (long long)at,
                           (long long)(at + c->range[r].iterations - 1));
        if (k->segment > 1)
            all = arena_printf(f->a, "%s in segments of %lld", all, (long long)k->segment);
        all = arena_printf(f->a, "%s keep %s%s", all, f->option[l][k->option].names,
                           k->far ? ", offloaded" : "");
        at += c->range[r].iterations;
    }
    return all;
}

static void print_options(const Frontier *f, int l, FILE *out)
{
    const char *name = name_str(f->m->names, f->loop[l]->attrs.dim.name);
    fprintf(
        out,
        "%s: %lld iterations; what each may keep, and what it takes to compute the rest again\n",
        name, (long long)f->problem.iterations[l]);
    fprintf(out, "  %14s %12s  %s\n", "bytes each", "time each", "keeps");
    for (int k = 0; k < f->problem.kinds[l]; k++) {
        const KeepKind *kind = &f->kind[l][k];
        if (kind->segment == 1)
            fprintf(out, "  %14s %12s  %s%s\n",
                    text_bytes(f->a, (double)(kind->stored + kind->far)),
                    kind->seconds > 0 ? text_seconds(f->a, kind->seconds) : "0",
                    f->option[l][kind->option].names, kind->far ? ", offloaded" : "");
    }
}

void frontier_print(const Module *m, const Device *d, FILE *out)
{
    if (m->layout.pipeline.axis) {
        fputs("the layers of a pipeline all keep the same\n", out);
        return;
    }
    Frontier *f = frontier_open(m, d);
    KeepChoice fastest, smallest, c;
    if (!f || !frontier_within(f, INT64_MAX / 4, &fastest) ||
        !frontier_least(f, INT64_MAX / 4, &smallest)) {
        fputs("there is no repeat whose backward part reads what its forward part computes\n", out);
        if (f)
            frontier_close(f);
        return;
    }
    const KeepWhole usual = frontier_whole(m, d, NULL, NULL);
    for (int l = 0; l < f->loops; l++)
        print_options(f, l, out);
    fprintf(out, "\nthe fastest for each memory: bytes beyond the %s that are always live\n",
            text_bytes(f->a, (double)usual.persistent));
    fprintf(out, "  %14s %12s %7s  %s\n", "peak", "step", "slower", "what is kept");
    int64_t last = -1;
    for (int i = 0; i <= LINES; i++) {
        int64_t limit = smallest.peak + (fastest.peak - smallest.peak) / LINES * i;
        if (!frontier_within(f, i == LINES ? fastest.peak : limit, &c) || c.peak == last)
            continue;
        last = c.peak;
        fprintf(out, "  %14s %12s %6.2f%%  %s\n", text_bytes(f->a, (double)c.peak),
                text_seconds(f->a, f->fastest + c.seconds), 100 * c.seconds / f->fastest,
                described(f, &c));
    }
    frontier_close(f);
}
