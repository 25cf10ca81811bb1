/* commands.c - the orders of rank 0 to the other ranks: rank 0 writes an order, and a rank that
 * waits for the next order carries it out. On one machine an order goes over the connection of
 * rendezvous.c (or of a bare start), to another machine over the wire. Bytes of an arena that
 * rank 0 can reach need no order: rank 0 writes them in place, between programs. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/checkpoint/saving.h"
#include "runtime/elastic/pulse.h"
#include "runtime/machine.h"
#include "runtime/net/pipe.h"
#include "runtime/levels.h"
#include "runtime/health/health.h"
#include "runtime/log/trace.h"

enum { PATIENCE = 10 }; /* seconds of patience with a process that ends by itself */

typedef enum order_kind { RUN = 1, PUT, ZERO, GET, CLOCK, RECORD, ASK, SAVE, END } order_kind;
typedef struct order {
    int32_t kind;
    int32_t which;         /* program, or question; SAVE: rt_save_order */
    int64_t offset, bytes; /* SAVE: `offset` is the order's number */
    int64_t mode;          /* RUN: how --health wants a step to run */
    int64_t traced;        /* RUN: the step, if it is traced, else 0 */
} order;

/* Ends the process after a broken connection. The watchdog knows the cause and ends this process
 * first, unless the whole run ends anyway. */
static _Noreturn void await_the_end(int rank)
{
    sleep(PATIENCE);
    rt_die(RT_LOST, "the connection to rank %d is broken", rank);
}

static void tell(mg_run *r, int rank, const void *what, int64_t bytes)
{
    const struct rt_ranks *k = r->ranks;
    const char *from = what;
    if (!k->is_here[rank]) {
        for (int64_t n; bytes; from += n, bytes -= n) {
            n = bytes < RT_WIRE_MAX ? bytes : RT_WIRE_MAX;
            rt_ticket t = {0};
            rt_wire_send(k->wire, rank, from, n, &t);
            rt_wire_wait(r, &t);
        }
        return;
    }
    while (bytes) {
        ssize_t n = send(k->link[rank], from, (size_t)bytes, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            await_the_end(rank);
        from += n > 0 ? n : 0;
        bytes -= n > 0 ? n : 0;
    }
}

static void hear(mg_run *r, int rank, void *what, int64_t bytes)
{
    const struct rt_ranks *k = r->ranks;
    char *to = what;
    if (!k->is_here[rank]) {
        for (int64_t n; bytes; to += n, bytes -= n) {
            n = bytes < RT_WIRE_MAX ? bytes : RT_WIRE_MAX;
            rt_ticket t = {0};
            rt_wire_take(k->wire, rank, to, n, &t);
            rt_wire_wait(r, &t);
        }
        return;
    }
    while (bytes) {
        ssize_t n = recv(k->link[rank], to, (size_t)bytes, MSG_WAITALL);
        if (n == 0 || (n < 0 && errno != EINTR))
            await_the_end(rank);
        to += n > 0 ? n : 0;
        bytes -= n > 0 ? n : 0;
    }
}

void rt_ranks_tell(mg_run *r, int rank, const void *what, int64_t bytes)
{
    tell(r, rank, what, bytes);
}

void rt_ranks_hear(mg_run *r, int rank, void *what, int64_t bytes)
{
    hear(r, rank, what, bytes);
}

static void tell_all(mg_run *r, const void *what, int64_t bytes)
{
    for (int i = 1; i < r->ranks->n; i++)
        tell(r, i, what, bytes);
}

void rt_ranks_share(mg_run *r, void *what, int64_t bytes)
{
    if (!r->rank) {
        tell_all(r, what, bytes);
        return;
    }
    rt_wait_begins(r, RT_AWAITS_RANKS);
    hear(r, 0, what, bytes);
    rt_wait_ends(r);
}

void rt_places_tell(mg_run *r, int rank)
{
    const mg_program *p = r->program;
    const mg_entry *all[] = {&p->step,    &p->eval,   &p->sample, &p->round,
                             &p->prefill, &p->decode, &p->spread};
    for (int i = 0; i < RT_PROGRAMS; i++)
        for (int k = 0; k < all[i]->nplaces; k++) {
            int32_t place = rt_place_of(r->program, rank, all[i]->place[k].axes);
            rt_put_own(r, all[i]->place[k].offset, &place, sizeof place);
        }
}

/* ---- a follower ------------------------------------------------------------------------------ */

enum { PIECE = 4 << 20 };

static void obey_put(mg_run *r, const order *o, char *piece)
{
    for (int64_t at = 0, n; at < o->bytes; at += n) {
        n = o->bytes - at < PIECE ? o->bytes - at : PIECE;
        hear(r, 0, piece, n);
        rt_put_own(r, o->offset + at, piece, n);
    }
}

static void obey_get(mg_run *r, const order *o, char *piece)
{
    for (int64_t at = 0, n; at < o->bytes; at += n) {
        n = o->bytes - at < PIECE ? o->bytes - at : PIECE;
        rt_get(r, o->offset + at, piece, n);
        tell(r, 0, piece, n);
    }
}

static void run_own(mg_run *r, rt_program which, unsigned mode)
{
    bool dumps = which == RT_STEP && r->options->dump.n && !r->dumped && !(mode & RT_DRY);
    bool traced = which == RT_STEP && r->traced;
    bool costed = which == RT_STEP && r->costs && !dumps && !traced && !mode &&
                  rt_costs_step(r->costs, rt_now_ns());
    int64_t began = traced ? rt_trace_now(r->trace) : 0;
    r->watch |=
        (dumps ? RT_WATCH_DUMP : 0) | (traced ? RT_WATCH_TIME : 0) | (costed ? RT_WATCH_COST : 0);
    rt_health_begins(r, which, mode);
    rt_device_run(r, which);
    rt_health_ends(r, which);
    r->watch &= ~(unsigned)(RT_WATCH_DUMP | RT_WATCH_TIME | RT_WATCH_COST);
    if (costed)
        rt_costs_stepped(r->costs, rt_now_ns());
    if (traced) {
        rt_levels_trace(r);
        rt_trace_step(r->trace, r->traced, began);
    }
    r->dumped |= dumps;
    r->action = -1;
}

/* A follower waits for its device before it hears the next order: the device may still be
 * running the program. */
static void obey_run(mg_run *r, const order *o)
{
    r->traced = o->traced;
    if (r->traced && !r->trace)
        r->trace = rt_trace_new(r->program);
    if (o->which == RT_STEP)
        rt_pulse_follow(r);
    run_own(r, (rt_program)o->which, (unsigned)o->mode);
    rt_device_wait(r);
}

/* ---- --trace --------------------------------------------------------------------------------- */

enum { ASKED = 32 }; /* round trips to a clock: the shortest one is the most exact */

static void obey_clock(mg_run *r)
{
    if (!r->trace)
        r->trace = rt_trace_new(r->program);
    for (int i = 0; i < ASKED; i++) {
        int64_t now;
        hear(r, 0, &now, sizeof now);
        now = rt_trace_now(r->trace);
        tell(r, 0, &now, sizeof now);
    }
}

rt_clock rt_ranks_clock(mg_run *r, int rank)
{
    rt_clock best = {.error = INT64_MAX};
    tell(r, rank, &(order){.kind = CLOCK}, sizeof(order));
    for (int i = 0; i < ASKED; i++) {
        const int64_t asked = rt_trace_now(r->trace);
        int64_t theirs = asked;
        tell(r, rank, &theirs, sizeof theirs);
        hear(r, rank, &theirs, sizeof theirs);
        const int64_t took = rt_trace_now(r->trace) - asked, middle = asked + took / 2;
        if (took / 2 + 1 < best.error)
            best = (rt_clock){.at = middle, .ahead = theirs - middle, .error = took / 2 + 1};
    }
    return best;
}

static void obey_record(mg_run *r)
{
    rt_record none = {0}, *of = r->trace ? rt_trace_record(r->trace) : &none;
    tell(r, 0, of, sizeof *of);
    tell(r, 0, of->event, of->n * (int64_t)sizeof *of->event);
    rt_trace_free(r->trace);
    r->trace = NULL;
}

rt_record rt_ranks_record(mg_run *r, int rank)
{
    rt_record of;
    tell(r, rank, &(order){.kind = RECORD}, sizeof(order));
    hear(r, rank, &of, sizeof of);
    of.event = rt_alloc((size_t)of.n + 1, sizeof *of.event);
    hear(r, rank, of.event, of.n * (int64_t)sizeof *of.event);
    return of;
}

/* ---- --health ---------------------------------------------------------------------------------
 */

static void obey_ask(mg_run *r, const order *o)
{
    if (!r->health)
        rt_die(RT_USAGE,
               "rank 0 was started with --health, and this rank without: give all ranks the "
               "same options");
    char *answer = rt_alloc((size_t)o->bytes, 1);
    rt_health_answer(r, (rt_question)o->which, answer, o->bytes);
    tell(r, 0, answer, o->bytes);
    free(answer);
}

void rt_ranks_ask(mg_run *r, rt_question q, void *answers, int64_t bytes)
{
    if (r->ranks)
        tell_all(r, &(order){.kind = ASK, .which = (int32_t)q, .bytes = bytes}, sizeof(order));
    rt_health_answer(r, q, answers, bytes);
    for (int i = 1; r->ranks && i < r->ranks->n; i++)
        hear(r, i, (char *)answers + i * bytes, bytes);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void obey_save(mg_run *r, const order *o)
{
    rt_save_answer answer;
    rt_saving_obey(r, (rt_save_order)o->which, o->offset, &answer);
    tell(r, 0, &answer, sizeof answer);
}

void rt_ranks_save(mg_run *r, rt_save_order which, int64_t number)
{
    if (r->ranks)
        tell_all(r, &(order){.kind = SAVE, .which = (int32_t)which, .offset = number},
                 sizeof(order));
}

void rt_ranks_saved(mg_run *r, rt_save_answer *answer)
{
    for (int i = 1; r->ranks && i < r->ranks->n; i++)
        hear(r, i, &answer[i], sizeof *answer);
}

/* ---- the loop over orders -------------------------------------------------------------------- */

static void take_place(mg_run *r)
{
    rt_device_open(r); /* in a bare start on a processor this only repeats the check */
    r->pool = rt_pool_new(r->threads, false); /* --pin is for the leader's processors only */
    rt_arena_map(r);
    if (r->options->poison && !rt_arenas_are_shared)
        rt_poison(r);
    rt_health_open(r);
}

void rt_ranks_follow(mg_run *r)
{
    char *piece = rt_alloc(PIECE, 1);
    rt_signals_follow(r);
    if (r->options->preflight)
        r->preflight(r);
    else
        take_place(r);
    for (;;) {
        order o;
        rt_wait_begins(r, RT_AWAITS_ORDERS);
        hear(r, 0, &o, sizeof o);
        rt_wait_ends(r);
        if (o.kind == END)
            break;
        if (o.kind == RUN)
            obey_run(r, &o);
        else if (o.kind == PUT)
            obey_put(r, &o, piece);
        else if (o.kind == ZERO)
            rt_device_fill(r, o.offset, 0, o.bytes);
        else if (o.kind == CLOCK)
            obey_clock(r);
        else if (o.kind == RECORD)
            obey_record(r);
        else if (o.kind == ASK)
            obey_ask(r, &o);
        else if (o.kind == SAVE)
            obey_save(r, &o);
        else
            obey_get(r, &o, piece);
    }
    r->ranks->shared->ending = true;
    rt_watchdog_free(r->ranks->watchdog);
    rt_saving_close(r);
    rt_device_close(r);
    if (r->ranks->wire)
        rt_wire_close(r->ranks->wire, RT_DONE);
    _exit(RT_DONE);
}

/* ---- the leader ------------------------------------------------------------------------------ */

void rt_run(mg_run *r, rt_program which)
{
    const unsigned mode = which == RT_STEP && r->health ? r->health->order : 0;
    if (r->ranks)
        tell_all(r,
                 &(order){.kind = RUN, .which = (int32_t)which, .traced = r->traced, .mode = mode},
                 sizeof(order));
    if (mode)
        r->health->order = 0;
    run_own(r, which, mode);
}

bool rt_ranks_agree(mg_run *r, bool mine)
{
    rt_ranks_share(r, &mine, sizeof mine);
    return mine;
}

void rt_ranks_put(mg_run *r, int rank, int64_t offset, const void *from, int64_t bytes)
{
    if (rank == r->rank) {
        rt_put_own(r, offset, from, bytes);
        return;
    }
    tell(r, rank, &(order){.kind = PUT, .offset = offset, .bytes = bytes}, sizeof(order));
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < PIECE ? bytes - at : PIECE;
        tell(r, rank, (const char *)from + at, n);
    }
}

void rt_ranks_get(mg_run *r, int rank, int64_t offset, void *to, int64_t bytes)
{
    if (rank == r->rank) {
        rt_get(r, offset, to, bytes);
        return;
    }
    tell(r, rank, &(order){.kind = GET, .offset = offset, .bytes = bytes}, sizeof(order));
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < PIECE ? bytes - at : PIECE;
        hear(r, rank, (char *)to + at, n);
    }
}

static void put_into(mg_run *r, int rank, int64_t offset, const void *from, int64_t bytes)
{
    if (rank != r->rank && rt_is_in_reach(r, rank))
        memcpy(rt_of_rank(r, r->arena + offset, rank), from, (size_t)bytes);
    else
        rt_ranks_put(r, rank, offset, from, bytes);
}

void rt_zero(mg_run *r, int rank, int64_t offset, int64_t bytes)
{
    if (rank == r->rank)
        rt_device_fill(r, offset, 0, bytes);
    else if (rt_is_in_reach(r, rank))
        memset(rt_of_rank(r, r->arena + offset, rank), 0, (size_t)bytes);
    else
        tell(r, rank, &(order){.kind = ZERO, .offset = offset, .bytes = bytes}, sizeof(order));
}

void rt_put(mg_run *r, int64_t offset, const void *from, int64_t bytes)
{
    const int ranks = r->ranks ? r->ranks->n : 1;
    for (int k = 0; k < ranks; k++)
        put_into(r, k, offset, from, bytes);
}

void rt_put_rows(mg_run *r, const mg_entry *e, int64_t offset, const void *rows, int64_t bytes)
{
    const int64_t piece = e->rows * bytes; /* a rank's part of a microbatch */
    const int64_t parts = r->ranks ? rt_ranks_of(r->program, e->batch_axes) : 1;
    const int64_t microbatches = r->ranks ? e->batch / (e->rows * parts) : 1;
    if (!r->ranks) {
        rt_put(r, offset, rows, e->batch * bytes);
        return;
    }
    const int same = rt_health_place(r);
    char *own = rt_alloc((size_t)microbatches, (size_t)piece);
    for (int k = 0; k < r->ranks->n; k++) {
        const int64_t place = same < 0 ? rt_place_of_rows(r->program, k, e) : same;
        for (int64_t m = 0; m < microbatches; m++)
            memcpy(own + m * piece, (const char *)rows + (m * parts + place) * piece,
                   (size_t)piece);
        put_into(r, k, offset, own, microbatches * piece);
    }
    free(own);
}

/* A follower ends at once, unless its process was stopped. */
static void wait_for(pid_t child)
{
    enum { NAP_US = 1000 };
    for (int64_t began = rt_now_ns(); !waitpid(child, NULL, WNOHANG); usleep(NAP_US))
        if (rt_now_ns() - began > PATIENCE * (int64_t)1000000000)
            kill(child, SIGKILL);
}

void rt_ranks_end(mg_run *r)
{
    struct rt_ranks *k = r->ranks;
    if (!k || r->rank)
        return;
    k->shared->ending = true;
    tell_all(r, &(order){.kind = END}, sizeof(order));
    rt_at_parting(NULL);
    for (int i = 1; i < k->n; i++)
        if (k->child[i])
            wait_for(k->child[i]);
    rt_watchdog_free(k->watchdog);
    if (k->wire)
        rt_wire_close(k->wire, (int)r->code);
    for (int i = 1; i < k->n; i++)
        if (k->link[i] >= 0)
            close(k->link[i]);
    rt_pipe_free(k->pipe);
    if (r->pool) /* a preflight may end before there is one */
        rt_pool_beside(r->pool, NULL, NULL);
    free(k->async_comm);
    close(k->memory);
    free(k->far);
    free(k->first);
    free(k);
    r->ranks = NULL;
}
