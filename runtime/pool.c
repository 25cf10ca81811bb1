/* pool.c - one thread pool for everything that runs in parallel.
 *
 * The caller is thread 0. A job is cut into contiguous ranges, one for each thread, so the same job
 * on the same number of threads touches the same memory from the same thread. A range has up to
 * PIECES pieces, each at least a grain. Its thread takes half of what is left of them from the
 * front, again and again; a thread that has done its own takes half of what is left of another's
 * from the end. So a processor that is slower, or that another program uses, delays a job by a
 * piece and not by its part of the difference. Whoever computes a unit, its bits are the same.
 * (Blumofe and Leiserson 1999 show how well stealing balances.)
 *
 * Inside a step, launches come every few microseconds: a thread without work therefore spins for
 * SPIN_NS before it sleeps (but not if threads share a processor). Between runs (data, checkpoints)
 * it sleeps and costs nothing.
 *
 * One 64-bit ticket announces a job: generation << 16 | participants. A worker with a higher number
 * than that never reads the job, so the job can be replaced when its participants are done. A
 * worker is counted as a sleeper before its last look at the ticket, and the ticket is written
 * before the count is read, both sequentially consistent: no wake-up is lost. */
#include "runtime/run.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SPIN_NS = 50000, SPIN_CHECK = 32, HUGE_PAGE = 2 << 20, PIECES = 16 };

/* The pieces of a thread's range that nobody has taken, [first, end): job << 16 | first << 8 | end.
 * A word of an earlier job means that they are all left, so that a job begins without writing to
 * every thread's. */
typedef struct share {
    _Alignas(64) _Atomic uint64_t left;
} share;

typedef struct worker {
    rt_pool *pool;
    pthread_t thread;
    int number; /* from 1 */
    char *scratch;
} worker;

struct rt_pool {
    int threads;
    int64_t spin_ns;
    char *scratch; /* of thread 0 */
    worker *workers;
    share *shares; /* of each thread */
    mg_task *fn;
    void *ctx;
    int64_t units;
    int pieces;              /* of a range */
    bool (*look)(void *ctx); /* NULL: no async communication */
    void *look_at;
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) _Atomic int remaining;
    _Alignas(64) _Atomic int sleepers;
    _Atomic int caller_sleeps;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    bool quit;
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The begin of range `i` of `n` of [0, units). */
static inline int64_t cut(int64_t units, int64_t i, int64_t n)
{
    return (int64_t)((__int128)units * i / n);
}

/* Waits until the ticket differs from `seen`: spins, then sleeps. */
static uint64_t next_ticket(rt_pool *p, uint64_t seen)
{
    uint64_t t;
    int64_t until = 0;
    for (int i = 0;; i++) {
        t = atomic_load_explicit(&p->ticket, memory_order_acquire);
        if (t != seen)
            return t;
        relax();
        if (i % SPIN_CHECK == 0) {
            int64_t now = rt_now_ns();
            if (!until)
                until = now + p->spin_ns;
            else if (now > until)
                break;
        }
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while ((t = atomic_load(&p->ticket)) == seen)
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
    return t;
}

static void finish_part(rt_pool *p)
{
    if (atomic_fetch_sub(&p->remaining, 1) == 1 && atomic_load(&p->caller_sleeps)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->lock);
    }
}

/* Takes pieces [*first, *end) of thread i's range in this job: half of what is left, its own from
 * the front (a single one if `slow`), another's from the end. False: none is left. */
static bool take(rt_pool *p, int i, bool own, bool slow, uint64_t job, int *first, int *end)
{
    _Atomic uint64_t *left = &p->shares[i].left;
    uint64_t was = atomic_load_explicit(left, memory_order_relaxed), to;
    do {
        const bool begun = was >> 16 == job;
        const int f = begun ? (int)(was >> 8 & 0xFF) : 0, e = begun ? (int)(was & 0xFF) : p->pieces;
        const int n = slow ? 1 : (e - f + 1) / 2;
        if (f == e)
            return false;
        *first = own ? f : e - n;
        *end = *first + n;
        to = job << 16 | (uint64_t)(own ? f + n : f) << 8 | (uint64_t)(own ? e : e - n);
    } while (!atomic_compare_exchange_weak(left, &was, to));
    return true;
}

/* Computes its own range of the job of n threads, then what others have left: of those at distances
 * that are powers of two, so that many threads do not all read what all have. */
static void take_part(rt_pool *p, int number, int n, uint64_t job, void *scratch)
{
    const bool looks = number == 0 && p->look && p->look(p->look_at);
    int first, end;
    for (int step = 0; step < n;) {
        const int of = (number + step) % n;
        if (!take(p, of, step == 0, looks, job, &first, &end)) {
            /* A range of one piece is its thread's alone: rt_pool_scratch relies on it. */
            step = p->pieces == 1 ? n : step ? 2 * step : 1;
            continue;
        }
        const int64_t begin = (int64_t)of * p->pieces;
        p->fn(p->ctx, cut(p->units, begin + first, (int64_t)n * p->pieces),
              cut(p->units, begin + end, (int64_t)n * p->pieces), scratch);
        if (looks)
            p->look(p->look_at);
    }
}

static void *work(void *arg)
{
    worker *w = arg;
    rt_pool *p = w->pool;
    uint64_t seen = 0;
    for (;;) {
        seen = next_ticket(p, seen);
        int n = (int)(seen & 0xFFFF);
        if (w->number >= n)
            continue;
        if (p->quit)
            return NULL;
        take_part(p, w->number, n, seen >> 16, w->scratch);
        finish_part(p);
    }
}

/* Returns the number of the job. */
static uint64_t announce(rt_pool *p, int n)
{
    const uint64_t t = atomic_load_explicit(&p->ticket, memory_order_relaxed), job = (t >> 16) + 1;
    atomic_store_explicit(&p->remaining, n - 1, memory_order_relaxed);
    atomic_store(&p->ticket, job << 16 | (uint64_t)n);
    if (atomic_load(&p->sleepers)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
    return job;
}

static void wait_for_all(rt_pool *p)
{
    int64_t until = 0;
    for (int i = 0;; i++) {
        if (atomic_load_explicit(&p->remaining, memory_order_acquire) == 0)
            return;
        relax();
        if (i % SPIN_CHECK == 0) {
            int64_t now = rt_now_ns();
            bool looks = p->look && p->look(p->look_at);
            if (!until || looks)
                until = now + p->spin_ns;
            else if (now > until)
                break;
        }
    }
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_sleeps, 1);
    while (atomic_load(&p->remaining))
        pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->caller_sleeps, 0);
    pthread_mutex_unlock(&p->lock);
}

void rt_pool_beside(rt_pool *p, bool (*look)(void *ctx), void *ctx)
{
    p->look = look;
    p->look_at = ctx;
}

void rt_pool_look(rt_pool *p, const void *scratch)
{
    if (p->look && scratch == p->scratch)
        p->look(p->look_at);
}

/* Runs all units on the caller: in parts, with a look between, if async communication runs. */
static void run_alone(rt_pool *p, int64_t end, int64_t grain, mg_task *fn, void *ctx)
{
    const int64_t step = end / PIECES > grain ? end / PIECES : grain;
    if (!p->look || !p->look(p->look_at)) {
        fn(ctx, 0, end, p->scratch);
        return;
    }
    for (int64_t at = 0; at < end; at += step) {
        fn(ctx, at, at + step < end ? at + step : end, p->scratch);
        p->look(p->look_at);
    }
}

void rt_pool_run(rt_pool *p, int64_t units, int64_t grain, mg_task *fn, void *ctx)
{
    if (units <= 0)
        return;
    grain = grain > 1 ? grain : 1;
    int64_t parts = units / grain;
    int n = parts < 1 ? 1 : parts < p->threads ? (int)parts : p->threads;
    if (n == 1) {
        run_alone(p, units, grain, fn, ctx);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    p->units = units;
    p->pieces = parts / n < PIECES ? (int)(parts / n) : PIECES;
    take_part(p, 0, n, announce(p, n), p->scratch);
    wait_for_all(p);
}

static void touch_scratch(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)begin, (void)end;
    memset(scratch, 0, (size_t)*(int64_t *)ctx);
}

void rt_pool_scratch(rt_pool *p, int64_t bytes)
{
    const size_t page = (size_t)rt_page(), size = bytes ? (size_t)rt_whole_pages(bytes) : page;
    for (int i = 0; i < p->threads; i++) {
        char **place = i ? &p->workers[i - 1].scratch : &p->scratch;
        free(*place);
        *place = aligned_alloc(size < HUGE_PAGE ? page : HUGE_PAGE, size);
        if (!*place)
            rt_die(RT_FAILED, "no memory for %zu bytes of scratch for thread %d", size, i);
        /* Packed blocks fill most of a cache: with small pages, some of them would share cache
         * sets. */
        madvise(*place, size, MADV_HUGEPAGE);
    }
    int64_t n = (int64_t)size;
    rt_pool_run(p, p->threads, 1, touch_scratch, &n);
}

static bool allowed(cpu_set_t *set)
{
    CPU_ZERO(set);
    return sched_getaffinity(0, sizeof *set, set) == 0;
}

/* The CPU quota of the container, in whole processors (cgroup v2, then v1), or 0. */
static int cpu_quota(void)
{
    double quota = 0, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (f) {
        if (fscanf(f, "%lf %lf", &quota, &period) != 2)
            quota = 0;
        fclose(f);
    } else if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r"))) {
        if (fscanf(f, "%lf", &quota) != 1)
            quota = 0;
        fclose(f);
        period = 100000;
    }
    return quota > 0 && period > 0 ? (int)(quota / period + 0.5) : 0;
}

static int within_quota(int n)
{
    int quota = cpu_quota();
    if (quota && quota < n)
        n = quota;
    return n < 1 ? 1 : n > 1024 ? 1024 : n;
}

int rt_cores_of(const cpu_set_t *set)
{
    return within_quota(CPU_COUNT(set));
}

int rt_default_threads(void)
{
    cpu_set_t set;
    return within_quota(allowed(&set) ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN));
}

/* Pins thread i to the i-th processor that this process may use. */
static void pin_threads(rt_pool *p)
{
    cpu_set_t set, one;
    if (!allowed(&set))
        rt_die(RT_FAILED, "--pin: the processors of this process cannot be listed");
    if (CPU_COUNT(&set) < p->threads)
        rt_die(RT_USAGE, "--pin: %d threads, but %d processors", p->threads, CPU_COUNT(&set));
    int cpu = -1;
    for (int i = 0; i < p->threads; i++) {
        do
            cpu++;
        while (!CPU_ISSET(cpu, &set));
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_t t = i ? p->workers[i - 1].thread : pthread_self();
        if (pthread_setaffinity_np(t, sizeof one, &one))
            rt_warn("--pin: thread %d could not be kept on processor %d", i, cpu);
    }
}

rt_pool *rt_pool_new(int threads, bool pin)
{
    rt_pool *p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64);
    if (!p)
        rt_die(RT_FAILED, "no memory for the thread pool");
    memset(p, 0, sizeof *p);
    p->threads = threads;
    p->spin_ns = threads <= rt_default_threads() ? SPIN_NS : 0;
    p->workers = rt_alloc((size_t)threads, sizeof *p->workers);
    p->shares = aligned_alloc(_Alignof(share), (size_t)threads * sizeof *p->shares);
    if (!p->shares)
        rt_die(RT_FAILED, "no memory for the thread pool");
    for (int i = 0; i < threads; i++)
        atomic_init(&p->shares[i].left, 0);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    for (int i = 1; i < threads; i++) {
        worker *w = &p->workers[i - 1];
        *w = (worker){.pool = p, .number = i};
        int e = pthread_create(&w->thread, NULL, work, w);
        if (e)
            rt_die(RT_FAILED, "thread %d of %d could not be started: %s", i, threads, strerror(e));
    }
    if (pin)
        pin_threads(p);
    return p;
}

void rt_pool_free(rt_pool *p)
{
    if (!p)
        return;
    p->quit = true;
    announce(p, p->threads);
    for (int i = 1; i < p->threads; i++) {
        pthread_join(p->workers[i - 1].thread, NULL);
        free(p->workers[i - 1].scratch);
    }
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->done);
    free(p->scratch);
    free(p->workers);
    free(p->shares);
    free(p);
}
