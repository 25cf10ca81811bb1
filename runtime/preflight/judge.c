/* judge.c - rank 0 compares what was measured: with the other links of its kind, and with what the
 * plan counts on. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/preflight/flight.h"

/* A rate below this part of the usual or the planned one is a fault; links below the second are
 * measured again before that. */
#define SLOW    0.5
#define SUSPECT 0.6
/* A message, or a collective, is late if it takes so many times as long, and so much longer. */
enum { LATE = 4, LATE_MESSAGE = 10, DOUBTFUL = 2, FEW = 3, LONG = 20, TOLD = 12 };
#define LATER 1e-3
/* So few bytes of shared memory lie in caches, and say nothing of the memory. */
enum { CACHED = 8 << 20 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double rt_median(const double *x, int n)
{
    double *sorted = rt_alloc((size_t)n + 1, sizeof *sorted), middle;
    if (n)
        memcpy(sorted, x, (size_t)n * sizeof *x);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    middle = n % 2 ? sorted[n / 2] : n ? 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]) : 0;
    free(sorted);
    return middle;
}

/* ---- links between hosts --------------------------------------------------------------------- */

/* Bytes/s of each of the ranks that sent at once, the slower way. */
static double rate_of(const rt_link *l)
{
    return fmin(l->rate[0], l->rate[1]) / l->width;
}

static double usual_rate(const rt_flight *f)
{
    double *x = rt_alloc((size_t)f->nlinks + 1, sizeof *x);
    for (int i = 0; i < f->nlinks; i++)
        x[i] = rate_of(&f->link[i]);
    const double median = rt_median(x, f->nlinks);
    free(x);
    return median;
}

static double usual_seconds(const rt_flight *f)
{
    double *x = rt_alloc((size_t)f->nlinks + 1, sizeof *x);
    for (int i = 0; i < f->nlinks; i++)
        x[i] = f->link[i].seconds;
    const double median = rt_median(x, f->nlinks);
    free(x);
    return median;
}

/* The least that a link should give: of the usual rate where there are some links, and of the
 * planned one. */
static double least_rate(const rt_flight *f, double part)
{
    const double planned = f->run->program->network.node_bandwidth;
    return part * fmax(f->nlinks >= FEW ? usual_rate(f) : 0, planned);
}

static bool is_late(const rt_flight *f, const rt_link *l)
{
    const double usual = f->nlinks >= FEW ? usual_seconds(f) : l->seconds;
    const double planned = f->run->program->network.node_seconds;
    return (l->seconds > LATE_MESSAGE * usual && l->seconds > usual + LATER) ||
           (l->seconds > LATE_MESSAGE * planned && l->seconds > planned + LATER);
}

int rt_suspects(const rt_flight *f, int **index)
{
    const double least = least_rate(f, SUSPECT);
    int n = 0;
    *index = rt_alloc((size_t)f->nlinks + 1, sizeof **index);
    for (int i = 0; i < f->nlinks; i++) {
        if (rate_of(&f->link[i]) >= least && !is_late(f, &f->link[i]))
            continue;
        int at = n++;
        for (; at && rate_of(&f->link[i]) < rate_of(&f->link[(*index)[at - 1]]); at--)
            (*index)[at] = (*index)[at - 1];
        (*index)[at] = i;
    }
    return n;
}

static bool is_slow(const rt_flight *f, const rt_link *l)
{
    return rate_of(l) < least_rate(f, SLOW);
}

/* The command that measures the link between two hosts again; the caller frees it. */
static char *again_between(const rt_flight *f, int a, int b)
{
    return rt_printf("mgc commbench %s %s,%s", program_invocation_name, rt_host_name(f, a),
                     rt_host_name(f, b));
}

static void judge_link(rt_flight *f, const rt_link *l)
{
    const mg_network *planned = &f->run->program->network;
    const double rate = rate_of(l), usual = usual_rate(f);
    const int way = l->rate[1] < l->rate[0];
    const char *from = rt_host_name(f, way ? l->b : l->a), *to = rt_host_name(f, way ? l->a : l->b);
    char *again = again_between(f, l->a, l->b);
    if (is_slow(f, l))
        rt_found(f, RT_FAULT, RT_FAILED, "link", again,
                 "from host %s to host %s each of %d rank%s sends %s: %.2g of the usual link, %.2g "
                 "of what the plan counts on (%s)%s",
                 from, to, l->width, l->width > 1 ? "s" : "", rt_rate_text(rate, "B/s").text,
                 rate / usual, rate / planned->node_bandwidth,
                 rt_rate_text(planned->node_bandwidth, "B/s").text,
                 f->nlinks >= FEW && rate < SLOW * usual
                     ? ""
                     : ". If the network is no faster, compile for it: mgc commbench -o mine.json, "
                       "--device ./mine.json");
    if (is_late(f, l))
        rt_found(f, RT_FAULT, RT_FAILED, "link", again,
                 "a message between host %s and host %s takes %.3g ms, where %.3g is usual and the "
                 "plan counts on %.3g",
                 from, to, 1e3 * l->seconds, 1e3 * usual_seconds(f), 1e3 * planned->node_seconds);
    free(again);
}

/* A host most of whose links are slow, where others' are not, is named once: its adapter is. */
static bool *judge_adapters(rt_flight *f)
{
    bool *bad = rt_alloc((size_t)f->nhosts, sizeof *bad);
    int *slow = rt_alloc((size_t)f->nhosts, sizeof *slow), all = 0;
    for (int i = 0; i < f->nlinks; i++)
        if (is_slow(f, &f->link[i]) || is_late(f, &f->link[i]))
            slow[f->link[i].a]++, slow[f->link[i].b]++, all++;
    for (int h = 0; h < f->nhosts && f->nhosts > FEW && 2 * all < f->nlinks + f->nhosts; h++) {
        bad[h] = 2 * slow[h] > f->nhosts - 1 && slow[h] > 1;
        if (!bad[h])
            continue;
        char *again = again_between(f, h, h ? 0 : 1);
        rt_found(f, RT_FAULT, RT_FAILED, "link", again,
                 "host %s: %d of its %d links are slow or late, and the usual link sends %s for "
                 "each rank: its adapter, cable or port",
                 rt_host_name(f, h), slow[h], f->nhosts - 1,
                 rt_rate_text(usual_rate(f), "B/s").text);
        free(again);
    }
    free(slow);
    return bad;
}

/* A node of the plan that is on several hosts: an NVLink domain may be. */
static void judge_nodes(rt_flight *f)
{
    const int node = f->run->program->network.node_ranks;
    const int have = f->ranks[0], joined = node < f->n ? node : f->n;
    if (f->about[0].by_cores && f->nhosts > 1 && joined > have)
        rt_found(f, RT_DOUBT, RT_MISFIT, "nodes", NULL,
                 "the plan counts on nodes of %d ranks, and hosts have %d: it expects messages "
                 "between hosts to be as fast as those within one (compile it with --device cpus, "
                 "or with what mgc commbench writes)",
                 joined, have);
}

void rt_judge_links(rt_flight *f)
{
    judge_nodes(f);
    const int before = f->nfindings;
    bool *bad = judge_adapters(f);
    int told = 0, left = 0;
    for (int i = 0; i < f->nlinks; i++) {
        const rt_link *l = &f->link[i];
        if (bad[l->a] || bad[l->b] || !(is_slow(f, l) || is_late(f, l)))
            continue;
        if (told++ < TOLD)
            judge_link(f, l);
        else
            left++;
    }
    if (left)
        rt_found(f, RT_FAULT, RT_FAILED, "link", NULL, "and %d more that are slow or late", left);
    if (f->nlinks && f->nfindings == before)
        rt_found(f, RT_GOOD, RT_DONE, "links", NULL, "%d between %d hosts, none slow", f->nlinks,
                 f->nhosts);
    free(bad);
}

/* ---- pairs of ranks -------------------------------------------------------------------------- */

static bool is_within(const rt_flight *f, const rt_pair *p)
{
    return f->host[p->a] == f->host[p->b];
}

/* The median of pairs within hosts, or of those between them. */
static double usual_pair(const rt_flight *f, bool within, int *n)
{
    double *x = rt_alloc((size_t)f->npairs + 1, sizeof *x);
    *n = 0;
    for (int i = 0; i < f->npairs; i++)
        if (is_within(f, &f->pair[i]) == within)
            x[(*n)++] = f->pair[i].rate;
    const double median = rt_median(x, *n);
    free(x);
    return median;
}

/* A message that the plan expects to take not much longer than none says nothing of the rate. */
static bool is_slower_than_planned(const rt_flight *f, const rt_pair *p)
{
    const mg_network *plan = &f->run->program->network;
    const bool within = is_within(f, p);
    const double rate = within ? plan->link_bandwidth : plan->node_bandwidth;
    const double step = within ? plan->link_seconds : plan->node_seconds;
    return (double)f->exchanged / rate > LONG * step && p->rate < SLOW * rate;
}

/* Of processors a slow pair is in doubt alone: other work of the machine is in the time. */
void rt_judge_pairs(rt_flight *f)
{
    const bool gpus = !f->about[0].by_cores;
    int bad = 0, n[2];
    const double usual[2] = {usual_pair(f, false, &n[0]), usual_pair(f, true, &n[1])};
    for (int i = 0; i < f->npairs; i++) {
        const rt_pair *p = &f->pair[i];
        const bool within = is_within(f, p);
        const bool slow = n[within] >= FEW && p->rate < SLOW * usual[within];
        if ((!slow && !(gpus && is_slower_than_planned(f, p))) || bad++ >= TOLD)
            continue;
        rt_found(f, gpus ? RT_FAULT : RT_DOUBT, RT_FAILED, "pair", NULL,
                 "ranks %d (host %s) and %d (host %s) exchange %s: %.2g of the usual pair%s", p->a,
                 rt_host_name(f, f->host[p->a]), p->b, rt_host_name(f, f->host[p->b]),
                 rt_rate_text(p->rate, "B/s").text, p->rate / usual[within],
                 slow ? "" : ", less than half of what the plan counts on");
    }
    if (bad > TOLD)
        rt_found(f, gpus ? RT_FAULT : RT_DOUBT, RT_FAILED, "pair", NULL, "and %d more pairs",
                 bad - TOLD);
    if (f->npairs && !bad)
        rt_found(f, RT_GOOD, RT_DONE, "pairs", NULL, "%d pairs of ranks, none slow", f->npairs);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static double planned_seconds(const rt_flight *f, const rt_group *g)
{
    return 1e-6 * f->run->program->actions[g->planned->action].predicted_us;
}

static bool is_longer(double seconds, double than, double times, double by)
{
    return seconds > times * than && seconds > than + by;
}

/* Later than planned by far, or than other groups and planned. */
bool rt_is_fault(const rt_flight *f, const rt_group *g)
{
    const double planned = planned_seconds(f, g);
    return is_longer(g->seconds, planned, LATE, LATER) ||
           (g->groups >= FEW && g->seconds > planned &&
            is_longer(g->seconds, g->median, DOUBTFUL, LATER));
}

void rt_judge_groups(rt_flight *f)
{
    int bad = 0;
    for (int i = 0; i < f->ngroups; i++) {
        const rt_group *g = &f->group[i];
        const mg_action *a = &f->run->program->actions[g->planned->action];
        const double planned = planned_seconds(f, g);
        const bool fault = rt_is_fault(f, g);
        if (!fault && !is_longer(g->seconds, planned, DOUBTFUL, LATER / 4))
            continue;
        bad++;
        rt_found(f, fault ? RT_FAULT : RT_DOUBT, RT_FAILED, "collective", NULL,
                 "%s (%s) takes %.3g ms on the group of rank %d (host %s), where %.3g are planned "
                 "and the median group takes %.3g",
                 a->name, a->where, 1e3 * g->seconds, g->slowest,
                 rt_host_name(f, f->host[g->slowest]), 1e3 * planned, 1e3 * g->median);
    }
    if (f->ngroups && !bad)
        rt_found(f, RT_GOOD, RT_DONE, "collectives", NULL,
                 "%d of the step, none takes longer than planned", f->ngroups);
}

/* ---- as a description has them ----------------------------------------------------------------
 */

mg_network rt_measured(const rt_flight *f)
{
    int n;
    mg_network m = {.node_ranks = f->ranks[0]};
    for (int h = 0; h < f->nhosts; h++)
        m.node_ranks = f->ranks[h] < m.node_ranks ? f->ranks[h] : m.node_ranks;
    if (!f->about[0].by_cores || f->run->program->arena_bytes / 2 >= CACHED)
        m.link_bandwidth = usual_pair(f, true, &n);
    m.link_seconds = f->step;
    m.node_bandwidth = usual_rate(f);
    m.node_seconds = f->nlinks ? usual_seconds(f) : 0;
    return m;
}
