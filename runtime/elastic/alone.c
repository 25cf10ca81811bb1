/* alone.c - the supervisor of all ranks, in a start without a launcher; and who is a supervisor. */
#include "runtime/elastic/supervisor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/net/ranks.h"
#include "runtime/net/wire_tcp.h"

enum { LOOK_MS = 200 };
#define SECOND ((int64_t)1000000000)

static char *step_text(int64_t step)
{
    return step == RT_STEP_UNKNOWN ? rt_printf("before its first step")
                                   : rt_printf("after step %lld", (long long)step);
}

/* The end of a run that was told to stop. */
static int stopped(const rt_supervisor *s, const rt_end *e)
{
    char *newest = rt_newest_text(s->run);
    if (s->overdue)
        rt_complain("the program has not saved and ended within --grace %lld s: killed; --resume "
                    "goes on from %s",
                    (long long)s->run->options->grace, newest);
    else if (e->was == RT_ENDED_LOST)
        rt_complain("a signal asked it to stop, and %s: it is not started again; --resume goes on "
                    "from %s",
                    e->cause, newest);
    free(newest);
    return e->was == RT_ENDED_LOST ? RT_LOST : e->code;
}

/* The checkpoint that the next start goes on from, as text; the caller frees it. */
static char *from_text(const rt_supervisor *s, int64_t until)
{
    char *newest = rt_newest_text(s->run);
    char *text = until != INT64_MAX
                     ? rt_printf("the newest checkpoint up to step %lld, behind which no bit "
                                 "was wrong",
                                 (long long)until)
                 : s->keepers.n ? rt_printf("memory, or else %s", newest)
                                : rt_printf("%s", newest);
    free(newest);
    return text;
}

static int give_up(const rt_rule *rule, rt_ruling why, const rt_end *e)
{
    char *at = step_text(e->step);
    if (why == RT_TOO_OFTEN_HERE)
        rt_complain("%s, %s, for the third time in a row: a restart does not help", e->cause, at);
    else if (rule->most)
        rt_complain("%s, %s: the run was started again %d times, as often as --max-restarts says",
                    e->cause, at, rule->restarts);
    else
        rt_complain("%s, %s: --max-restarts N starts the run again", e->cause, at);
    free(at);
    return e->code > 128 ? RT_LOST : e->code;
}

/* Waits before a restart. False: a signal says not to start again. */
static bool rest(rt_supervisor *s, int seconds)
{
    rt_end none;
    const int64_t until = rt_now_ns() + seconds * SECOND;
    do {
        rt_supervisor_look(s, &none);
        if (s->stop)
            return false;
        if (seconds)
            rt_supervisor_wait(s, -1, 0, LOOK_MS);
    } while (rt_now_ns() < until);
    return true;
}

/* One keeper has the parts of all ranks; nobody else knows its key. */
static void open_keeper(rt_supervisor *s)
{
    rt_address here = {.v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}};
    rt_keepers *k = &s->keepers;
    if (getrandom(k->key, sizeof k->key, 0) != sizeof k->key)
        rt_die(RT_FAILED, "no random numbers: %s", strerror(errno));
    const int port = rt_keeper_open(s, &here);
    here.v4.sin_port = htons((uint16_t)port);
    k->of[0].spot = rt_address_spot(&here);
    k->of[0].rank = RT_KEEPS_ALL;
    k->n = port != 0;
}

int rt_supervise_alone(rt_supervisor *s)
{
    const rt_options *o = s->run->options;
    rt_rule rule = {.most = o->max_restarts == RT_UNSET ? 0 : (int)o->max_restarts};
    const bool one = s->run->world.launcher != RT_BARE && rt_programs_have(&s->programs, 1);
    rt_start how = {.ranks = o->ranks != RT_UNSET ? (int)o->ranks
                             : one                ? 1
                                                  : (int)s->programs.of[0].ranks,
                    .restarts_max = rule.most,
                    .died = RT_STEP_UNKNOWN,
                    .until = INT64_MAX};
    rt_end e;
    rt_supervisor_open(s);
    open_keeper(s);
    for (;;) {
        int wait;
        rt_supervisor_start(s, &how);
        while (!rt_supervisor_look(s, &e))
            rt_supervisor_wait(s, -1, 0, LOOK_MS);
        const bool corrupt = e.was == RT_ENDED_CORRUPT;
        if ((e.was != RT_ENDED_LOST && !corrupt) || s->stop)
            return s->stop ? stopped(s, &e) : e.code;
        const rt_ruling ruling = rt_rule_next(&rule, e.step, &wait);
        if (ruling != RT_RESTART)
            return give_up(&rule, ruling, &e);
        how.until = corrupt && e.clean >= 0 ? e.clean : e.began ? INT64_MAX : how.until;
        char *at = step_text(e.step), *newest = from_text(s, how.until);
        how.resumes = how.resumes || e.began;
        rt_note("%s, %s: restart %d of %d%s%.0d%s, from %s", e.cause, at, rule.restarts, rule.most,
                wait ? " in " : "", wait, wait ? " s" : "",
                how.resumes ? newest : "where it began");
        free(at);
        free(newest);
        how.restarts = rule.restarts;
        how.died = e.step;
        how.why = e.cause;
        if (!rest(s, wait)) {
            rt_note("stopped before restart %d; --resume goes on", rule.restarts);
            return RT_STOPPED;
        }
    }
}

/* ---- who supervises -------------------------------------------------------------------------- */

static bool wants_supervisor(const rt_options *o)
{
    return o->max_restarts != RT_UNSET || o->grace != RT_UNSET;
}

/* Refuses a launcher that ends all processes itself when one of them ends. */
static void check_launcher(const rt_world *w)
{
    if (w->launcher == RT_BARE || w->launcher == RT_TORCHRUN)
        return;
    rt_die(RT_USAGE,
           "--max-restarts and --grace: %s ends all processes when one ends; a batch system starts "
           "such a job again (#SBATCH --requeue, with --resume=auto), or start each rank with "
           "torchrun's variables, by which ranks meet over TCP (docs/long_runs.md)",
           rt_launcher_name(w->launcher));
}

static void check_ranks(const mg_run *r, const rt_programs *e)
{
    const rt_options *o = r->options;
    const bool chosen = o->ranks != RT_UNSET, bare = r->world.launcher == RT_BARE;
    char *have = rt_programs_text(e);
    if (chosen && !bare)
        rt_die(RT_USAGE, "--ranks: %s has started %d: leave it out",
               rt_launcher_name(r->world.launcher), r->world.size);
    if (chosen && (o->ranks > MG_RANKS_MAX || !rt_programs_have(e, (int)o->ranks)))
        rt_die(RT_USAGE,
               "--ranks %lld: this program was compiled for %s; mgc --elastic compiles "
               "for several",
               (long long)o->ranks, have);
    if (!bare && e->n > 1 && !wants_supervisor(o) && !rt_programs_have(e, r->world.size))
        rt_die(RT_MISFIT, "this program takes %s ranks, and %s started %d process%s of it", have,
               rt_launcher_name(r->world.launcher), r->world.size, r->world.size == 1 ? "" : "es");
    free(have);
}

bool rt_elastic(mg_run *r, char **argv, int *code)
{
    const rt_options *o = r->options;
    const bool bare = r->world.launcher == RT_BARE, trains = o->data.n && !o->info && !o->dry_run;
    rt_supervisor s = {.run = r, .argv = argv, .what = "the program", .keeper_door = -1};
    if (r->pulse)
        return false; /* its supervisor has seen to all of this */
    rt_programs_find(&s.programs, r);
    check_ranks(r, &s.programs);
    if (wants_supervisor(o) && trains) {
        check_launcher(&r->world);
        *code = bare || r->world.size == 1 ? rt_supervise_alone(&s) : rt_supervise_member(&s);
        rt_keeper_end(&s);
        rt_programs_close(&s.programs);
        return true;
    }
    const int own = rt_ranks_of(r->program, RT_ALL_AXES);
    const int want = !bare ? r->world.size : o->ranks == RT_UNSET ? own : (int)o->ranks;
    if (want != own && rt_programs_have(&s.programs, want))
        rt_programs_become(&s.programs, want, argv);
    rt_programs_close(&s.programs);
    return false;
}
