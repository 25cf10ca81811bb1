/* show_pieces.c - into how many pieces collectives are cut (decide/pieces.c), as text and JSON; and
 * whether a step gathers what it updates in parts (decide/once.c). */
#include "plan/show.h"

#include <jansson.h>

static const char *const part_names[] = {"forward", "backward"};

/* Into how many pieces collectives are cut, and what else is. */
void plan_print_pieces(const Plan *p, FILE *out)
{
    const LayoutPieces *all = p->module->layout.pieces;
    const char *before = "pieces       ";
    for (int k = 0; k < 2; k++) {
        if (all[k].n < 2)
            continue;
        fprintf(out, "%s%s %lld, of %s", before, part_names[k], (long long)all[k].n,
                all[k].turns ? "all that is computed, which take turns"
                             : "collectives and the products beside them");
        before = "; ";
    }
    fputs(*before == ';' ? "\n" : "", out);
    const Pipe *pipe = p->train ? p->train->pipe : NULL;
    const char *where = pipe && pipe->ahead ? "beside the first microbatches of other chunks"
                        : pipe              ? "before all microbatches"
                                            : "in the first microbatch";
    if (p->module->layout.once)
        fprintf(out, "gathers      of layers' parameters once a step, %s\n", where);
    if (pipe && pipe->behind)
        fputs("reductions   of gradients once a step, each chunk's beside the microbatches of "
              "others\n",
              out);
}

struct json_t *plan_pieces_json(const Module *m)
{
    json_t *o = json_object();
    for (int k = 0; k < 2; k++)
        if (m->layout.pieces[k].n > 1)
            json_object_set_new(o, part_names[k],
                                json_pack("{s:I, s:b}", "pieces", (json_int_t)m->layout.pieces[k].n,
                                          "turns", m->layout.pieces[k].turns));
    return o;
}
