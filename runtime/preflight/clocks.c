/* clocks.c - how far the clock of each host is from that of rank 0's.
 *
 * Rank 0 asks the first rank of each host for its time, some times, and takes the answer that came
 * fastest: the other clock was read between question and answer (Cristian), so the difference is
 * known up to half of that time. */
#include <time.h>

#include "runtime/preflight/flight.h"

enum { ASKED = 32 };

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void answer(mg_run *r)
{
    for (int i = 0; i < ASKED; i++) {
        double now;
        rt_ranks_hear(r, 0, &now, sizeof now);
        now = clock_now();
        rt_ranks_tell(r, 0, &now, sizeof now);
    }
}

static void ask(rt_flight *f, int host)
{
    mg_run *r = f->run;
    f->bound[host] = 1e9;
    for (int i = 0; i < ASKED; i++) {
        const double mine = clock_now();
        const int64_t began = rt_now_ns();
        double theirs = mine;
        rt_ranks_tell(r, f->first[host], &theirs, sizeof theirs);
        rt_ranks_hear(r, f->first[host], &theirs, sizeof theirs);
        const double half = 0.5e-9 * (double)(rt_now_ns() - began);
        if (half < f->bound[host]) {
            f->bound[host] = half;
            f->ahead[host] = theirs - (mine + half);
        }
    }
}

void rt_clocks(rt_flight *f)
{
    const int rank = f->run->rank;
    if (rank && f->first[f->host[rank]] == rank && f->host[rank])
        answer(f->run);
    for (int h = 1; h < f->nhosts && !rank; h++)
        ask(f, h);
}
