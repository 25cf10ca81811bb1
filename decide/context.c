/* context.c - along a dim that is split, whether keys go round a ring or heads are exchanged
 * (passes/spmd/shard_heads.c), by plans that are made with both.
 *
 * A ring sends keys and values n - 1 times, and their gradients; an exchange sends a part of
 * queries, keys, values and results once. In a ring without zigzag order the last rank computes
 * twice as long as others. Where machines are between ranks an exchange goes through the link of
 * each, and a ring through one at a time. So the plan's seconds decide, with what the backward pass
 * keeps by default, as the frontier is chosen afterwards. An exchange has positions in their order:
 * where it is taken, `zigzag` goes.
 *
 * Two plans are made for a rule of a dim that attention runs along, and none for others (ways.h).
 */
#include "decide/context.h"

#include "decide/ways.h"
#include "passes/spmd/shard_heads.h"

#include <string.h>

enum { RING, HEADS };

/* Does another rule split a dim in zigzag order there? It follows this one: what lies along both is
 * dealt out alike. */
static bool others_zigzag(const Layout *l, size_t rule, Axes axis)
{
    bool any = false;
    for (size_t k = 0; k < l->rules.n; k++)
        any |= k != rule && (l->rules.data[k].zigzag & axis);
    return any;
}

static void choose(Module *m, const Device *d, size_t rule, Axes axis)
{
    Layout as[2] = {m->layout, m->layout};
    LayoutRule *ring = ways_rule(&as[RING], rule, m->arena),
               *heads = ways_rule(&as[HEADS], rule, m->arena);
    ring->ring |= axis;
    heads->heads |= axis;
    heads->zigzag &= ~axis;
    Module with = *m;
    with.layout = as[HEADS];
    if ((ring->zigzag & axis && others_zigzag(&m->layout, rule, axis)) ||
        !exchange_is_possible(&with, heads, axis))
        return;
    double seconds[2];
    const int better = ways_better(m, d, as, "context", seconds);
    memcpy((better ? heads : ring)->compared, seconds, sizeof seconds);
    m->layout = as[better];
}

void context_choose(Module *m, const Device *device)
{
    const Device concurrent = ways_device(device);
    for (size_t r = 0; r < m->layout.rules.n && module_fn(m, "train"); r++)
        for (int k = 0; k < m->layout.rules.data[r].n; k++) {
            const LayoutRule *rule = &m->layout.rules.data[r];
            const Axes axis = (Axes)1 << rule->axis[k];
            if (!rule->of && !(rule->heads | (rule->ring & axis)))
                choose(m, &concurrent, r, axis);
        }
}
