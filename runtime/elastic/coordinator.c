/* coordinator.c - lets the ranks of the members begin together, and again when one is gone.
 *
 * The members are the supervisors that the launcher started, by their RANK. Each begin is a
 * generation: it says which members run, and which rank each of them has. A member beyond the ranks
 * of the program is a spare. When a member's rank or the member itself is gone, all ranks of the
 * generation end (their watchdogs see to that, or else this process tells the members to kill
 * them), and the next generation begins:
 *
 *   at once, as soon as there are members enough for as many ranks as before, at first for the
 *   most ranks that the program has;
 *   after --rejoin seconds, with the most ranks for which there are members.
 *
 * All that this process knows it has from the members' words: when it dies, the next one asks them
 * again, and a generation that runs goes on. Rank 0 is of the first member that sees --out. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/elastic/coordinator.h"

enum { TICK_MS = 100 };
/* Ranks get some time to find out by themselves what is wrong, and to say it. */
enum {
    PATIENCE_SECONDS = 2,
    ACQUAINTANCE_SECONDS = 5,
    FAREWELL_SECONDS = 5,
    GREETING_SECONDS = 10
};

static void leaves(seat *s)
{
    rt_roll_close(&s->line);
    s->told = false;
    s->begun = 0;
}

void rt_seat_tell(const coordinator *c, seat *s, const rt_roll_word *w)
{
    if (!rt_roll_say(&s->line, c->party, w))
        leaves(s);
}

void rt_know_doors(const coordinator *c, rt_roll_word *w)
{
    for (int i = 0; i < c->party->members; i++)
        w->doors[i] = c->seat[i].said.door;
}

/* ---- the end --------------------------------------------------------------------------------- */

void rt_coordinator_end(coordinator *c, int code, const char *text)
{
    c->over = true;
    c->over_since = rt_now_ns();
    c->last = (rt_roll_word){.kind = RT_ROLL_OVER, .code = code};
    if (text)
        rt_complain("%s", text);
}

/* Waits for a while for members that are not there: they may come. */
static void say_goodbye(coordinator *c)
{
    bool all = true;
    for (int i = 0; i < c->party->members; i++) {
        seat *s = &c->seat[i];
        if (is_here(s) && !s->parted) {
            s->parted = true;
            rt_seat_tell(c, s, &c->last);
        }
        all = all && s->parted && s->line.fd < 0;
    }
    if (all || rt_now_ns() - c->over_since > FAREWELL_SECONDS * SECOND)
        _exit(RT_DONE);
}

/* ---- a generation that runs --------------------------------------------------------------------
 */

/* Learns of a generation that another coordinator has begun. */
static void adopt(coordinator *c)
{
    for (int i = 0; i < c->party->members; i++) {
        const rt_roll_word *w = &c->seat[i].said;
        if (!is_here(&c->seat[i]))
            continue;
        c->resumes = c->resumes || w->began;
        c->shunned[i] = c->shunned[i] || w->shunned;
        if (w->mark)
            c->mark = w->mark;
        if (w->restarts > c->rule.restarts)
            c->rule.restarts = w->restarts;
        if ((int)w->generation > c->generation) {
            c->generation = (int)w->generation;
            c->size = (int)w->size;
            c->settled = false;
            for (int p = 0; p < MG_RANKS_MAX; p++)
                c->placed[p] = -1;
        }
        if (w->generation && (int)w->generation == c->generation && (int)w->place < c->size)
            c->placed[w->place] = i;
    }
}

/* True if a rank of the generation is missing, and the others will not end as they should. */
static bool is_broken(const coordinator *c)
{
    for (int p = 0; p < c->size; p++) {
        const seat *s = c->placed[p] < 0 ? NULL : &c->seat[c->placed[p]];
        if (!s || !is_here(s))
            return rt_now_ns() - c->began > ACQUAINTANCE_SECONDS * SECOND;
        if (!runs(c, s) && s->said.outcome != RT_ENDED_WELL &&
            s->said.outcome != RT_ENDED_STOPPED && s->said.outcome != RT_ENDED_TO_GROW)
            return true;
    }
    return false;
}

/* Ends what is left of a generation, if it does not end by itself. */
static void look_after(coordinator *c)
{
    const int64_t now = rt_now_ns();
    if (!is_broken(c)) {
        c->failed = 0;
        return;
    }
    c->failed = c->failed ? c->failed : now;
    if (now - c->failed < PATIENCE_SECONDS * SECOND)
        return;
    for (int i = 0; i < c->party->members; i++)
        if (runs(c, &c->seat[i]) && !c->seat[i].told) {
            c->seat[i].told = true;
            rt_seat_tell(c, &c->seat[i], &(rt_roll_word){.kind = RT_ROLL_DROP});
        }
}

/* Members that run another generation were away for long. */
static void drop_late(coordinator *c)
{
    for (int i = 0; i < c->party->members; i++) {
        seat *s = &c->seat[i];
        if (is_here(s) && s->said.runs && !runs(c, s) && !s->told) {
            s->told = true;
            rt_seat_tell(c, s, &(rt_roll_word){.kind = RT_ROLL_DROP});
        }
    }
}

static void decide(coordinator *c)
{
    bool any = false;
    adopt(c);
    for (int i = 0; i < c->party->members; i++)
        any = any || runs(c, &c->seat[i]);
    drop_late(c);
    if (any) {
        look_after(c);
        rt_generation_grow(c);
    } else if (c->generation && !c->settled)
        rt_generation_settle(c);
    else
        rt_generation_gather(c);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void let_in(coordinator *c, int door)
{
    const int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    guest *g = &c->guest[0];
    if (fd < 0)
        return;
    for (int i = 0; i < RT_GUESTS; i++) { /* a free place, or that of the oldest */
        if (c->guest[i].line.fd < 0) {
            g = &c->guest[i];
            break;
        }
        if (c->guest[i].began < g->began)
            g = &c->guest[i];
    }
    rt_roll_close(&g->line);
    g->began = rt_now_ns();
    rt_roll_open(&g->line, c->party, fd, false);
}

/* A member comes, perhaps while its old connection, or that of the one before it, seems to stand;
 * but not while another process that has its RANK speaks. */
static void seat_guest(coordinator *c, guest *g, const rt_roll_word *w)
{
    enum { SPEAKS_SECONDS = 3 * RT_ROLL_EVERY };
    seat *s = &c->seat[g->line.theirs.member];
    if (is_here(s) && s->said.self != w->self &&
        rt_now_ns() - s->line.heard_ns < SPEAKS_SECONDS * SECOND) {
        if (s->doubled != w->self)
            rt_note("a process that called here was sent away: another one is the supervisor of "
                    "RANK %u already",
                    g->line.theirs.member);
        s->doubled = w->self;
        rt_roll_close(&g->line);
        return;
    }
    leaves(s);
    s->line = g->line;
    s->said = *w;
    g->line.fd = -1;
}

static void hear_guest(coordinator *c, guest *g)
{
    rt_roll_word w;
    const char *why;
    const int came = rt_roll_hear(&g->line, c->party, &w, &why);
    if (came > 0 && w.kind == RT_ROLL_STATE) {
        seat_guest(c, g, &w);
        return;
    }
    if (came == 0 && rt_now_ns() - g->began < GREETING_SECONDS * SECOND)
        return;
    if (why)
        rt_note("a process that called here was sent away: %s", why);
    rt_roll_close(&g->line);
}

static void hear_member(coordinator *c, seat *s)
{
    rt_roll_word w;
    const char *why;
    for (;;) {
        const int came = rt_roll_hear(&s->line, c->party, &w, &why);
        if (!came)
            return;
        if (came < 0 || w.kind != RT_ROLL_STATE) {
            leaves(s);
            return;
        }
        if ((int)w.generation < s->begun)
            continue; /* it was on its way when the member was told to begin */
        s->told = s->told && w.runs;
        s->said = w;
    }
}

/* Says that this process is there, and leaves members that do not run. */
static void keep_in_touch(coordinator *c, seat *s)
{
    const int64_t now = rt_now_ns();
    if (s->line.fd < 0)
        return;
    if (now - s->line.said_ns > RT_ROLL_EVERY * SECOND)
        rt_seat_tell(c, s, &(rt_roll_word){.kind = RT_ROLL_HERE});
    if (now - s->line.heard_ns > RT_ROLL_SILENCE * SECOND)
        leaves(s);
}

static void listen_to_all(coordinator *c)
{
    struct pollfd p[RT_DOORS + RT_GUESTS + MG_RANKS_MAX];
    int n = 0;
    for (int i = 0; i < c->doors->n; i++)
        p[n++] = (struct pollfd){c->doors->fd[i], POLLIN, 0};
    for (int i = 0; i < RT_GUESTS; i++)
        p[n++] = (struct pollfd){c->guest[i].line.fd, POLLIN, 0};
    for (int i = 0; i < c->party->members; i++)
        p[n++] = (struct pollfd){c->seat[i].line.fd, POLLIN, 0};
    poll(p, (nfds_t)n, TICK_MS);
    for (int i = 0; i < c->doors->n; i++)
        if (p[i].revents)
            let_in(c, c->doors->fd[i]);
    for (int i = 0; i < RT_GUESTS; i++)
        if (c->guest[i].line.fd >= 0)
            hear_guest(c, &c->guest[i]);
    for (int i = 0; i < c->party->members; i++)
        if (c->seat[i].line.fd >= 0) {
            hear_member(c, &c->seat[i]);
            keep_in_touch(c, &c->seat[i]);
        }
}

static coordinator *new_coordinator(const rt_supervisor *s, const rt_roll_party *p,
                                    const rt_doors *d)
{
    const rt_options *o = s->run->options;
    enum { REJOIN = 300, SUCCESSOR = 10 };
    coordinator *c = rt_alloc(1, sizeof *c);
    c->s = s;
    c->party = p;
    c->doors = d;
    c->began = c->gathers = rt_now_ns();
    c->patience = o->rejoin == RT_UNSET ? REJOIN : o->rejoin;
    /* Members have waited for the coordinator before by now. */
    if (p->member && c->patience > SUCCESSOR)
        c->patience = SUCCESSOR;
    c->patience *= SECOND;
    c->rule.most = o->max_restarts == RT_UNSET ? 0 : (int)o->max_restarts;
    c->died = RT_STEP_UNKNOWN;
    c->until = INT64_MAX;
    for (int i = 0; i < MG_RANKS_MAX; i++) {
        c->seat[i].line.fd = -1;
        c->placed[i] = -1;
    }
    for (int i = 0; i < RT_GUESTS; i++)
        c->guest[i].line.fd = -1;
    return c;
}

void rt_coordinate(const rt_supervisor *s, const rt_roll_party *p, const rt_doors *d)
{
    coordinator *c = new_coordinator(s, p, d);
    for (;;) {
        listen_to_all(c);
        if (!c->over)
            decide(c);
        if (c->over)
            say_goodbye(c);
    }
}
