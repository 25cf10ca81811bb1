/* summary.c - the one line after a compile; see session.h. */
#include "compiler/session.h"

#include <math.h>

const char *text_bytes(Arena *a, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t u = 0;
    while (fabs(bytes) >= 1000 && u + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        u++;
    }
    return arena_printf(a, u && bytes < 100 ? "%.3g %s" : "%.0f %s", bytes, units[u]);
}

const char *text_seconds(Arena *a, double seconds)
{
    if (seconds < 1e-3)
        return arena_printf(a, "%.3g us", seconds * 1e6);
    if (seconds < 1)
        return arena_printf(a, "%.3g ms", seconds * 1e3);
    if (seconds < 600)
        return arena_printf(a, "%.3g s", seconds);
    return arena_printf(a, "%.0f s", seconds);
}

void print_summary(const Session *s, const Compiled *c, FILE *out)
{
    const Plan *p = c->plan;
    const Device *d = p->device;
    double rate = peak_flops(d, &c->module->train);
    double seconds = p->train->seconds;
    int64_t peak = p->arena_bytes + p->scratch_bytes * d->threads;
    fprintf(out,
            "%s: 1 rank, layout %s on %s; peak %s of %s; step %s predicted; MFU %.0f%%; no "
            "communication\n",
            name_str(s->names, c->module->name), name_str(s->names, c->module->layout.name),
            d->name, text_bytes(s->arena, (double)peak), text_bytes(s->arena, (double)d->memory),
            text_seconds(s->arena, seconds),
            seconds > 0 ? 100 * p->train->flops / (seconds * rate) : 0.0);
}
