/* copies.c - collectives by copies through the memory of the host: which they are, and how long
 * they take.
 *
 * GPUs that are connected only through their host (Device.through_host) may exchange by their
 * copying engines: each rank copies out what others need, and in what it needs, both at once and by
 * the piece (runtime/cuda/copies.c). With S bytes of a share, among n ranks:
 *
 *   all_gather       out S            in (n - 1) S      (what is for all is copied out once)
 *   reduce_scatter   out (n - 1) S    in (n - 1) S
 *   all_reduce       both, of S = B / n
 *   all_to_all       out (n - 1) S    in (n - 1) S
 *   ring_shift       out S            in S
 *
 *   seconds = max(out / host_out, in / host_in, (out + in) / host_both, R (out + in) / host_all)
 *             + transfers of the way that has more x host_seconds
 *             + what goes out before the first can be taken, and comes in when nothing goes out
 *               any more
 *             + what the sums of pieces take, during which nothing comes in
 *
 * R ranks of the machine do the same at the same time. Each collective is made so if that is less
 * than NCCL's price (rates.c), unless --collectives says. The piece is the one with the least time.
 *
 * By NCCL are, whatever they would take: a broadcast, a maximum, a sum over parts that are not
 * equal, or of whole numbers (mg_copies_may); what leaves a node; and all of a program with stages,
 * whose ranks have orders of their own. */
#include "plan/copies.h"

#include "base/quantity.h"
#include "ir/mesh.h"
#include "plan/levels.h"
#include "plan/network.h"
#include "runtime/sizes.h"

#include <math.h>

/* The memory that ranks exchange through is at most a part of what the host has. */
enum { MEMORY_PART = 8 };
static const int64_t LARGEST = (int64_t)8 << 20, SMALLEST = (int64_t)1 << 19;

typedef struct Ways {
    double out, in;   /* bytes */
    double transfers; /* of the way that has more, for each piece */
    double first;     /* bytes out before the first can be taken */
    double sums;      /* of pieces, for each piece: 0 or 1 */
} Ways;

static Ways ways_of(const mg_comm_desc *c)
{
    const mg_share s = mg_copies_share(c);
    const double share = (double)(s.rows * s.row), piece = (double)mg_piece_most(c);
    const double peers = (double)c->n - 1;
    const int does = mg_comm_does(c->kind);
    if (does & MG_MOVES)
        return (Ways){share, share, 1, piece, 0};
    /* Each other gets a part of its own; all get the same; sums are the former, then the latter. */
    Ways w = {0};
    if (does & (MG_CUTS | MG_SUMS))
        w = (Ways){peers * share, peers * share, peers, peers * piece, (does & MG_SUMS) != 0};
    if (!(does & MG_CUTS)) {
        w.first += (does & MG_SUMS ? peers + 1 : 1) * piece; /* a sum has its parts first */
        w.out += share;
        w.in += peers * share;
        w.transfers += peers;
    }
    return w;
}

double copies_seconds(const Module *m, const Device *d, const mg_comm_desc *c)
{
    const Ways w = ways_of(c);
    const DeviceLevel *host = &d->level[LEVEL_host];
    const double pieces = (double)mg_pieces(c), both = w.out + w.in;
    const double of_piece = (double)mg_piece_most(c);
    double bytes = fmax(fmax(w.out / host->out, w.in / host->in), both / host->both);
    if (d->host_all > 0)
        bytes = fmax(bytes, (double)levels_ranks(m, d) * both / d->host_all);
    /* The own part is copied beside the others', and all are read. */
    const double sum = ((double)c->n + 3) * of_piece / d->bandwidth + 2 * d->launch;
    return bytes + pieces * w.transfers * host->seconds + w.first / host->out + host->seconds +
           pieces * w.sums * sum;
}

static bool may_be(const Module *m, const Device *d, const mg_comm_desc *c)
{
    return d->target == TARGET_cuda && d->through_host &&
           (d->collectives == COLLECTIVES_auto || d->collectives == COLLECTIVES_copies) &&
           !m->layout.pipeline.axis && mg_copies_may(c) && network_within_node(m, d, c->axes);
}

void copies_choose(const Module *m, const Device *d, mg_comm_desc *c)
{
    c->piece = 0;
    if (!may_be(m, d, c))
        return;
    const int64_t ranks = levels_ranks(m, d), room = d->level[LEVEL_host].memory / MEMORY_PART;
    mg_comm_desc best = *c, copied = *c;
    double least = d->collectives == COLLECTIVES_copies ? INFINITY : network_collective(m, d, c);
    for (copied.piece = SMALLEST; copied.piece <= LARGEST; copied.piece *= 2) {
        const double seconds = copies_seconds(m, d, &copied);
        if (mg_copies_bytes(ranks, copied.piece) <= room && seconds < least) {
            least = seconds;
            best = copied;
        }
    }
    *c = best;
}

int64_t copies_bytes(const Plan *p)
{
    return mg_copies_bytes(levels_ranks(p->module, p->device), p->outside.piece);
}

const char *copies_text(const Plan *p)
{
    Arena *a = p->module->arena;
    return p->outside.piece
               ? arena_printf(
                     a, "%s of the host's memory, for %lld ranks of a machine, in pieces of %s",
                     text_bytes(a, (double)copies_bytes(p)),
                     (long long)levels_ranks(p->module, p->device),
                     text_bytes(a, (double)p->outside.piece))
               : NULL;
}
