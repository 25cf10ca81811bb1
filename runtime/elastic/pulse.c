/* pulse.c - the memory that a program shares with its supervisor; see pulse.h. */
#include "runtime/elastic/pulse.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/net/ranks.h"

static const char magic[8] = "mgcpuls";

rt_pulse *rt_pulse_new(int *fd)
{
    *fd = memfd_create("mgc pulse", 0);
    if (*fd < 0 || ftruncate(*fd, sizeof(rt_pulse)))
        rt_die(RT_FAILED, "no memory to share with the program: %s", strerror(errno));
    rt_pulse *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (p == MAP_FAILED)
        rt_die(RT_FAILED, "no memory to share with the program: %s", strerror(errno));
    memcpy(p->magic, magic, sizeof magic);
    p->step = p->died = p->clean = RT_STEP_UNKNOWN;
    p->until = INT64_MAX;
    p->accused = -1;
    return p;
}

void rt_pulse_free(rt_pulse *p, int fd)
{
    munmap(p, sizeof *p);
    close(fd);
}

/* The heartbeat, from the start on: a process that does not run has none. */
static void *beat(void *arg)
{
    for (rt_pulse *p = arg; p; sleep(1))
        p->beats++;
    return NULL;
}

static void begin_beats(rt_pulse *p)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); /* signals are for the other threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int e = pthread_create(&thread, NULL, beat, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e)
        rt_die(RT_FAILED, "the thread of the heartbeat could not be started: %s", strerror(e));
    pthread_detach(thread); /* it ends with the process */
}

rt_pulse *rt_pulse_find(void)
{
    const char *text = getenv("MGC_SUPERVISOR");
    struct stat s;
    char *end;
    if (!text)
        return NULL;
    const long fd = strtol(text, &end, 10);
    rt_pulse *p = MAP_FAILED;
    if (*text && !*end && fd > STDERR_FILENO && fd < 1 << 20 && fstat((int)fd, &s) == 0 &&
        s.st_size == sizeof *p)
        p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    if (p == MAP_FAILED || memcmp(p->magic, magic, sizeof magic))
        rt_die(RT_MISFIT,
               "the variable MGC_SUPERVISOR is set, and this program was not started by a "
               "supervisor: unset it");
    close((int)fd);
    unsetenv("MGC_SUPERVISOR"); /* commands that the program starts have none */
    rt_errors_to(p->cause, sizeof p->cause, &p->writing);
    begin_beats(p);
    return p;
}

void rt_pulse_begin(const mg_run *r)
{
    if (!r->pulse)
        return;
    r->pulse->step = r->state.step;
    r->pulse->began = true;
}

void rt_pulse_follow(const mg_run *r)
{
    if (r->pulse)
        r->pulse->began = true;
}

void rt_pulse_step(const mg_run *r)
{
    if (r->pulse)
        r->pulse->step = r->state.step;
}

void rt_pulse_clean(const mg_run *r)
{
    if (r->pulse)
        r->pulse->clean = r->state.step;
}

void rt_pulse_accuse(const mg_run *r, int rank)
{
    if (r->pulse)
        r->pulse->accused = rank;
}

bool rt_pulse_grows(const mg_run *r)
{
    if (!r->pulse || !r->pulse->grows)
        return false;
    r->pulse->ends = true;
    return true;
}

/* "dp=2, tp=2"; the caller frees it. */
static char *mesh_text(const mg_program *p)
{
    char *text = rt_printf("%s", "");
    for (int i = 0; i < p->naxes; i++) {
        char *before = text;
        text = rt_printf("%s%s%s=%" PRId64, before, *before ? ", " : "", p->axes[i].name,
                         p->axes[i].size);
        free(before);
    }
    return text;
}

void rt_pulse_log(const mg_run *r)
{
    const rt_pulse *p = r->pulse;
    if (!p || !p->restarts)
        return;
    const int ranks = rt_ranks_of(r->program, RT_ALL_AXES);
    const int64_t lost = p->died > r->state.step ? p->died - r->state.step : 0;
    char *mesh = mesh_text(r->program), *why = rt_json_escape(p->why);
    char *steps = p->died == RT_STEP_UNKNOWN
                      ? rt_printf("steps lost: unknown")
                      : rt_printf("%" PRId64 " step%s lost", lost, lost == 1 ? "" : "s");
    char *count = p->died == RT_STEP_UNKNOWN ? rt_printf("null") : rt_printf("%" PRId64, lost);
    rt_log_line(r->log, "restart %d of %d: %s; on %d rank%s%s%s%s: %s", p->restarts,
                p->restarts_max, steps, ranks, ranks == 1 ? "" : "s", *mesh ? " (" : "", mesh,
                *mesh ? ")" : "", p->why);
    rt_log_event(r->log, "restart",
                 "\"restart\":%d,\"lost_steps\":%s,\"ranks\":%d,\"mesh\":\"%s\",\"cause\":\"%s\"",
                 p->restarts, count, ranks, mesh, why);
    free(mesh);
    free(why);
    free(steps);
    free(count);
}
