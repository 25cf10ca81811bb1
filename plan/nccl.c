/* nccl.c - what a collective of NCCL takes, by the fastest of its protocols.
 *
 * A ring takes a step for each rank; what a step costs, and how much of the links' rate is left,
 * depends on the protocol: Simple meets the neighbour before each chunk, LL sends a flag with every
 * four bytes (half of the rate, and no more than a processor's stores make), LL128 one with every
 * 120. NCCL takes the protocol that is the fastest by the model below, and so does this file:
 *
 *   seconds = base + rounds ((n - nodes) link + (nodes - 1) net) + bytes / (share rate)
 *
 * Numbers and formula are NVIDIA/nccl's (src/graph/tuning.cc of 2.23: baseLat, hwLat, llMaxBws), of
 * rings alone, for the runtime asks for those (runtime/cuda/comm.c). A device's description has the
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

double nccl_seconds(const Device *d, const NcclRing *r, int rounds, double bytes)
{
    const bool alone = r->nodes == r->ranks;
    double least = INFINITY;
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
