/* pad_gradients.c - parameters whose gradients are split, and divide nowhere, are stored larger.
 *
 * why here: before differentiation, which makes the gradient of a window where it makes that of
 * what the window shows: in an iteration of layers, whose part is scattered there. After precision,
 * so that what a parameter is rounded to is padded with it. */
#include "passes/passes.h"
#include "passes/step/even.h"

PassStatus pass_pad_gradients(Job *j)
{
    if (j->m->layout.mesh.n && splits_gradients(j->m))
        even_out(j->m, j->tmp);
    return PASS_ok;
}
