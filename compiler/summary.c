/* summary.c - the one line after a compile; see session.h. */
#include "compiler/session.h"

void print_summary(const Session *s, const Compiled *c, FILE *out)
{
    const Plan *p = c->plan;
    const Device *d = p->device;
    double rate = peak_flops(d, &c->module->train);
    double seconds = p->train->seconds;
    int64_t peak = plan_bytes(p);
    fprintf(out,
            "%s: 1 rank, layout %s on %s; peak %s of %s; step %s predicted; MFU %.0f%%; no "
            "communication\n",
            name_str(s->names, c->module->name), name_str(s->names, c->module->layout.name),
            d->name, text_bytes(s->arena, (double)peak), text_bytes(s->arena, (double)d->memory),
            text_seconds(s->arena, seconds),
            seconds > 0 ? 100 * p->train->flops / (seconds * rate) : 0.0);
}
