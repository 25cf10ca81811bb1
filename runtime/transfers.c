/* transfers.c - the lanes of transfers.h: a thread each, which sleeps while its lane is empty. */
#include "runtime/run.h"
#include "runtime/transfers.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct lane {
    rt_transfers *of;
    int way;
    pthread_t thread;
    rt_blocks *blocks;
    rt_transfer waiting[RT_TRANSFERS]; /* by number */
    uint64_t begun, done;
    rt_lane_time *notes;
    int64_t nnotes, cap;
} lane;

struct rt_transfers {
    pthread_mutex_t lock; /* of all below but the lanes' blocks */
    pthread_cond_t more, less;
    lane lane[RT_WAYS];
    bool quit;
};

static bool may_begin(const lane *l)
{
    const lane *other = &l->of->lane[!l->way];
    return l->done < l->begun && other->done >= l->waiting[(l->done + 1) % RT_TRANSFERS].after;
}

static void note(lane *l, int action, int64_t begin)
{
    if (l->nnotes == l->cap) {
        l->cap = l->cap ? 2 * l->cap : RT_TRANSFERS;
        l->notes = rt_grow(l->notes, (size_t)l->cap, sizeof *l->notes);
    }
    l->notes[l->nnotes++] = (rt_lane_time){begin, rt_now_ns(), action};
}

static void *work(void *ctx)
{
    lane *l = ctx;
    rt_transfers *t = l->of;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (!t->quit && !may_begin(l))
            pthread_cond_wait(&t->more, &t->lock);
        if (t->quit)
            break;
        const rt_transfer next = l->waiting[(l->done + 1) % RT_TRANSFERS];
        pthread_mutex_unlock(&t->lock);
        const int64_t begin = next.noted ? rt_now_ns() : 0;
        rt_blocks_copy(l->blocks, l->way, next.memory, next.at, next.bytes);
        pthread_mutex_lock(&t->lock);
        if (next.noted)
            note(l, next.action, begin);
        l->done++;
        pthread_cond_broadcast(&t->less);
        pthread_cond_broadcast(&t->more); /* the other lane may wait for it */
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

rt_transfers *rt_transfers_open(int file, const char *where)
{
    rt_transfers *t = rt_alloc(1, sizeof *t);
    pthread_condattr_t clock;
    sigset_t all, was;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->more, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&t->less, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &was);
    for (int way = 0; way < RT_WAYS; way++) {
        lane *l = &t->lane[way];
        *l = (lane){.of = t, .way = way, .blocks = rt_blocks_new(file, where)};
        const int wrong = pthread_create(&l->thread, NULL, work, l);
        if (wrong)
            rt_die(RT_FAILED, "no thread can be made: %s", strerror(wrong));
    }
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return t;
}

void rt_transfers_close(rt_transfers *t)
{
    pthread_mutex_lock(&t->lock);
    t->quit = true;
    pthread_cond_broadcast(&t->more);
    pthread_mutex_unlock(&t->lock);
    for (int way = 0; way < RT_WAYS; way++) {
        pthread_join(t->lane[way].thread, NULL);
        rt_blocks_free(t->lane[way].blocks);
        free(t->lane[way].notes);
    }
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->more);
    pthread_cond_destroy(&t->less);
    free(t);
}

uint64_t rt_transfers_begin(rt_transfers *t, int way, const rt_transfer *x)
{
    lane *l = &t->lane[way];
    pthread_mutex_lock(&t->lock);
    while (l->begun - l->done == RT_TRANSFERS)
        pthread_cond_wait(&t->less, &t->lock);
    const uint64_t number = ++l->begun;
    l->waiting[number % RT_TRANSFERS] = *x;
    pthread_cond_broadcast(&t->more);
    pthread_mutex_unlock(&t->lock);
    return number;
}

/* Only the thread that begins transfers asks. */
uint64_t rt_transfers_begun(const rt_transfers *t, int way)
{
    return t->lane[way].begun;
}

bool rt_transfers_done(rt_transfers *t, int way, uint64_t number, int64_t ns)
{
    const int64_t SECOND = 1000000000, until = rt_now_ns() + ns;
    const struct timespec end = {.tv_sec = until / SECOND, .tv_nsec = until % SECOND};
    const lane *l = &t->lane[way];
    int late = 0;
    pthread_mutex_lock(&t->lock);
    while (l->done < number && !late)
        late = ns < 0 ? pthread_cond_wait(&t->less, &t->lock)
                      : pthread_cond_timedwait(&t->less, &t->lock, &end);
    const bool done = l->done >= number;
    pthread_mutex_unlock(&t->lock);
    return done;
}

/* Only the thread that begins transfers asks. */
int rt_transfers_action(const rt_transfers *t, int way, uint64_t number)
{
    return t->lane[way].waiting[number % RT_TRANSFERS].action;
}

int64_t rt_transfers_notes(rt_transfers *t, int way, rt_lane_time **of)
{
    lane *l = &t->lane[way];
    pthread_mutex_lock(&t->lock);
    const int64_t n = l->nnotes;
    *of = l->notes;
    l->notes = NULL;
    l->nnotes = l->cap = 0;
    pthread_mutex_unlock(&t->lock);
    return n;
}

const char *rt_transfers_way(const rt_transfers *t)
{
    return rt_blocks_way(t->lane[RT_IN].blocks);
}
