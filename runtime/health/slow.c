/* slow.c - names slow ranks; the rule is in slow.h. */
#include "runtime/health/slow.h"
#include "runtime/net/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

rt_slow *rt_slow_new(void)
{
    return rt_alloc(1, sizeof(rt_slow));
}

void rt_slow_add(rt_slow *s, const rt_health_report *all, int n)
{
    for (int k = 0; k < n; k++) {
        s->worked[k] += all[k].worked;
        s->waited[k] += all[k].waited;
    }
    s->steps += all[0].steps;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double rt_lower_median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[(n - 1) / 2];
}

double rt_slow_limit(double *own, int n, double *median)
{
    double away[MG_RANKS_MAX];
    *median = rt_lower_median(own, n);
    for (int i = 0; i < n; i++)
        away[i] = fabs(own[i] - *median);
    return *median + fmax(0.25 * *median, 6 * 1.4826 * rt_lower_median(away, n));
}

/* The limit for a rank, and what is usual; infinite: nothing is known yet. */
static double limit_of(const mg_run *r, int rank, double *usual)
{
    const rt_slow *s = r->health->slow;
    const mg_program *p = r->program;
    double own[MG_RANKS_MAX], past[RT_SLOW_PAST];
    int n = 0;
    for (int k = 0; k < rt_ranks_of(p, RT_ALL_AXES); k++)
        if (rt_place_of(p, k, p->stages.axis) == rt_place_of(p, rank, p->stages.axis))
            own[n++] = s->worked[k] / (double)s->steps;
    if (n > 1)
        return rt_slow_limit(own, n, usual);
    if (s->windows < RT_SLOW_PAST)
        return INFINITY;
    memcpy(past, s->past[rank], sizeof past);
    *usual = rt_lower_median(past, RT_SLOW_PAST);
    return 1.5 * *usual;
}

static void tell(mg_run *r, int rank, double usual)
{
    const rt_slow *s = r->health->slow;
    double others = 0;
    const int n = rt_ranks_of(r->program, RT_ALL_AXES);
    for (int k = 0; k < n; k++)
        others += k == rank ? 0 : s->waited[k] / (double)(n - 1);
    char *who = rt_rank_text(r, rank);
    rt_alert(
        r, "slow", rank,
        "%s is slow: %s %s of a step by itself, where %s is usual, and waits for others %s; the "
        "others wait %s",
        who, r->cuda ? "its GPU works" : "it works",
        rt_ms_text(s->worked[rank] / (double)s->steps / 1e6).text, rt_ms_text(usual / 1e6).text,
        rt_ms_text(s->waited[rank] / (double)s->steps / 1e6).text,
        rt_ms_text(others / (double)s->steps / 1e6).text);
    free(who);
}

void rt_slow_check(mg_run *r)
{
    rt_slow *s = r->health->slow;
    if (s->steps < (r->cuda ? RT_SLOW_RUNS : RT_SLOW_STEPS))
        return;
    for (int k = 0; k < rt_ranks_of(r->program, RT_ALL_AXES); k++) {
        double usual = 0;
        const bool slow = s->worked[k] / (double)s->steps > limit_of(r, k, &usual);
        if (slow && s->before[k])
            tell(r, k, usual);
        s->before[k] = slow;
    }
    for (int k = 0; k < rt_ranks_of(r->program, RT_ALL_AXES); k++)
        s->past[k][s->windows % RT_SLOW_PAST] = s->worked[k] / (double)s->steps;
    s->windows++;
    s->steps = 0;
    memset(s->worked, 0, sizeof s->worked);
    memset(s->waited, 0, sizeof s->waited);
}
