/* generation.c - what a coordinator does behind the end of a generation: whether the run goes on,
 * and with which members. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/elastic/coordinator.h"

enum { NOTE_SECONDS = 5, SPARE_SECONDS = 10 };

/* ---- after its end -----------------------------------------------------------------------------
 */

/* The seat of the member that had rank `place`, if it is there and says how that ended. */
static const seat *seat_of(const coordinator *c, int place)
{
    const seat *s = c->placed[place] < 0 ? NULL : &c->seat[c->placed[place]];
    return s && is_here(s) && (int)s->said.generation == c->generation ? s : NULL;
}

/* Members that are missing: "2, 3", or ""; the caller frees it. */
static char *missing(const coordinator *c)
{
    char *text = rt_printf("%s", "");
    for (int i = 0; i < c->party->members; i++) {
        if (is_here(&c->seat[i]))
            continue;
        char *before = text;
        text = rt_printf("%s%s%d", before, *before ? ", " : "", i);
        free(before);
    }
    return text;
}

/* The cause: a rank that was ended by a signal knows more than those that saw it go. */
static void find_cause(coordinator *c)
{
    char *gone = missing(c);
    const seat *known = NULL;
    for (int p = 0; p < c->size; p++) {
        const seat *s = seat_of(c, p);
        if (s && *s->said.cause && s->said.outcome == RT_ENDED_LOST &&
            (!known || s->said.code != RT_LOST))
            known = s;
    }
    char *text = rt_printf("%s%s%s", known ? known->said.cause : "no rank is left",
                           *gone ? "; not there: the supervisor of RANK " : "", gone);
    snprintf(c->cause, sizeof c->cause, "%s", text);
    free(text);
    free(gone);
}

/* Wrong bits: the run goes on from before them, and members of the machine that has them come last
 * when ranks are given away. */
static void leave_out(coordinator *c, const seat *leader)
{
    const int64_t rank = leader->said.accused;
    const int member = rank >= 0 && rank < c->size ? c->placed[rank] : -1;
    snprintf(c->cause, sizeof c->cause, "%s", leader->said.cause);
    if (leader->said.clean >= 0)
        c->until = leader->said.clean;
    rt_note("bits were wrong: the run goes on from a checkpoint up to step %lld, behind which none "
            "was%s",
            (long long)leader->said.clean,
            member < 0 ? "; no machine alone was named"
                       : "; the machine that was named is left "
                         "out if there are spares enough");
    for (int i = 0; member >= 0 && i < c->party->members; i++)
        if (c->seat[i].said.host == c->seat[member].said.host)
            c->shunned[i] = true;
}

/* Ends the run, or decides that it is to go on. */
void rt_generation_settle(coordinator *c)
{
    const seat *leader = seat_of(c, 0);
    int wait;
    c->settled = true;
    c->gathers = rt_now_ns();
    c->noted = false;
    if (leader && leader->said.step != RT_STEP_UNKNOWN)
        c->until = INT64_MAX; /* it was past that */
    if (leader && leader->said.outcome == RT_ENDED_TO_GROW) {
        c->died = leader->said.step;
        c->not_before = c->gathers;
        snprintf(c->cause, sizeof c->cause, "there can be more ranks");
        return;
    }
    if (leader && leader->said.outcome != RT_ENDED_LOST &&
        leader->said.outcome != RT_ENDED_CORRUPT) {
        rt_coordinator_end(c, leader->said.code, NULL); /* it has said why */
        return;
    }
    for (int p = 0; p < c->size; p++) {
        const seat *s = seat_of(c, p);
        if (s && s->said.outcome == RT_ENDED_FOR_GOOD) {
            rt_coordinator_end(c, s->said.code, s->said.cause);
            return;
        }
    }
    find_cause(c);
    if (leader && leader->said.outcome == RT_ENDED_CORRUPT)
        leave_out(c, leader);
    c->died = leader ? leader->said.step : RT_STEP_UNKNOWN;
    /* The step counts as another one than before if no member knows it. */
    if (!leader)
        c->rule.same = 0;
    const rt_ruling ruling = rt_rule_next(&c->rule, c->died, &wait);
    c->not_before = c->gathers + wait * SECOND;
    if (ruling == RT_RESTART)
        return;
    char *text =
        ruling == RT_TOO_MANY
            ? rt_printf("%s: the run was started again %d times, as often as --max-restarts says",
                        c->cause, c->rule.restarts)
            : rt_printf("%s, after step %lld, for the third time in a row: a restart does not help",
                        c->cause, (long long)c->died);
    rt_coordinator_end(c, leader && leader->said.outcome == RT_ENDED_CORRUPT ? RT_CORRUPT : RT_LOST,
                       text);
    free(text);
}

/* ---- the next generation ------------------------------------------------------------------------
 */

/* Chooses members by their order, those of machines that had wrong bits last; the first sees the
 * run's directory. False: none does. */
static bool choose(coordinator *c, int size)
{
    int leader = -1, n = 1;
    for (int shunned = 0; shunned < 2; shunned++)
        for (int i = 0; i < c->party->members && leader < 0; i++)
            if (c->shunned[i] == shunned && is_ready(&c->seat[i]) &&
                (!c->resumes || c->seat[i].said.sees))
                leader = i;
    if (leader < 0)
        return false;
    c->placed[0] = leader;
    for (int shunned = 0; shunned < 2; shunned++)
        for (int i = 0; i < c->party->members && n < size; i++)
            if (c->shunned[i] == shunned && i != leader && is_ready(&c->seat[i]))
                c->placed[n++] = i;
    return true;
}

static rt_roll_word begin_word(const coordinator *c, int place)
{
    const uint64_t host = c->seat[c->placed[place]].said.host;
    rt_roll_word w = {.kind = RT_ROLL_BEGIN,
                      .generation = (uint32_t)c->generation,
                      .size = (uint32_t)c->size,
                      .place = (uint32_t)place,
                      .restarts = c->rule.restarts,
                      .restarts_max = c->rule.most,
                      .began = c->resumes,
                      .step = c->died,
                      .until = c->until,
                      .shunned = c->shunned[c->placed[place]],
                      .mark = c->mark};
    for (int p = 0; p < c->size; p++)
        if (c->seat[c->placed[p]].said.host == host) {
            w.local_place += p < place;
            w.local_size++;
        }
    if (c->placed[0])
        w.leader = c->seat[c->placed[0]].said.door;
    snprintf(w.cause, sizeof w.cause, "%s", c->cause);
    rt_know_doors(c, &w);
    for (int i = 0; i < c->party->members; i++) {
        w.keepers[i] = is_here(&c->seat[i]) ? (uint16_t)c->seat[i].said.keeper : 0;
        w.places[i] = RT_KEEPS_NONE;
    }
    for (int p = 0; p < c->size; p++)
        w.places[c->placed[p]] = (int16_t)p;
    return w;
}

static void begin(coordinator *c, int size)
{
    rt_roll_word spare = {.kind = RT_ROLL_WAIT};
    if (!choose(c, size)) {
        rt_coordinator_end(
            c, RT_MISFIT,
            "none of the machines that are left sees the directory of --out: put it on a file "
            "system that all machines have, or start the run again with --resume on the machine "
            "that has it");
        return;
    }
    c->generation++;
    c->size = size;
    c->failed = 0;
    c->settled = c->grows = false;
    while (!c->mark)
        if (getrandom(&c->mark, sizeof c->mark, 0) != sizeof c->mark)
            c->mark = (uint64_t)rt_now_ns();
    if (c->rule.restarts)
        rt_note("%s: restart %d of %d, on %d ranks", c->cause, c->rule.restarts, c->rule.most,
                size);
    for (int p = 0; p < size; p++) {
        seat *s = &c->seat[c->placed[p]];
        rt_roll_word w = begin_word(c, p);
        s->told = false;
        s->begun = c->generation;
        s->said.runs = 1;
        s->said.generation = w.generation;
        s->said.place = w.place;
        s->said.size = w.size;
        rt_seat_tell(c, s, &w);
    }
    rt_know_doors(c, &spare);
    spare.mark = c->mark;
    for (int i = 0; i < c->party->members; i++)
        if (is_ready(&c->seat[i])) {
            spare.shunned = c->shunned[i];
            rt_seat_tell(c, &c->seat[i], &spare);
        }
}

static void note_wait(coordinator *c, int ready)
{
    char *who = missing(c);
    if (*who)
        rt_note("%d of %d supervisors are there; waiting up to %lld s for that of RANK %s", ready,
                c->party->members, (long long)(c->patience / SECOND), who);
    free(who);
    c->noted = true;
}

void rt_generation_gather(coordinator *c)
{
    const rt_programs *e = &c->s->programs;
    const int64_t now = rt_now_ns();
    /* After a start with fewer ranks nobody waits again for those that had not come. */
    const int most = c->generation ? c->size : rt_programs_most(e, c->party->members);
    int ready = 0;
    for (int i = 0; i < c->party->members; i++)
        ready += is_ready(&c->seat[i]);
    const int size = rt_programs_most(e, ready);
    if (!c->noted && ready < most && now - c->gathers > NOTE_SECONDS * SECOND)
        note_wait(c, ready);
    if (now < c->not_before || (ready < most && now - c->gathers < c->patience))
        return;
    /* At first all are on their way: ranks are of the first of them, and spares of the last. */
    if (!c->generation && ready < c->party->members &&
        now - c->gathers <
            (c->patience < SPARE_SECONDS * SECOND ? c->patience : SPARE_SECONDS * SECOND))
        return;
    if (size) {
        begin(c, size);
        return;
    }
    char *who = missing(c), *have = rt_programs_text(e);
    char *text =
        rt_printf("the supervisor of RANK %s has not come within --rejoin %lld s, and this "
                  "program takes %s ranks: start it there, or compile the program for "
                  "fewer, too (mgc --elastic)",
                  *who ? who : "(all)", (long long)(c->patience / SECOND), have);
    rt_coordinator_end(c, RT_LOST, text);
    free(who);
    free(have);
    free(text);
}

/* A run that has fewer ranks than it could have begins again with more, behind its next save. */
void rt_generation_grow(coordinator *c)
{
    int there = 0, running = 0;
    for (int i = 0; i < c->party->members; i++) {
        there += is_ready(&c->seat[i]);
        running += runs(c, &c->seat[i]);
    }
    const int size = rt_programs_most(&c->s->programs, there + running);
    seat *leader = c->placed[0] < 0 ? NULL : &c->seat[c->placed[0]];
    if (c->grows || running < c->size || size <= c->size || !leader || !runs(c, leader))
        return;
    c->grows = true;
    rt_note("%d supervisors are there: the run goes on with %d ranks, and not %d, from its next "
            "save on",
            there + running, size, c->size);
    rt_seat_tell(c, leader, &(rt_roll_word){.kind = RT_ROLL_GROW});
}
