/* near.c - which collectives are near; see near.h. */
#include "plan/near.h"

#include "ir/mesh.h"
#include "plan/network.h"

/* Cards that reach each other through their host have no links apart from the way to the network.
 */
static bool has_links_apart(const Module *m, const Device *d)
{
    return d->target == TARGET_cuda && d->streams > 2 && !d->collectives_wait && !d->through_host &&
           mesh_ranks(m) > d->node_ranks;
}

bool near_is(const Module *m, const Device *d, const mg_comm_desc *c)
{
    return has_links_apart(m, d) && !m->layout.one_line && !c->small && !c->piece &&
           network_within_node(m, d, c->axes);
}
