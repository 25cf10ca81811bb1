/* check.c - rank 0's part of --health: when checks are, what the ranks are asked, and how a run
 * ends in which bits are wrong. */
#include "runtime/elastic/pulse.h"
#include "runtime/health/health.h"
#include "runtime/health/slow.h"
#include "runtime/net/ranks.h"
#include "runtime/save.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL = 100, LINKS_EVERY = 10 }; /* steps between checks; checks between those of links */

int64_t rt_health_every(const rt_options *o)
{
    return !strcmp(o->health, "auto") ? USUAL : strtoll(o->health, NULL, 10);
}

char *rt_health_wrong(const rt_options *o, const mg_program *p)
{
    const bool digits = o->health && *o->health && !o->health[strspn(o->health, "0123456789")];
    if (!o->health)
        return o->health_action ? rt_printf("--health-action is what an alert of --health does")
                                : NULL;
    if (strcmp(o->health, "auto") && (!digits || strlen(o->health) > 9 || rt_health_every(o) < 1))
        return rt_printf("--health=%s: a check every N steps, N a whole number from 1 to 999999999",
                         o->health);
    if (o->health_action && strcmp(o->health_action, "log") && strcmp(o->health_action, "stop"))
        return rt_printf("--health-action %s: write log or stop", o->health_action);
    if (!o->data.n)
        return rt_printf("--health checks training, which needs --data");
    if (p->unordered)
        return rt_printf("--health compares bits, and %s adds up in any order: compile it without "
                         "--collectives=unordered",
                         p->name);
    return NULL;
}

static int ranks_of(const mg_run *r)
{
    return rt_ranks_of(r->program, RT_ALL_AXES);
}

int rt_health_place(const mg_run *r)
{
    const rt_health *h = r->health;
    return h && h->order & RT_SAME ? (int)(h->order >> RT_PLACE) : -1;
}

/* Ends a run whose bits are wrong: what it has is not saved. */
static void stop_for(mg_run *r, int alerts)
{
    if (!alerts || r->health->only_logs)
        return;
    rt_pulse_accuse(r, r->health->accused < 0 ? -1 : r->health->accused);
    rt_log_draw(r->log);
    rt_saving_end(r); /* a checkpoint under way is of a state that was voted on */
    char *newest = r->saved_step < 0
                       ? rt_printf("there is no checkpoint yet")
                       : rt_printf("the newest checkpoint is %s/ckpt/%s, which --resume goes on "
                                   "from",
                                   r->options->out, rt_checkpoint_name(r->saved_step).text);
    rt_die(RT_CORRUPT,
           "bits are wrong at step %" PRId64 ": %d alert%s of --health above; nothing of it is "
           "saved: %s",
           r->state.step, alerts, alerts > 1 ? "s" : "", newest);
}

/* Asks for hashes of all tensors, and compares them among ranks, and with those of the last time if
 * there was no step since. Returns the number of alerts. */
static int vote(mg_run *r)
{
    rt_health *h = r->health;
    const size_t n = (size_t)ranks_of(r) * (size_t)r->program->ntensors;
    uint64_t *hash = rt_alloc(n + 1, sizeof *hash);
    rt_ranks_ask(r, RT_ASK_TENSORS, hash, r->program->ntensors * (int64_t)sizeof *hash);
    int alerts = 0;
    for (int k = 0; k < ranks_of(r) && h->checked == r->state.step; k++)
        for (int i = 0; i < r->program->ntensors; i++) {
            const size_t at = (size_t)k * (size_t)r->program->ntensors + (size_t)i;
            if (hash[at] != h->last[at])
                alerts += rt_tell_changed(r, k, i);
        }
    alerts += rt_vote_tensors(r, hash);
    free(h->last);
    h->last = hash;
    h->checked = r->state.step;
    h->awaits = true;
    return alerts;
}

/* Asks each rank what it found by itself. Returns the number of alerts. */
static int gather(mg_run *r)
{
    const int n = ranks_of(r);
    rt_health_report *all = rt_alloc((size_t)n, sizeof *all);
    int alerts = 0;
    rt_ranks_ask(r, RT_ASK_REPORT, all, sizeof *all);
    for (int k = 0; k < n; k++) {
        if (all[k].changed >= 0)
            alerts += rt_tell_changed(r, k, all[k].changed);
        if (all[k].differs >= 0)
            alerts += rt_tell_differs(r, k, all[k].differs);
    }
    if (r->health->slow)
        rt_slow_add(r->health->slow, all, n);
    free(all);
    return alerts;
}

void rt_health_start(mg_run *r)
{
    rt_health *h = r->health;
    if (!h)
        return;
    h->host = rt_alloc((size_t)ranks_of(r), sizeof *h->host);
    rt_ranks_ask(r, RT_ASK_HOST, h->host, sizeof *h->host);
    if (r->ranks)
        h->slow = rt_slow_new();
    rt_log_line(r->log, "health: a check every %" PRId64 " step%s%s", h->every,
                h->every > 1 ? "s" : "",
                r->ranks && r->cuda ? "; links are not watched on GPUs" : "");
    stop_for(r, vote(r));
    rt_pulse_clean(r);
    if (r->ranks && !r->cuda)
        rt_links_check(r);
}

static bool is_due(const mg_run *r, int64_t step)
{
    return r->health && step % r->health->every == 0;
}

void rt_health_before(mg_run *r)
{
    rt_health *h = r->health;
    const mg_program *p = r->program;
    if (!is_due(r, r->state.step + 1))
        return;
    const int places = rt_ranks_of(p, p->step.batch_axes);
    if (r->ranks && places > 1 && p->nalike) {
        h->order = RT_MADE | RT_DRY | RT_SAME | (unsigned)(h->checks % places) << RT_PLACE;
        rt_fill_batch(r);
        rt_run(r, RT_STEP);
        const int alerts = rt_vote_actions(r);
        stop_for(r, alerts ? alerts + vote(r) : 0); /* its memory may be why */
    }
    h->order = RT_MADE | RT_DRY;
    rt_fill_batch(r);
    rt_run(r, RT_STEP);
    h->order = RT_AGAIN;
    h->checks++;
}

void rt_health_after(mg_run *r, bool good)
{
    rt_health *h = r->health;
    const bool check = is_due(r, r->state.step + !good);
    if (!h || (!check && !h->awaits))
        return;
    h->awaits = false;
    int alerts = gather(r);
    if (check && good) {
        alerts += vote(r);
        if (h->slow)
            rt_slow_check(r);
        if (r->ranks && !r->cuda && h->checks % LINKS_EVERY == 0)
            rt_links_check(r);
    }
    stop_for(r, alerts);
    if (check && good && !alerts)
        rt_pulse_clean(r);
}

void rt_health_before_save(mg_run *r)
{
    if (r->health)
        stop_for(r, vote(r));
}
