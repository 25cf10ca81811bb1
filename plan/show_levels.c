/* show_levels.c - what lies on other levels of memory than the device's, and what its transfers
 * cost. */
#include "base/quantity.h"
#include "plan/levels.h"
#include "plan/show.h"

double plan_transfers(const Program *g, double *exposed)
{
    double all = 0;
    *exposed = 0;
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        all += action_transfers(a) ? a->seconds * a->times : 0;
        *exposed += action_transfers(a) ? a->exposed * a->times : 0;
    }
    return all;
}

const char *plan_level_text(const Plan *p, Level l)
{
    Arena *a = p->module->arena;
    const int64_t ranks = levels_ranks(p->module, p->device);
    const double each = (double)p->level_bytes[l];
    const char *has = text_bytes(a, (double)p->device->level[l].memory);
    if (!p->level_bytes[l])
        return NULL;
    if (ranks == 1)
        return arena_printf(a, "%s of %s, offloaded", text_bytes(a, each), has);
    return arena_printf(a, "%s, offloaded; %lld ranks of a machine: %s of %s", text_bytes(a, each),
                        (long long)ranks, text_bytes(a, each * (double)ranks), has);
}

const char *plan_transfers_text(const Plan *p)
{
    Arena *a = p->module->arena;
    double exposed;
    const double all = plan_transfers(p->train, &exposed);
    return all > 0 ? arena_printf(a, "%s a step, of them %s in which nothing computes",
                                  text_seconds(a, all), text_seconds(a, exposed))
                   : NULL;
}

bool plan_has_buffer(const Buffer *b, Level level)
{
    return b->level == level && (b->persistent || (b->program == 0 && b->first >= 0));
}
