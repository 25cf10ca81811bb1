/* small.c - which collectives are small; see small.h. */
#include "plan/small.h"

#include "runtime/sizes.h"

void small_choose(const Device *d, mg_comm_desc *c)
{
    c->small = d->target == TARGET_cuda && d->streams > 1 && !d->collectives_wait && !c->piece &&
               mg_small_may(c);
}
