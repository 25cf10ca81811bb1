/* pad_state.c - parameters whose state alone is split, and divides nowhere, are stored larger.
 *
 * why here: gradients are added up without padding, by the products that make them, and joined with
 * zeros once a step. Before update, which makes the state of each parameter as large as it is. */
#include "passes/passes.h"
#include "passes/step/even.h"

PassStatus pass_pad_state(Job *j)
{
    if (j->m->layout.mesh.n && !splits_gradients(j->m))
        even_out(j->m, j->tmp);
    return PASS_ok;
}
