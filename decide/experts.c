/* experts.c - along an axis that experts are split on, whether grouped products gather their
 * matrices or rows are sent to them (passes/spmd/send_rows.c), by plans that are made with both.
 *
 * Matrices are as many bytes however few rows there are, and their gradients are reduced in each
 * iteration, or stored whole. Rows are sent twice forward and twice back; so that none is dropped,
 * a rank has room for all that a group may send it, which is more than the mean, and all room is
 * sent. Rows are multiplied as many as there are. The plan takes experts to be used alike. */
#include "decide/experts.h"

#include "decide/ways.h"
#include "passes/walk.h"

#include <string.h>

enum { GATHER, ROWS };

static void choose(Module *m, const Device *d, size_t rule, Axes axis)
{
    Layout as[2] = {m->layout, m->layout};
    LayoutRule *gather = ways_rule(&as[GATHER], rule, m->arena),
               *rows = ways_rule(&as[ROWS], rule, m->arena);
    gather->gather |= axis;
    rows->rows |= axis;
    double seconds[2];
    const int better = ways_better(m, d, as, "experts", seconds);
    memcpy((better ? rows : gather)->sent, seconds, sizeof seconds);
    m->layout = as[better];
}

void experts_choose(Module *m, const Device *device)
{
    const Device concurrent = ways_device(device);
    const Fn *train = module_fn(m, "train"), *fn = train ? train : module_fn(m, "decode");
    for (size_t r = 0; r < m->layout.rules.n && fn; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        if (!rule->of && rule->n == 1 && !(rule->rows | rule->gather | rule->once) &&
            rows_multiplied(fn->body, rule->dim))
            choose(m, &concurrent, r, (Axes)1 << rule->axis[0]);
    }
}
