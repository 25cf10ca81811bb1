/* small.c - which collectives are small; see small.h. */
#include "plan/small.h"

#include "runtime/sizes.h"

void small_choose(const Module *m, const Device *d, mg_comm_desc *c)
{
    c->small = d->target == TARGET_cuda && d->streams > 1 && !d->collectives_wait && !c->piece &&
               !m->layout.one_line && mg_small_may(c);
}
