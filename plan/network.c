/* network.c - how long collectives and messages take, by where their ranks are.
 *
 * Links join the ranks of a node (which may be several machines: an NVLink domain), a network those
 * of a pod, and a narrower one all pods, where a description has pods. Neighbours are near: ranks
 * count with the last axis of the mesh the fastest. Of a collective among n ranks, g are in each
 * node and h in each pod; B bytes are what a rank sends:
 *
 *   ring      B / min(link, g node, h pod) + (n - n/g) link_seconds + (n/g - n/h) node_seconds +
 *             (n/h - 1) pod_seconds a way: it leaves a node, and a pod, once, while all other such
 *             rings do, and the ranks of a block take its links outwards in turns, so those add up;
 *             of GPUs by NCCL's protocols (nccl.c)
 *   tree      of hosts, where it is faster, of all_reduce, and of what has one rank in a node: as
 *             many bytes, log2 of the nodes steps over the network, those between pods slower
 *   exchange  what goes to other nodes, (n - g) / n of it, at the rate of the network, what goes to
 *             other pods, (n - h) / n, at that between pods; NCCL hands what is for another node's
 *             rank to the rank of its own node that has that rank's adapter (PXN), so each sends to
 *             its own like alone, and one message a node; steps of GPUs by nccl.c, of others one a
 *             rank
 *   shift     one rank of a node sends into the network, and all wait for it; into another pod one
 *             of h, which has the links of all of them
 *   copies    through the memory of the host: copies.c
 *
 * Each GPU has an adapter of its own, and like ranks of nodes are on one rail: so are the
 * neighbours of rings, of shifts and, by PXN, of exchanges. */
#include "plan/network.h"

#include "ir/collective.h"
#include "plan/copies.h"
#include "plan/nccl.h"
#include "plan/volume.h"

#include <math.h>

int64_t network_node(const Module *m, const Device *d, Axes axes)
{
    return mesh_block(m, axes, d->node_ranks);
}

/* Neighbours along all axes from the outermost of these on are a block. */
bool network_within_node(const Module *m, const Device *d, Axes axes)
{
    int64_t block = 1;
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        if (axes & (((Axes)2 << i) - 1))
            block *= m->layout.mesh.data[i].size;
    return mesh_ranks(m) <= d->node_ranks || d->node_ranks % block == 0;
}

/* A group's ranks: of all, of a node, of a pod; in how many nodes and pods they are. */
typedef struct Places {
    double n, node, pod, nodes, pods;
} Places;

static Places places_of(const Module *m, const Device *d, Axes axes)
{
    const int64_t n = mesh_size(m, axes);
    Places p = {.n = (double)n, .node = (double)network_node(m, d, axes)};
    p.pod = d->pod_ranks ? (double)mesh_block(m, axes, d->pod_ranks) : p.n;
    p.nodes = ceil(p.n / p.node);
    p.pods = ceil(p.n / p.pod);
    return p;
}

/* Bytes/s around a ring of these. */
static double around(const Device *d, const Places *p)
{
    double rate = d->link_bandwidth;
    if (p->nodes > 1)
        rate = fmin(rate, p->node * d->node_bandwidth);
    if (p->pods > 1)
        rate = fmin(rate, p->pod * d->pod_bandwidth);
    return rate;
}

double network_message(const Module *m, const Device *d, Axes axes, double bytes)
{
    const Places p = places_of(m, d, axes);
    double rate = d->link_bandwidth, seconds = d->link_seconds;
    if (p.nodes > 1) {
        rate = fmin(rate, d->node_bandwidth);
        seconds = d->node_seconds;
    }
    if (p.pods > 1) {
        rate = fmin(rate, p.pod * d->pod_bandwidth);
        seconds = d->pod_seconds;
    }
    return bytes / rate + seconds;
}

static double exchange(const Device *d, const Places *p, double bytes)
{
    const double others = fmax(p->n - 1, 1);
    double most = bytes * (p->node - 1) / others / d->link_bandwidth;
    if (p->nodes > 1)
        most = fmax(most,
                    bytes * (p->n - p->node) / others / fmin(d->link_bandwidth, d->node_bandwidth));
    if (p->pods > 1)
        most = fmax(most, bytes * (p->n - p->pod) / others / d->pod_bandwidth);
    return most;
}

double network_collective(const Module *m, const Device *d, const mg_comm_desc *c)
{
    if (c->piece)
        return copies_seconds(m, d, c);
    const Places p = places_of(m, d, c->axes);
    const double bytes = volume_of(c), ring = around(d, &p);
    const double between = (p.pods - 1) * d->pod_seconds;
    const double steps =
        (p.n - p.nodes) * d->link_seconds + (p.nodes - p.pods) * d->node_seconds + between;
    const double tree = (p.node - 1) * d->link_seconds +
                        ceil(log2(ceil(p.nodes / p.pods))) * d->node_seconds +
                        ceil(log2(p.pods)) * d->pod_seconds;
    const bool nccl = d->target == TARGET_cuda;
    const NcclRing by_nccl = {.ranks = (int64_t)p.n,
                              .nodes = (int64_t)p.nodes,
                              .pods = (int64_t)p.pods,
                              .bandwidth = ring};
    switch (collective_of_kind(c->kind)->sends) {
    case SEND_neighbour:
        return network_message(m, d, c->axes, bytes) + (nccl ? nccl_sends_begin() : 0);
    case SEND_exchange:
        return exchange(d, &p, bytes) + (nccl ? nccl_exchange_seconds(d, &by_nccl) : steps);
    case SEND_twice:
        if (nccl)
            return nccl_seconds(d, &by_nccl, 2, bytes);
        return bytes / ring + 2 * fmin(tree, steps);
    case SEND_ring:
        if (nccl)
            return nccl_seconds(d, &by_nccl, 1, bytes);
        return bytes / ring + (p.node > 1 ? steps : fmin(tree, steps));
    case SEND_nothing:
        break;
    }
    return 0;
}
