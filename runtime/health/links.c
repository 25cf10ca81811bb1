/* links.c - how long a message between neighbours takes when nothing else uses the links.
 *
 * Along each axis every rank takes a message from the neighbour before it, all at once: 64 bytes,
 * and RT_LINK_BYTES or as many as an arena has. On one machine that is a copy out of the other
 * rank's arena, to another machine a message on the wire. Of some times the shortest counts. A link
 * is slow if its time is above 2 times the median of links of its kind (along the same axis, inside
 * a machine or between machines; three at least), or above 3 times the shortest that it ever had,
 * and by 100 us; it is named if that was so at two checks in a row. */
#include "runtime/machine.h"
#include "runtime/health/health.h"
#include "runtime/health/slow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 5, SHORT = 64 };

struct rt_links {
    rt_link_times best[MG_RANKS_MAX]; /* the shortest ever; 0: none yet */
    bool before[MG_RANKS_MAX][MG_AXES_MAX][RT_LINK_SIZES];
};

void rt_links_free(struct rt_links *l)
{
    free(l);
}

static int64_t bytes_of(const mg_run *r, int size)
{
    const int64_t all = r->program->arena_bytes, most = all < RT_LINK_BYTES ? all : RT_LINK_BYTES;
    return size ? most : SHORT < most ? SHORT : most;
}

/* One message from the neighbour before, and where that or the next is elsewhere, one to it. */
static void shift(mg_run *r, uint32_t axis, int64_t bytes, char *to)
{
    const struct rt_ranks *k = r->ranks;
    const int from = rt_neighbour(r->program, r->rank, axis, -1),
              next = rt_neighbour(r->program, r->rank, axis, 1);
    rt_ticket t = {0};
    if (!k->is_here[next])
        rt_wire_send(k->wire, next, r->arena, bytes, &t);
    if (k->is_here[from])
        memcpy(to, rt_of_rank(r, r->arena, from), (size_t)bytes);
    else
        rt_wire_take(k->wire, from, to, bytes, &t);
    if (k->wire)
        rt_wire_wait(r, &t);
}

void rt_links_measure(mg_run *r, rt_link_times *times)
{
    *times = (rt_link_times){0};
    if (!r->ranks || !rt_arenas_are_shared)
        return;
    char *to = rt_alloc((size_t)bytes_of(r, 1), 1);
    for (int axis = 0; axis < r->program->naxes; axis++)
        for (int size = 0; size < RT_LINK_SIZES; size++) {
            double best = INFINITY;
            for (int i = 0; i < TIMES; i++) {
                rt_meet(r, RT_ALL_AXES);
                const int64_t began = rt_now_ns();
                shift(r, (uint32_t)1 << axis, bytes_of(r, size), to);
                best = fmin(best, (double)(rt_now_ns() - began));
            }
            times->ns[axis][size] = best;
        }
    rt_meet(r, RT_ALL_AXES); /* nobody writes what another still reads */
    free(to);
}

/* The median of links of this one's kind; 0: there are too few. */
static double usual_of(const mg_run *r, const rt_link_times *all, int rank, int axis, int size)
{
    const mg_program *p = r->program;
    const uint32_t a = (uint32_t)1 << axis;
    double ns[MG_RANKS_MAX];
    int n = 0;
    /* Hosts are compared by name: rank 0 knows of its own machine alone who is on it. */
    const bool inside = !strcmp(rt_host_of(r, rank), rt_host_of(r, rt_neighbour(p, rank, a, -1)));
    for (int k = 0; k < rt_ranks_of(p, RT_ALL_AXES); k++)
        if (inside == !strcmp(rt_host_of(r, k), rt_host_of(r, rt_neighbour(p, k, a, -1))))
            ns[n++] = all[k].ns[axis][size];
    return n < 3 ? 0 : rt_lower_median(ns, n);
}

static void check_link(mg_run *r, const rt_link_times *all, int rank, int axis, int size)
{
    enum { LEAST_NS = 100000 };
    struct rt_links *l = r->health->links;
    const double ns = all[rank].ns[axis][size], usual = usual_of(r, all, rank, axis, size);
    double *best = &l->best[rank].ns[axis][size];
    const bool above = usual > 0 && ns > 2 * usual && ns > usual + LEAST_NS;
    const bool late = *best > 0 && ns > 3 * *best && ns > *best + LEAST_NS;
    const int from = rt_neighbour(r->program, rank, (uint32_t)1 << axis, -1);
    if ((above || late) && l->before[rank][axis][size]) {
        char *who = rt_rank_text(r, rank), *peer = rt_rank_text(r, from);
        rt_alert(r, "link", rank,
                 "the link from %s to %s (axis %s) is slow: %s take %.3g us, where %.3g us %s",
                 peer, who, r->program->axes[axis].name,
                 rt_bytes_text((double)bytes_of(r, size)).text, ns / 1e3,
                 (above ? usual : *best) / 1e3,
                 above ? "is usual for links of its kind" : "were enough before");
        free(who);
        free(peer);
    }
    l->before[rank][axis][size] = above || late;
    *best = *best > 0 ? fmin(*best, ns) : ns;
}

void rt_links_check(mg_run *r)
{
    const int n = rt_ranks_of(r->program, RT_ALL_AXES);
    rt_link_times *all = rt_alloc((size_t)n, sizeof *all);
    if (!r->health->links)
        r->health->links = rt_alloc(1, sizeof *r->health->links);
    rt_ranks_ask(r, RT_ASK_LINKS, all, sizeof *all);
    for (int k = 0; k < n; k++)
        for (int axis = 0; axis < r->program->naxes; axis++)
            for (int size = 0; size < RT_LINK_SIZES; size++)
                check_link(r, all, k, axis, size);
    free(all);
}
