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
    const int64_t ranks = levels_ranks(p->module, p->device), pieces = levels_pieces(p, l);
    const double each = (double)levels_bytes(p, l);
    const char *has = text_bytes(a, (double)p->device->level[l].memory),
               *of = pieces ? arena_printf(a, " (%s of it for transfers of the disk)",
                                           text_bytes(a, (double)pieces))
                            : "";
    if (!levels_bytes(p, l))
        return NULL;
    if (ranks == 1)
        return arena_printf(a, "%s of %s, offloaded%s", text_bytes(a, each), has, of);
    return arena_printf(a, "%s, offloaded%s; %lld ranks of a machine: %s of %s",
                        text_bytes(a, each), of, (long long)ranks,
                        text_bytes(a, each * (double)ranks), has);
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

double plan_on_host(const Program *g)
{
    double all = 0;
    for (size_t i = 0; i < g->actions.n; i++)
        all += action_on_host(&g->actions.data[i])
                   ? g->actions.data[i].seconds * g->actions.data[i].times
                   : 0;
    return all;
}

const char *plan_on_host_text(const Plan *p)
{
    Arena *a = p->module->arena;
    return plan_host_kernels(p)
               ? arena_printf(a, "on the host, %s a step", text_seconds(a, plan_on_host(p->train)))
               : NULL;
}

bool plan_has_buffer(const Buffer *b, Level level)
{
    return b->level == level && (buffer_always(b) || (b->program == 0 && b->first >= 0));
}
