/* sink.c - what needs a collective's result, and stands before a loop that does not need its own,
 * goes behind the loop. Only where collectives are a queue, which goes on beside the loop.
 *
 *   backward   head.dw | send head.dw | sum of its squares | loop | ...
 *   sunk       head.dw | send head.dw | loop | sum of its squares | ...
 *
 * It would be waited for in the middle of a step: for all other ranks, to come as far as that. */
#include <string.h>

#include "plan/order/streams.h"

/* Does action i come after one of [from, i) that is sent, or goes itself? */
static bool is_held_up(const Plan *p, const Program *g, int from, int i, const bool *sinks)
{
    const Action *act = g->actions.data;
    bool held = false;
    for (int k = from; k < i; k++)
        held |=
            (needs_links(&act[k]) || sinks[k - from]) && conflict(p, g, &act[k], &act[i], false);
    return held && !needs_links(&act[i]);
}

/* Is it wanted before the loop is over: in it, or by what stays before it? */
static bool is_wanted(const Plan *p, const Program *g, int from, int i, const Loop *l,
                      const bool *sinks)
{
    const Action *act = g->actions.data;
    for (int k = i + 1; k < l->end; k++)
        if ((k > l->begin || !sinks[k - from]) && conflict(p, g, &act[i], &act[k], false))
            return true;
    return false;
}

/* The actions of [from, l->begin) that sink. */
static int find(const Plan *p, const Program *g, int from, const Loop *l, bool *sinks)
{
    int n = 0;
    for (int i = from; i < l->begin; i++)
        sinks[i - from] = is_held_up(p, g, from, i, sinks);
    for (int i = l->begin - 1; i >= from; i--) {
        sinks[i - from] = sinks[i - from] && !is_wanted(p, g, from, i, l, sinks);
        n += sinks[i - from];
    }
    return n;
}

/* Behind the loop, in their order; the loop, and those in it, come so much earlier. */
static void move(Program *g, int from, Loop *of, const bool *sinks, int n, Arena *tmp)
{
    const int begin = of->begin, end = of->end;
    Action *act = g->actions.data, *sunk = NEW_ARRAY(tmp, Action, n);
    int stay = from, gone = 0;
    for (int i = from; i < begin; i++)
        if (sinks[i - from])
            sunk[gone++] = act[i];
        else
            act[stay++] = act[i];
    memmove(act + stay, act + begin, (size_t)(end + 1 - begin) * sizeof *act);
    memcpy(act + end + 1 - n, sunk, (size_t)n * sizeof *act);
    for (size_t k = 0; k < g->loops.n; k++) {
        Loop *l = &g->loops.data[k];
        if (l->begin >= begin && l->end <= end) {
            l->begin -= n;
            l->end -= n;
        }
    }
}

bool sink_waits(const Plan *p, Program *g, Arena *tmp)
{
    bool any = false;
    bool *sinks = NEW_ARRAY(tmp, bool, g->actions.n + 1);
    for (int from = 0, i = 0; i < (int)g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        if (!meets_all(a))
            continue;
        Loop *l = a->kind == ACT_loop ? &g->loops.data[a->loop] : NULL;
        const int n = l ? find(p, g, from, l, sinks) : 0;
        if (n)
            move(g, from, l, sinks, n, tmp);
        any |= n > 0;
        i -= n;
        from = i + 1;
    }
    return any;
}
