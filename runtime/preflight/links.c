/* links.c - messages between each two hosts, over the wire that the run will use.
 *
 * In a round each host is in one pair at most, and all pairs of the round measure at once, as the
 * run would use the network; as many rounds as hosts (less one) bring each two together. Of a pair
 * rank k of one host sends to rank k of the other, all of them at once. Rank 0 says who is with
 * whom, and has the results before it says the next round. Pairs that seem slow are measured again,
 * then one at a time: what other pairs, or other work of a machine, held up for a moment is not
 * called slow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/preflight/flight.h"

enum { PINGS = 48, LEAST = 1 << 16, MOST = 32 << 20, TIMES = 4, AGAIN = 16, TRIES = 3 };
#define ENOUGH 0.02 /* seconds of a message that is long enough */

/* Of the part of a link that this rank measured. */
typedef struct part {
    double seconds, rate[2];
} part;

static void give(mg_run *r, int rank, const void *from, int64_t bytes)
{
    rt_ticket t = {0};
    rt_wire_send(r->ranks->wire, rank, from, bytes, &t);
    rt_wire_wait(r, &t);
}

static void take(mg_run *r, int rank, void *to, int64_t bytes)
{
    rt_ticket t = {0};
    rt_wire_take(r->ranks->wire, rank, to, bytes, &t);
    rt_wire_wait(r, &t);
}

/* Seconds of a message one way: half of the fastest of some round trips. */
static double ping(mg_run *r, int rank, bool leads)
{
    double best = 1e9;
    int64_t word = 0;
    for (int i = 0; i < PINGS; i++) {
        const int64_t began = rt_now_ns();
        if (leads) {
            give(r, rank, &word, sizeof word);
            take(r, rank, &word, sizeof word);
        } else {
            take(r, rank, &word, sizeof word);
            give(r, rank, &word, sizeof word);
        }
        best = fmin(best, 0.5e-9 * (double)(rt_now_ns() - began));
    }
    return best;
}

/* Bytes/s to the other rank: the best of some messages of a size that takes long enough. The size
 * goes ahead of each; 0 ends it. */
static double send_bulk(mg_run *r, int rank, char *room)
{
    double best = 0, took = 0;
    int64_t size = LEAST, word = 0;
    for (int i = 0; i < TIMES; i++) {
        const int64_t began = rt_now_ns();
        give(r, rank, &size, sizeof size);
        give(r, rank, room, size);
        take(r, rank, &word, sizeof word);
        took = 1e-9 * (double)(rt_now_ns() - began);
        best = fmax(best, (double)size / took);
        if (took < ENOUGH && size < MOST) {
            size *= took < ENOUGH / 8 && size < MOST / 8 ? 8 : 2;
            i = -1;
        }
    }
    size = 0;
    give(r, rank, &size, sizeof size);
    return best;
}

static void take_bulk(mg_run *r, int rank, char *room)
{
    for (int64_t size, word = 0;;) {
        take(r, rank, &size, sizeof size);
        if (size <= 0 || size > MOST)
            return;
        take(r, rank, room, size);
        give(r, rank, &word, sizeof word);
    }
}

static int rank_at(const rt_flight *f, int host, int place)
{
    int rank = f->first[host];
    while (f->host[rank] != host || f->place[rank] != place)
        rank++;
    return rank;
}

/* Measures with the rank of the same place on the other host. Ranks of a host begin together. */
static part measure(rt_flight *f, int other, char *room)
{
    mg_run *r = f->run;
    const int place = f->place[r->rank];
    const bool leads = f->host[r->rank] < other, sends = place < f->ranks[other];
    const int peer = sends ? rank_at(f, other, place) : -1;
    part p = {0};
    if (sends && place == 0)
        p.seconds = ping(r, peer, leads);
    for (int way = 0; way < 2; way++) {
        rt_meet(r, RT_ALL_AXES);
        if (sends && leads == (way == 0))
            p.rate[way] = send_bulk(r, peer, room);
        else if (sends)
            take_bulk(r, peer, room);
    }
    return p;
}

/* One round: with[h] is the host with which h measures, or -1. Results are added to rank 0's list
 * of links, or kept where they are better. */
static void collect(rt_flight *f, const int *with, const part *of)
{
    for (int a = 0; a < f->nhosts; a++) {
        rt_link l = {.a = a, .b = with[a], .seconds = 1e9};
        if (l.b <= a)
            continue;
        l.width = f->ranks[a] < f->ranks[l.b] ? f->ranks[a] : f->ranks[l.b];
        for (int i = 0; i < f->n; i++) {
            const int h = f->host[i];
            if ((h != a && h != l.b) || f->place[i] >= l.width)
                continue;
            l.rate[h != a] += of[i].rate[h != a];
            if (!f->place[i])
                l.seconds = fmin(l.seconds, of[i].seconds);
        }
        int at = 0;
        while (at < f->nlinks && (f->link[at].a != l.a || f->link[at].b != l.b))
            at++;
        if (at == f->nlinks) {
            f->link = rt_grow(f->link, (size_t)++f->nlinks, sizeof *f->link);
            f->link[at] = l;
        }
        rt_link *k = &f->link[at];
        k->seconds = fmin(k->seconds, l.seconds);
        for (int way = 0; way < 2; way++)
            k->rate[way] = fmax(k->rate[way], l.rate[way]);
    }
}

/* False: rank 0 has said that it was the last. */
static bool play_round(rt_flight *f, int *with, char *room)
{
    mg_run *r = f->run;
    part mine = {0}, *all = r->rank ? NULL : rt_alloc((size_t)f->n, sizeof *all);
    rt_ranks_share(r, with, (int64_t)sizeof *with * f->nhosts);
    const bool more = with[0] >= -1;
    if (more && with[f->host[r->rank]] >= 0)
        mine = measure(f, with[f->host[r->rank]], room);
    if (more) {
        rt_gather_to_leader(r, &mine, all, sizeof mine);
        if (!r->rank)
            collect(f, with, all);
    }
    free(all);
    return more;
}

static void measure_again(rt_flight *f, int *with, char *room)
{
    for (int k = 0; k < TRIES; k++) {
        int *index, n = rt_suspects(f, &index);
        for (int i = 0; i < n && i < AGAIN; i++) {
            const rt_link l = f->link[index[i]];
            for (int h = 0; h < f->nhosts; h++)
                with[h] = h == l.a ? l.b : h == l.b ? l.a : -1;
            play_round(f, with, room);
        }
        free(index);
    }
}

void rt_links(rt_flight *f)
{
    int *with = rt_alloc((size_t)f->nhosts, sizeof *with);
    if (f->nhosts < 2) {
        free(with);
        return;
    }
    char *room =
        mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (room == MAP_FAILED)
        rt_die(RT_FAILED, "no memory of %d bytes for messages", MOST);
    if (f->run->rank) {
        while (play_round(f, with, room))
            ;
    } else {
        for (int k = 0; k < rt_rounds(f->nhosts); k++) {
            for (int h = 0; h < f->nhosts; h++)
                with[h] = rt_partner(f->nhosts, k, h);
            play_round(f, with, room);
        }
        measure_again(f, with, room);
        with[0] = -2;
        play_round(f, with, room);
    }
    munmap(room, MOST);
    free(with);
}
