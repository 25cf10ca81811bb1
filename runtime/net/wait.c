/* wait.c - how a rank waits for other ranks: at a barrier of its machine, for a word of shared
 * memory, for messages on the wire.
 *
 * During each wait all messages on the wire make progress: a message between the stages of a
 * pipeline does not stop because its rank is in a collective. A rank with nothing on the wire
 * sleeps in the kernel. */
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/machine.h"
#include "runtime/health/health.h"

void rt_wait_begins(mg_run *r, int kind)
{
    rt_slot *s = &r->ranks->shared->slot[r->rank];
    s->action = r->action;
    r->ranks->wait_began = rt_now_ns();
    s->waits = kind;
    if (r->health && kind == RT_AWAITS_RANKS)
        rt_health_waits(r, true);
}

void rt_wait_ends(mg_run *r)
{
    rt_slot *s = &r->ranks->shared->slot[r->rank];
    if (s->waits == RT_AWAITS_RANKS)
        s->waited += rt_now_ns() - r->ranks->wait_began;
    s->waits = RT_WORKS;
    s->peer = -1;
    s->met++;
    if (r->health)
        rt_health_waits(r, false);
}

int64_t rt_waited(const mg_run *r, int rank)
{
    return r->ranks->shared->slot[rank].waited;
}

void rt_nap(int i)
{
    enum { SPINS = 500, NAP_US = 50 };
    if (i < SPINS)
        sched_yield();
    else
        usleep(NAP_US);
}

/* ---- words of shared memory ------------------------------------------------------------------ */

void rt_word_await(mg_run *r, _Atomic uint32_t *word, uint32_t old)
{
    rt_wire *wire = r->ranks->wire;
    for (int i = 0; *word == old; i++)
        if (wire && rt_wire_go_on(wire))
            rt_nap(i);
        else
            syscall(SYS_futex, word, FUTEX_WAIT, old, NULL, NULL, 0);
}

void rt_word_next(_Atomic uint32_t *word)
{
    ++*word;
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The last rank releases all others. A fast rank that comes back cannot confuse a slow one,
 * because each waits for its own value of `turn` to change. */
static void pass_barrier(mg_run *r, rt_barrier *b)
{
    uint32_t turn = b->turn;
    if (atomic_fetch_add(&b->came, 1) + 1 < b->members) {
        rt_word_await(r, &b->turn, turn);
        return;
    }
    b->came = 0;
    rt_word_next(&b->turn);
}

void rt_meet(mg_run *r, uint32_t axes)
{
    const mg_program *p = r->program;
    const struct rt_ranks *k = r->ranks;
    const uint32_t all = ((uint32_t)1 << p->naxes) - 1;
    axes &= all;
    int group = rt_place_of(p, r->rank, all & ~axes);
    rt_wait_begins(r, r->action < 0 ? RT_AWAITS_ORDERS : RT_AWAITS_RANKS);
    pass_barrier(r, &k->shared->barrier[k->first[axes] + group]);
    rt_wait_ends(r);
}

/* ---- the wire -------------------------------------------------------------------------------- */

void rt_wire_wait(mg_run *r, const rt_ticket *t)
{
    struct rt_ranks *k = r->ranks;
    rt_slot *s = &k->shared->slot[r->rank];
    int peer;
    if (rt_wire_done(k->wire, t, &peer))
        return;
    bool waits = s->waits != RT_WORKS; /* for orders */
    if (!waits)
        rt_wait_begins(r, RT_AWAITS_RANKS);
    for (int i = 0; !rt_wire_done(k->wire, t, &peer); i++) {
        s->peer = peer;
        rt_nap(i);
    }
    if (!waits)
        rt_wait_ends(r);
}
