/* alert.c - how an alert reads, and where it goes: a line in the log, an object in metrics.jsonl.
 */
#include "runtime/health/health.h"
#include "runtime/net/ranks.h"

#include <inttypes.h>
#include <stdlib.h>

const char *rt_host_of(const mg_run *r, int rank)
{
    return r->health->host[rank];
}

char *rt_rank_text(const mg_run *r, int rank)
{
    return rt_printf("rank %d (%s)", rank, rt_host_of(r, rank));
}

char *rt_tensor_text(const mg_tensor *t)
{
    return rt_printf("%s%s%s%s", t->name, *t->slot ? " (" : "", t->slot, *t->slot ? ")" : "");
}

char *rt_action_text(const mg_program *p, int action)
{
    const mg_action *a = &p->actions[action];
    return rt_printf("action %d, %s (%s%s%s)", action, a->name, a->kind, *a->where ? ", " : "",
                     a->where);
}

void rt_alert(mg_run *r, const char *kind, int rank, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = rt_shown_lines(fmt, ap);
    va_end(ap);
    rt_log_line(r->log, "alert (%s) at step %" PRId64 ": %s", kind, r->state.step, text);
    rt_log_alert(r->log, r->state.step, kind, rank, rank < 0 ? NULL : rt_host_of(r, rank), text);
    free(text);
}

void rt_accuse(mg_run *r, int rank)
{
    enum { NONE = -1, SEVERAL = -2 };
    rt_health *h = r->health;
    h->accused = h->accused == NONE || h->accused == rank ? rank : SEVERAL;
}

int rt_tell_changed(mg_run *r, int rank, int tensor)
{
    char *who = rt_rank_text(r, rank), *what = rt_tensor_text(&r->program->tensors[tensor]);
    rt_accuse(r, rank);
    rt_alert(r, "memory", rank,
             "%s of %s changed between two steps, while nothing writes it: its memory is not to be "
             "trusted",
             what, who);
    free(who);
    free(what);
    return 1;
}

int rt_tell_differs(mg_run *r, int rank, int action)
{
    char *who = rt_rank_text(r, rank), *what = rt_action_text(r->program, action);
    rt_accuse(r, rank);
    rt_alert(r, "computation", rank,
             "%s made other bits of the same step the second time, first in %s", who, what);
    free(who);
    free(what);
    return 1;
}
