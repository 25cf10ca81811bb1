/* surprise.c - reports, at the end of a run, the actions that took more than twice, or less than
 * half, of their predicted time.
 *
 * On a processor an action ends before its call returns, so two reads of the clock measure it. A
 * few steps are measured after the first two, which warm caches, and then each 64th step. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/run.h"

enum { WARM = 2, FIRST = 10, EVERY = 64, SAID = 5 };
#define SHARE 0.03 /* of a step: smaller actions do not matter */
#define TIMES 2.0

typedef struct cost {
    int64_t calls, ns;
} cost;

struct rt_costs {
    int64_t seen, steps;  /* steps run; steps measured */
    int64_t open, all_ns; /* start of the running action; total time of the measured steps */
    cost of[];            /* by action */
};

rt_costs *rt_costs_new(const mg_program *p)
{
    return rt_alloc(1, sizeof(rt_costs) + (size_t)p->nactions * sizeof(cost));
}

void rt_costs_free(rt_costs *c)
{
    free(c);
}

bool rt_costs_step(rt_costs *c, int64_t now)
{
    int64_t n = c->seen++;
    bool measured = n >= WARM && (n < FIRST || n % EVERY == 0);
    c->steps += measured;
    c->all_ns -= measured ? now : 0;
    return measured;
}

void rt_costs_stepped(rt_costs *c, int64_t now)
{
    c->all_ns += now;
}

void rt_costs_begin(rt_costs *c, int64_t now)
{
    c->open = now;
}

void rt_costs_end(rt_costs *c, int action, int64_t now)
{
    c->of[action].calls++;
    c->of[action].ns += now - c->open;
}

/* True if the time of an action is its own, and not a wait for other ranks. */
static bool computes(const mg_action *a)
{
    static const char *const waits[] = {"communication", "receive", "send", "guard"};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (strcmp(a->kind, waits[i]) == 0)
            return false;
    return true;
}

typedef struct surprise {
    const mg_action *action;
    double us, times; /* of a call, and relative to the prediction */
    double share;     /* of a step */
} surprise;

static int by_share(const void *a, const void *b)
{
    double x = ((const surprise *)a)->share, y = ((const surprise *)b)->share;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int find(const rt_costs *c, const mg_program *p, surprise *s)
{
    int n = 0;
    for (int i = 0; i < p->nactions; i++) {
        const mg_action *a = &p->actions[i];
        double us = c->of[i].calls ? (double)c->of[i].ns / 1e3 / (double)c->of[i].calls : 0;
        double times = a->predicted_us > 0 ? us / a->predicted_us : 0;
        double share = (double)c->of[i].ns / (double)c->all_ns;
        double off = times < 1 ? share / times : share; /* too fast: its predicted share counts */
        if (c->of[i].calls && computes(a) && off >= SHARE && (times > TIMES || times < 1 / TIMES))
            s[n++] = (surprise){a, us, times, share};
    }
    qsort(s, (size_t)n, sizeof *s, by_share);
    return n;
}

char *rt_costs_text(const rt_costs *c, const mg_program *p)
{
    if (!c || !c->steps || c->all_ns <= 0)
        return NULL;
    surprise *s = rt_alloc((size_t)p->nactions + 1, sizeof *s);
    int n = find(c, p, s);
    char *text = n ? rt_printf("%s", "") : NULL;
    for (int i = 0; i < n && i <= SAID; i++) {
        char *before = text;
        if (i < SAID)
            text = rt_printf(
                "%s%ssurprise: %s (%s) takes %s, %.2g times the %s predicted; %.0f%% of a step",
                before, i ? "\n" : "", s[i].action->name, s[i].action->where,
                rt_ms_text(s[i].us / 1e3).text, s[i].times,
                rt_ms_text(s[i].action->predicted_us / 1e3).text, 100 * s[i].share);
        else
            text = rt_printf(
                "%s\nsurprise: %d more took over twice as long as predicted, or under half", before,
                n - SAID);
        free(before);
    }
    free(s);
    return text;
}
