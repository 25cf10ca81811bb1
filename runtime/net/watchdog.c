/* watchdog.c - a thread in each rank that ends the program when another rank is gone or hangs.
 *
 * Gone: the connection to the rank breaks. The kernel closes it however a process ends. The first
 * rank of a machine has a connection to each of the others.
 *
 * Hangs: at every tick each watchdog publishes a heartbeat, and how many actions and meetings its
 * rank has passed. --hang-after limits two cases: the heartbeats of a rank stop (its process was
 * stopped, or gets no processor), or a rank begins no action while this rank waits for other ranks.
 * Each watchdog counts time in its own ticks, so that a job that was suspended as a whole, or a
 * machine that slept, goes on. Between programs rank 0 may take as long as it likes, as long as its
 * heartbeat continues.
 *
 * A rank that waits for too long asks the ranks of other machines, over the wire. Their watchdog
 * threads answer, so a rank that does not answer is stopped.
 *
 * Rank 0 also sees when its launcher is gone; then it saves and stops as on a signal.
 *
 * The first watchdog that finds a fault leaves its verdict in shared memory, where the ranks of
 * this machine see it, and sends it to the ranks of other machines. All ranks therefore name the
 * rank that failed first, and not a rank that ended because of it. If the wire has lines (TCP),
 * a line that breaks without such a word belongs to a rank that is gone, or to its machine. A
 * wait cannot block the watchdog: the wait is in another thread, and ends with the process. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/machine.h"

/* Verdicts: the kind of fault. A verdict also has the rank. */
enum { LOST = 1, STOPPED, STUCK, UNHEARD, KNOT };

enum { TICK_MS = 1000, TICKS = 8, TICK_MIN_MS = 20, LAST_WORDS_US = 300000 };
/* Between programs, rank 0 on another machine may be silent for this many limits. */
enum { BETWEEN = 10 };
/* A machine that found the fault ends its ranks within this time. */
#define ELSEWHERE_NS ((int64_t)2000000000)

/* The last state that was seen of a rank, and for how long it has not changed, ns. */
typedef struct sight {
    uint64_t beats, past;
    int64_t silent, still;
} sight;

struct rt_watchdog {
    mg_run *run;
    pthread_t thread;
    int wake;
    int64_t tick, limit; /* ns; no limit: 0 */
    pid_t launcher;      /* parent process of rank 0, if a launcher started it; else 0 */
    uint64_t passed;     /* actions that the device had passed at the last beat */
    sight seen[MG_RANKS_MAX];
    bool asked; /* the ranks of other machines were asked during this wait */
    bool answered[MG_RANKS_MAX];
    rt_word answer[MG_RANKS_MAX];
};

static rt_slot *slot_of(const rt_watchdog *v, int rank)
{
    return &v->run->ranks->shared->slot[rank];
}

static int waits_of(const rt_slot *s)
{
    return s->held ? RT_AWAITS_RANKS : s->waits;
}

static int action_of(const rt_slot *s)
{
    return s->held ? s->held - 1 : s->action;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* "action 41, layers.attend.q (product, llama.mg:23)"; the caller frees it. */
static char *place_text(const rt_watchdog *v, int action)
{
    const mg_program *p = v->run->program;
    if (action < 0 || action >= p->nactions)
        return rt_printf("between programs");
    const mg_action *a = &p->actions[action];
    return rt_printf("in action %d, %s (%s%s%s)", action, a->name, a->kind, *a->where ? ", " : "",
                     a->where);
}

/* The place where the other ranks wait; the caller frees it. */
static char *waits_text(const rt_watchdog *v, int but)
{
    const struct rt_ranks *k = v->run->ranks;
    for (int i = 0; i < k->nhere; i++) {
        const rt_slot *s = slot_of(v, k->here[i]);
        if (k->here[i] == but || waits_of(s) != RT_AWAITS_RANKS)
            continue;
        char *place = place_text(v, action_of(s));
        char *text = rt_printf("; the others wait %s", place);
        free(place);
        return text;
    }
    return rt_printf("%s", but ? "" : "; the others wait for its orders");
}

static void say(const rt_watchdog *v, int verdict)
{
    int what = verdict >> 16, rank = (verdict & 0xffff) - 1;
    const rt_slot *s = slot_of(v, rank);
    double seconds = (double)v->limit / 1e9;
    bool here = v->run->ranks->is_here[rank];
    char *place = place_text(v, action_of(s)), *others = waits_text(v, rank);
    if (what == LOST && s->parted)
        rt_complain("rank %d is gone (exit %d): all ranks end here", rank, s->parted - 1);
    else if (what == LOST)
        rt_complain("rank %d is gone: all ranks end here", rank);
    else if (what == STOPPED)
        rt_complain(
            "rank %d hangs: its process has not run for %.3g s, since it was %s%s: all ranks "
            "end here",
            rank, seconds, place, others);
    else if (what == STUCK)
        rt_complain("rank %d hangs: for %.3g s it has been %s%s: all ranks end here", rank, seconds,
                    place, others);
    else if (what == UNHEARD)
        rt_complain("rank %d hangs: on another machine, it has made no progress and not answered "
                    "for %.3g s%s: all ranks end here",
                    rank, seconds, others);
    else if (here)
        rt_complain("all ranks of this machine wait for each other for more than %.3g s%s",
                    2 * seconds, others);
    else
        rt_complain("all ranks of the machine of rank %d wait for each other for more than %.3g s",
                    rank, 2 * seconds);
    free(place);
    free(others);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Kills a stopped process, which would not end with the others. A launcher reports what it sees
 * first, and should see the other ranks leave first: a child process therefore kills it a little
 * later. */
static void kill_rank(const rt_watchdog *v, int rank)
{
    const rt_slot *s = slot_of(v, rank);
    if (s->pid <= 0 || s->pid_space != slot_of(v, v->run->rank)->pid_space)
        return;
    if (v->run->ranks->launched) {
        if (fork())
            return;
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        sleep(1);
    }
    kill(s->pid, SIGKILL);
    if (v->run->ranks->launched)
        _exit(RT_DONE);
}

/* Sends the verdict to the other machines. */
static void pass_on(const rt_watchdog *v, int verdict)
{
    const struct rt_ranks *k = v->run->ranks;
    int rank = (verdict & 0xffff) - 1;
    const rt_slot *s = slot_of(v, rank);
    rt_word word = {.verdict = verdict, .parted = s->parted, .action = action_of(s)};
    if (!k->wire || !rt_wire_speaks(k->wire))
        return;
    for (int i = 0; i < k->n; i++)
        if (!k->is_here[i])
            rt_wire_say(k->wire, i, &word);
}

/* Waits while another thread of this rank ends the process: that thread tells the other ranks
 * and has its own exit code. */
static void let_end(const rt_watchdog *v)
{
    enum { PATIENCE_US = 2000000, NAP_US = 10000 };
    for (int us = 0; slot_of(v, v->run->rank)->parted && us < PATIENCE_US; us += NAP_US)
        usleep(NAP_US);
}

/* Chooses the rank that prints the verdict. In a bare start one rank prints for all: rank 0,
 * because the others end with rank 0 at any time; or, if rank 0 is at fault, the rank that found
 * it. */
static bool speaks(const rt_watchdog *v, int verdict, bool first)
{
    const int what = verdict >> 16, whose = (verdict & 0xffff) - 1, mine = v->run->rank;
    if (!v->run->ranks->launched)
        return whose == 0 && what != KNOT ? first : mine == 0;
    return what == KNOT || whose != mine;
}

/* The code that this rank ends with. In a bare start nobody sees that of another one: rank 0 ends
 * as the rank did that ended by itself. */
static int code_of(const rt_watchdog *v, int verdict)
{
    const rt_slot *s = slot_of(v, (verdict & 0xffff) - 1);
    return verdict >> 16 == LOST && !v->run->ranks->launched && s->parted ? s->parted - 1 : RT_LOST;
}

static _Noreturn void leave(const rt_watchdog *v, bool first)
{
    struct rt_ranks *k = v->run->ranks;
    int verdict = k->shared->verdict, what = verdict >> 16, rank = (verdict & 0xffff) - 1;
    let_end(v);
    rt_end_group();
    pass_on(v, verdict);
    if (speaks(v, verdict, first))
        say(v, verdict);
    const int code = code_of(v, verdict);
    slot_of(v, v->run->rank)->parted = code + 1;
    for (int i = 0; i < k->nhere && v->run->rank == k->here[0]; i++)
        if (k->link[k->here[i]] >= 0)
            shutdown(k->link[k->here[i]], SHUT_RDWR);
    if (k->launched)
        usleep(LAST_WORDS_US); /* print before the launcher sees the end and ends the others */
    if (first && (what == STOPPED || what == STUCK) && k->is_here[rank])
        kill_rank(v, rank);
    if (k->wire)
        rt_wire_abort(k->wire, code);
    _exit(code);
}

static _Noreturn void judge(const rt_watchdog *v, int what, int rank)
{
    int none = 0;
    bool first = atomic_compare_exchange_strong(&v->run->ranks->shared->verdict, &none,
                                                what << 16 | (rank + 1));
    leave(v, first);
}

/* Handles a broken connection to a rank. */
static void is_gone(const rt_watchdog *v, int rank)
{
    const rt_machine *m = v->run->ranks->shared;
    int parted = m->slot[0].parted;
    if (m->ending)
        return;
    let_end(v);
    if (m->verdict)
        leave(v, false);
    if (parted) { /* rank 0 has printed the cause; others may not know it yet */
        pass_on(v, LOST << 16 | 1);
        rt_end_group();
        _exit(parted - 1);
    }
    judge(v, LOST, rank);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Publishes the state of this rank. A device that has been in one collective since the last beat
 * waits for other ranks, whatever its host does. */
static void beat(rt_watchdog *v)
{
    rt_slot *s = slot_of(v, v->run->rank);
    rt_progress device = rt_device_progress(v->run);
    s->action = v->run->action;
    s->begun = v->run->begun + device.passed;
    s->held = device.passed == v->passed ? device.action + 1 : 0;
    v->passed = device.passed;
    s->beats++;
}

static void look_at(rt_watchdog *v, int rank, int64_t elapsed)
{
    const rt_slot *s = slot_of(v, rank);
    sight *seen = &v->seen[rank];
    uint64_t beats = s->beats, past = s->begun + s->met;
    /* Before its first beat, too: it may be stopped while it begins. */
    seen->silent = beats == seen->beats && !s->parted ? seen->silent + elapsed : 0;
    seen->still = past == seen->past ? seen->still + elapsed : 0;
    seen->beats = beats;
    seen->past = past;
}

/* ---- other machines -------------------------------------------------------------------------- */

static void answer(rt_watchdog *v, int rank)
{
    const rt_slot *mine = slot_of(v, v->run->rank);
    rt_word word = {.waits = waits_of(mine),
                    .action = action_of(mine),
                    .still = (int32_t)(v->seen[v->run->rank].still / 1000000)};
    rt_wire_say(v->run->ranks->wire, rank, &word);
}

/* Obeys a word of another machine: a verdict, or that one of its ranks ends. */
static void obey(rt_watchdog *v, int rank, const rt_word *word)
{
    const struct rt_ranks *k = v->run->ranks;
    int verdict = word->verdict ? word->verdict : LOST << 16 | (rank + 1);
    int what = verdict >> 16, whose = (verdict & 0xffff) - 1;
    if (what < LOST || what > KNOT || whose < 0 || whose >= k->n || k->shared->ending)
        return;
    if (!k->is_here[whose]) {
        slot_of(v, whose)->parted = word->parted;
        slot_of(v, whose)->action = word->action;
    }
    if (what == LOST && whose == 0)
        is_gone(v, whose);
    judge(v, what, whose);
}

static void hear_words(rt_watchdog *v, int rank)
{
    rt_word word;
    while (rt_wire_hears(v->run->ranks->wire, rank, &word)) {
        if (word.verdict || word.parted)
            obey(v, rank, &word);
        else if (word.asks)
            answer(v, rank);
        else if (v->asked) {
            v->answered[rank] = true;
            v->answer[rank] = word;
            slot_of(v, rank)->action = word.action;
        }
    }
}

/* Asks the other ranks for their state if this rank waits for too long; answers their questions. */
static void converse(rt_watchdog *v)
{
    const struct rt_ranks *k = v->run->ranks;
    bool asks = v->limit && waits_of(slot_of(v, v->run->rank)) == RT_AWAITS_RANKS &&
                v->seen[v->run->rank].still >= v->limit;
    if (!k->wire || !rt_wire_speaks(k->wire) || k->shared->ending)
        return;
    for (int i = 0; i < k->n; i++) {
        if (k->is_here[i])
            continue;
        hear_words(v, i);
        if (asks && !v->asked)
            rt_wire_say(k->wire, i, &(rt_word){.asks = 1});
        if (!asks)
            v->answered[i] = false;
    }
    v->asked = asks;
}

/* Finds the rank on another machine that all wait for: a rank that does not answer, or that
 * works without progress. */
static void judge_elsewhere(const rt_watchdog *v)
{
    const struct rt_ranks *k = v->run->ranks;
    for (int i = 0; i < k->n && v->asked; i++)
        if (!k->is_here[i] && !v->answered[i])
            judge(v, UNHEARD, i);
    for (int i = 0; i < k->n && v->asked; i++)
        if (!k->is_here[i] && v->answer[i].waits == RT_WORKS) {
            if (v->answer[i].still >= v->limit / 1000000)
                judge(v, STUCK, i);
            return;
        }
    if (!v->asked && slot_of(v, v->run->rank)->peer >= 0)
        judge(v, UNHEARD, slot_of(v, v->run->rank)->peer);
}

/* ---- the verdict ---------------------------------------------------------------------------- */

/* Finds the rank that this rank has waited for too long. */
static void find_culprit(const rt_watchdog *v)
{
    const struct rt_ranks *k = v->run->ranks;
    int64_t waited = v->seen[v->run->rank].still;
    for (int i = 0; i < k->nhere; i++)
        if (waits_of(slot_of(v, k->here[i])) == RT_WORKS) {
            if (v->seen[k->here[i]].still >= v->limit)
                judge(v, STUCK, k->here[i]);
            return;
        }
    /* The machine of a rank judges it first. */
    if (k->wire && waited >= v->limit + v->limit / 4 + ELSEWHERE_NS)
        judge_elsewhere(v);
    for (int i = 0; i < k->nhere; i++) {
        const rt_slot *s = slot_of(v, k->here[i]);
        if (waits_of(s) != RT_AWAITS_RANKS || s->peer >= 0)
            return;
    }
    if (waited >= 2 * v->limit)
        judge(v, KNOT, v->run->rank);
}

static void look(rt_watchdog *v, int64_t elapsed)
{
    const struct rt_ranks *k = v->run->ranks;
    const rt_slot *mine = slot_of(v, v->run->rank);
    if (k->shared->ending)
        return;
    if (k->shared->verdict)
        leave(v, false);
    for (int i = 0; i < k->nhere; i++) {
        look_at(v, k->here[i], elapsed);
        if (v->limit && k->here[i] != v->run->rank && v->seen[k->here[i]].silent >= v->limit)
            judge(v, STOPPED, k->here[i]);
    }
    if (v->limit && waits_of(mine) == RT_AWAITS_RANKS && v->seen[v->run->rank].still >= v->limit)
        find_culprit(v);
    if (v->limit && waits_of(mine) == RT_AWAITS_ORDERS && mine->peer == 0 &&
        v->seen[v->run->rank].still >= BETWEEN * v->limit)
        judge(v, UNHEARD, 0);
}

static void look_for_launcher(rt_watchdog *v)
{
    if (!v->launcher || getppid() == v->launcher)
        return;
    v->launcher = 0;
    rt_complain("the launcher is gone: saving and stopping");
    kill(getpid(), SIGTERM);
}

static void *watch(void *arg)
{
    rt_watchdog *v = arg;
    struct rt_ranks *k = v->run->ranks;
    struct pollfd p[MG_RANKS_MAX + 1] = {{v->wake, POLLIN, 0}};
    int rank[MG_RANKS_MAX + 1], n = 1;
    for (int i = 0; i < k->n; i++) {
        int line = k->is_here[i] ? k->link[i] : k->wire ? rt_wire_line(k->wire, i) : -1;
        if (line < 0)
            continue;
        p[n] = (struct pollfd){line, POLLRDHUP | (k->is_here[i] ? 0 : POLLIN), 0};
        rank[n++] = i;
    }
    int64_t last = rt_now_ns();
    for (beat(v);;) {
        poll(p, (nfds_t)n, (int)(v->tick / 1000000));
        if (p[0].revents)
            return NULL;
        for (int i = 1; i < n; i++) {
            if (p[i].revents && !k->is_here[rank[i]])
                hear_words(v, rank[i]); /* the last word says why the rank ends */
            if (p[i].revents & ~POLLIN) {
                is_gone(v, rank[i]);
                p[i].fd = -1;
            }
        }
        int64_t elapsed = rt_now_ns() - last;
        if (elapsed < v->tick / 2)
            continue;
        last += elapsed;
        beat(v);
        look_for_launcher(v);
        converse(v);
        look(v, elapsed < 2 * v->tick ? elapsed : 2 * v->tick);
    }
}

rt_watchdog *rt_watchdog_new(mg_run *r)
{
    rt_watchdog *v = rt_alloc(1, sizeof *v);
    sigset_t all, before;
    int64_t seconds = r->options->hang_after, ms = seconds * 1000 / TICKS;
    v->run = r;
    v->limit = seconds * 1000000000;
    v->tick = (!seconds || ms > TICK_MS ? TICK_MS
               : ms < TICK_MIN_MS       ? TICK_MIN_MS
                                        : ms) *
              (int64_t)1000000;
    /* mpirun is the parent of its ranks as long as it lives. Under torchrun the parent means
     * nothing: any process can set the variables. */
    bool mpirun = r->world.launcher == RT_OPENMPI || r->world.launcher == RT_HYDRA;
    v->launcher = r->ranks->launched && mpirun && !r->rank ? getppid() : 0;
    v->wake = eventfd(0, EFD_CLOEXEC);
    sigfillset(&all); /* signals are for the other threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = v->wake < 0 ? errno : pthread_create(&v->thread, NULL, watch, v);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e)
        rt_die(RT_FAILED, "the thread that watches the other ranks could not be started: %s",
               strerror(e));
    return v;
}

void rt_watchdog_free(rt_watchdog *v)
{
    if (!v)
        return;
    uint64_t one = 1;
    while (write(v->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(v->thread, NULL);
    if (v->run->ranks->wire)
        rt_wire_silence(v->run->ranks->wire);
    close(v->wake);
    free(v);
}
