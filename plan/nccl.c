/* nccl.c - what a collective of NCCL takes, by the fastest of its protocols.
 *
 * A ring takes a step for each rank; what a step costs, and how much of the links' rate is left,
 * depends on the protocol: Simple meets the neighbour before each chunk, LL sends a flag with every
 * four bytes (half of the rate, and no more than a processor's stores make), LL128 one with every
 * 120. NCCL takes the protocol that is the fastest by the model below, and so does this file:
 *
 *   seconds = base + rounds ((n - nodes) link + (nodes - 1) net) + bytes / (share rate)
 *
 * With sums in any order (--collectives=unordered) NCCL has two more ways for an all-reduce.
 * A tree over the nodes, in each of which it is a chain, has fewer steps and half of the rate:
 *
 *   seconds = base + 2 ((n / nodes - 1) link + log2(nodes) net) + bytes n / (n - 1) / (share rate)
 *
 * And the switch of a node's links adds up: a step that takes long, at a rate that was measured.
 *
 * An exchange is a group of sends and receives, which are under way together: a block of NCCL's has
 * eight of them (NCCL_MAX_DEV_WORK_P2P_PER_BATCH), those of the ranks of one node, and another
 * block those of another node (ncclP2pChannelBaseForRound). So steps to peers are no chain, as
 * those of a ring are; but one thread hands the messages for other nodes to the network, and what
 * that takes for each (netOverhead) adds up:
 *
 *   seconds = base + link + net + (nodes - 2) overhead + bytes / rate
 *
 * A shift is a send and a receive: it begins as an exchange does.
 *
 * Numbers and formulas are NVIDIA/nccl's (src/graph/tuning.cc of 2.23: baseLat, hwLat, llMaxBws,
 * nvlsEfficiency's place is taken by a measured rate), of the ways that the runtime asks for
 * (runtime/cuda/comm.c). A device's description has the
 * steps of Simple (link_seconds, node_seconds); those of the others are as many times as long as
 * there; so are those of a step between pods. Not in it: how a network adds latency of its own, and
 * what NCCL measures of PCI Express.
 */
#include "plan/nccl.h"

#include <math.h>

typedef enum Protocol { LL, LL128, SIMPLE, PROTOCOLS } Protocol;

static const struct {
    double base;       /* seconds before the first step */
    double link, pci;  /* of a step of Simple, over NVLink and PCI Express */
    double net, alone; /* ... over the network; with one rank in a node, where nothing hides it */
    double share;      /* of the links' rate */
    double overhead;   /* seconds: what the network makes each step take at least */
} protocol[PROTOCOLS] = {
    [LL] = {6.6e-6, 0.6 / 3.4, 1.0 / 5.7, 2.7 / 14, 5.0 / 14, 0.5, 1e-6},
    [LL128] = {14e-6, 1.9 / 3.4, 2.5 / 5.7, 4.0 / 14, 8.5 / 14, 0.92, 1e-6},
    [SIMPLE] = {8.4e-6, 1, 1, 1, 1, 1, 3e-6},
};

/* NCCL takes LL128 where lines of 128 bytes arrive whole: over NVLink, on sm_80 and sm_90, which a
 * description without an architecture is of. */
static bool is_used(const Device *d, Protocol p)
{
    const int sm = d->architecture;
    return p != LL128 || (!d->through_host && (!sm || sm == 80 || sm == 90));
}

/* Bytes/s that LL reaches, in one node (of A100s), in two and in more (of AMD's processors, which
 * hand lines on to the network; of others 39 and 20.4). */
static double most(int64_t nodes)
{
    return nodes == 1 ? 87.7e9 : nodes == 2 ? 22.5e9 : 19e9;
}

/* An all-reduce of large parts over a network takes longer by Simple than its steps (by 1.9 before
 * sm_80). */
static double plateau(const NcclRing *r, Protocol p, int rounds, double bytes)
{
    enum { CHANNELS = 16, PART = 64 };
    const bool large = bytes >= 2.0 * CHANNELS * PART * (double)r->ranks;
    return p == SIMPLE && rounds == 2 && r->nodes > 1 && large ? 1.4 : 1;
}

/* Of trees: as above, and the share of the rate before the half. */
static const struct {
    double base, link, pci, net, alone, share;
} tree[PROTOCOLS] = {
    [LL] = {6.8e-6, 0.6 / 3.4, 1.0 / 5.7, 5.0 / 14, 5.0 / 14, 0.92 / 3.8},
    [LL128] = {14e-6, 1.25 / 3.4, 1.9 / 5.7, 8.5 / 14, 8.5 / 14, 0.92 * 7 / 9},
    [SIMPLE] = {8.4e-6, 4.0 / 3.4, 4.0 / 5.7, 1, 1, 0.92},
};

/* Of middle sizes NCCL corrects a tree's rate by factors from 0.4 to 1, here by one of them. */
static const double TREE_SHARE = 0.6;

static double tree_seconds(const Device *d, const NcclRing *r, Protocol p, double bytes)
{
    const bool alone = r->nodes == r->ranks;
    const double link = d->link_seconds * (d->through_host ? tree[p].pci : tree[p].link);
    const double net = alone ? tree[p].alone : tree[p].net, each = (double)r->ranks;
    const double far = ceil(log2(ceil((double)r->nodes / (double)r->pods))) * d->node_seconds +
                       ceil(log2((double)r->pods)) * d->pod_seconds;
    const double steps = (each / (double)r->nodes - 1) * link + far * net;
    return tree[p].base + 2 * steps +
           bytes * each / (each - 1) / (TREE_SHARE * tree[p].share * r->bandwidth);
}

/* Seconds of the one step through the links' switch. */
static const double SWITCH_STEP = 25e-6;

/* Of an all-reduce whose order is NCCL's. */
static double unordered_seconds(const Device *d, const NcclRing *r, double bytes)
{
    double least = INFINITY;
    for (Protocol p = 0; p < PROTOCOLS; p++)
        if (is_used(d, p))
            least = fmin(least, tree_seconds(d, r, p, bytes));
    if (r->nodes == 1 && r->ranks > 2 && d->switch_bandwidth > 0)
        least = fmin(least, SWITCH_STEP + bytes / d->switch_bandwidth);
    return least;
}

double nccl_seconds(const Device *d, const NcclRing *r, int rounds, double bytes)
{
    const bool alone = r->nodes == r->ranks;
    double least = INFINITY;
    if (rounds == 2 && r->ranks > 1 && d->collectives == COLLECTIVES_unordered)
        least = unordered_seconds(d, r, bytes);
    for (Protocol p = 0; p < PROTOCOLS; p++) {
        if (!is_used(d, p))
            continue;
        double link = d->link_seconds * (d->through_host ? protocol[p].pci : protocol[p].link);
        const double net = d->node_seconds * (alone ? protocol[p].alone : protocol[p].net);
        double rate = protocol[p].share * r->bandwidth;
        if (r->nodes > 1)
            link = fmax(link, protocol[p].overhead);
        if (p == LL)
            rate = fmin(rate, most(r->nodes));
        const double pod = d->pod_seconds * (net > 0 ? net / d->node_seconds : 1);
        const double steps = (double)(r->ranks - r->nodes) * link +
                             (double)(r->nodes - r->pods) * net + (double)(r->pods - 1) * pod;
        least = fmin(least, protocol[p].base + plateau(r, p, rounds, bytes) * rounds * steps +
                                bytes / rate);
    }
    return least;
}

double nccl_sends_begin(void)
{
    return protocol[SIMPLE].base;
}

double nccl_exchange_seconds(const Device *d, const NcclRing *r)
{
    const double link = r->ranks > r->nodes ? d->link_seconds : 0;
    double far = r->nodes > 1 ? d->node_seconds : 0;
    if (r->pods > 1)
        far = fmax(far, d->pod_seconds);
    return protocol[SIMPLE].base + link + far +
           fmax((double)r->nodes - 2, 0) * protocol[SIMPLE].overhead;
}
