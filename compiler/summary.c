/* summary.c - the one line after a compile; see session.h. */
#include "compiler/session.h"
#include "plan/volume.h"
#include "plan/place/place.h"

void print_summary(const Session *s, const Compiled *c, FILE *out)
{
    const Plan *p = c->plan;
    const Device *d = p->device;
    if (!p->train) {
        const int64_t texts = p->decode->batch * mesh_size(c->module, p->decode->batch_axes);
        const int64_t ranks = mesh_ranks(c->module);
        fprintf(
            out,
            "%s: generates %lld text%s of %lld tokens on %s%s in %s; peak %s of %s; %s tokens/s "
            "predicted\n",
            name_str(s->names, c->module->name), (long long)texts, texts > 1 ? "s" : "",
            (long long)c->module->seq.size,
            ranks > 1 ? arena_printf(s->arena, "%lld ranks of ", (long long)ranks) : "", d->name,
            precision_name(&c->module->train), text_bytes(s->arena, (double)plan_bytes(p)),
            text_bytes(s->arena, (double)d->memory),
            text_rate(s->arena, (double)texts / p->decode->seconds));
        return;
    }
    double rate = peak_flops(d, &c->module->train);
    double seconds = p->train->seconds;
    int64_t peak = plan_bytes(p);
    int64_t ranks = mesh_ranks(c->module);
    Volumes sent = plan_volumes(p->module, p->train);
    fprintf(
        out,
        "%s: %lld rank%s, layout %s on %s in %s; peak %s of %s; step %s predicted; MFU %.0f%%; ",
        name_str(s->names, c->module->name), (long long)ranks, ranks > 1 ? "s" : "",
        name_str(s->names, c->module->layout.name), d->name, precision_name(&c->module->train),
        text_bytes(s->arena, (double)peak), text_bytes(s->arena, (double)d->memory),
        text_seconds(s->arena, seconds),
        seconds > 0 ? 100 * p->train->flops / (seconds * rate) : 0.0);
    if (sent.n)
        fprintf(out, "communication %s, %.1f%% of the step, %.1f%% exposed\n",
                text_bytes(s->arena, sent.bytes), 100 * sent.seconds / seconds,
                100 * sent.exposed / seconds);
    else
        fputs("no communication\n", out);
}
