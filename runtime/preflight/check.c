/* check.c - rank 0 compares what the ranks told of their hosts. */
#include <inttypes.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/preflight/flight.h"

#define FAR_AHEAD 0.5 /* seconds by which clocks may differ */

static const rt_about *of_host(const rt_flight *f, int host)
{
    return &f->about[f->first[host]];
}

const char *rt_host_name(const rt_flight *f, int host)
{
    return of_host(f, host)->host;
}

char *rt_on_host(const rt_flight *f, int host, const char *command)
{
    return f->nhosts == 1 ? rt_printf("%s", command)
                          : rt_printf("ssh %s '%s'", rt_host_name(f, host), command);
}

/* A finding about one host, with a command there that shows it. */
__attribute__((format(printf, 7, 8))) static void found_at(rt_flight *f, int host, rt_mark mark,
                                                           rt_exit code, const char *check,
                                                           const char *command, const char *fmt,
                                                           ...)
{
    va_list ap;
    char *text, *again = rt_on_host(f, host, command);
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    va_end(ap);
    rt_found(f, mark, code, check, again, "host %s %s", rt_host_name(f, host), text);
    free(text);
    free(again);
}

/* ---- what has to be the same ----------------------------------------------------------------- */

/* The host whose text most hosts have; of as many the first. */
static int usual(const rt_flight *f, size_t text)
{
    int best = 0, most = 0;
    for (int h = 0; h < f->nhosts; h++) {
        int n = 0;
        for (int k = 0; k < f->nhosts; k++)
            n += !strcmp((const char *)of_host(f, h) + text, (const char *)of_host(f, k) + text);
        if (n > most)
            best = h, most = n;
    }
    return best;
}

static void compare(rt_flight *f, size_t text, const char *check, rt_mark mark, const char *command)
{
    const int norm = usual(f, text);
    const char *theirs = (const char *)of_host(f, norm) + text;
    int others = 0;
    for (int h = 0; h < f->nhosts; h++) {
        const char *mine = (const char *)of_host(f, h) + text;
        if (!strcmp(mine, theirs))
            continue;
        others++;
        found_at(f, h, mark, RT_MISFIT, check, command, "has %s, and host %s %s",
                 *mine ? mine : "none", rt_host_name(f, norm), *theirs ? theirs : "none");
    }
    if (!others && *theirs)
        rt_found(f, RT_GOOD, RT_DONE, check, NULL, "%s%s", theirs,
                 f->nhosts > 1 ? ", on all hosts" : "");
}

/* The program whose key most ranks have. */
static void check_program(rt_flight *f)
{
    char *command = rt_printf("sha256sum %s", program_invocation_name);
    int norm = 0, most = 0, others = 0;
    for (int i = 0; i < f->n; i++) {
        int n = 0;
        for (int k = 0; k < f->n; k++)
            n += f->about[k].program == f->about[i].program;
        if (n > most)
            norm = i, most = n;
    }
    const rt_about *usual_one = &f->about[norm];
    for (int h = 0; h < f->nhosts; h++) {
        const rt_about *a = of_host(f, h);
        const bool same = a->program == usual_one->program;
        if (same && !strcmp(a->file, usual_one->file))
            continue;
        others++;
        found_at(f, h, same ? RT_DOUBT : RT_FAULT, RT_MISFIT, "program", command,
                 "has another program than host %s: made by %s, SHA-256 %.16s, and there by %s, "
                 "%.16s%s: copy it from there",
                 usual_one->host, a->compiler, a->file, usual_one->compiler, usual_one->file,
                 same ? " (of the same model and layout)" : "");
    }
    if (!others)
        rt_found(f, RT_GOOD, RT_DONE, "program", NULL, "%s, made by %s, SHA-256 %.16s%s",
                 f->run->program->name, usual_one->compiler, usual_one->file,
                 f->nhosts > 1 ? ", on all hosts" : "");
    free(command);
}

static void check_versions(rt_flight *f)
{
    compare(f, offsetof(rt_about, gpu), "GPU", RT_DOUBT, "nvidia-smi");
    compare(f, offsetof(rt_about, versions), "collectives", RT_FAULT,
            "find / -name \"libnccl.so*\" 2>/dev/null");
    compare(f, offsetof(rt_about, products), "products", RT_DOUBT, "lscpu");
    compare(f, offsetof(rt_about, system), "system", RT_DOUBT, "uname -srm");
    compare(f, offsetof(rt_about, libc), "libc", RT_DOUBT, "ldd --version");
    compare(f, offsetof(rt_about, processor), "processor", RT_DOUBT, "lscpu");
    compare(f, offsetof(rt_about, settings), "variables", RT_DOUBT,
            "env | grep -E \"NCCL|OMPI|UCX|FI_\"");
}

/* ---- what each host has ---------------------------------------------------------------------- */

static void check_devices(rt_flight *f)
{
    int bad = 0;
    for (int i = 0; i < f->n; i++) {
        const rt_about *a = &f->about[i];
        if (a->lacks[0] && f->first[f->host[i]] == i)
            bad++, found_at(f, f->host[i], RT_FAULT, RT_MISFIT, "processor", "lscpu",
                            "has a processor that lacks %s, which the kernels need", a->lacks);
        if (a->gpu[0] && !a->gpu_there)
            bad++, found_at(f, f->host[i], RT_FAULT, RT_NO_DEVICE, "GPU", "nvidia-smi",
                            "(rank %d) has no GPU for it: %s", i, a->gpu);
    }
    if (!bad)
        rt_found(f, RT_GOOD, RT_DONE, "devices", NULL, "all have what the kernels need");
}

/* Ranks of a host have the same cores, unless their launcher gives each its own. */
static void check_cores(rt_flight *f)
{
    int bad = 0;
    double *each = rt_alloc((size_t)f->nhosts, sizeof *each);
    for (int h = 0; h < f->nhosts; h++)
        each[h] = of_host(f, h)->cores;
    const double norm = rt_median(each, f->nhosts);
    const rt_mark mark = f->about[0].by_cores ? RT_FAULT : RT_DOUBT;
    for (int h = 0; h < f->nhosts; h++)
        if (each[h] < norm || (f->nhosts == 2 && each[h] < each[!h]))
            bad++, found_at(f, h, mark, RT_MISFIT, "cores", "nproc",
                            "gives a rank %d core%s, and other hosts %g: all wait for the slowest "
                            "(taskset, a quota of the container, or --cpus-per-task)",
                            (int)each[h], each[h] > 1 ? "s" : "", f->nhosts == 2 ? each[!h] : norm);
    for (int i = 0; i < f->n; i++)
        if (f->about[i].threads > f->about[i].cores)
            bad++, found_at(f, f->host[i], RT_DOUBT, RT_MISFIT, "cores", "nproc",
                            "(rank %d) has %d threads on %d core%s", i, f->about[i].threads,
                            f->about[i].cores, f->about[i].cores > 1 ? "s" : "");
    if (!bad)
        rt_found(f, RT_GOOD, RT_DONE, "cores", NULL, "%d for %d threads of a rank%s",
                 f->about[0].cores, f->about[0].threads, f->nhosts > 1 ? ", on all hosts" : "");
    free(each);
}

static bool is_short_of_memory(const rt_about *a)
{
    return a->available >= 0 && a->planned > a->available;
}

static void check_memory(rt_flight *f)
{
    int bad = 0;
    for (int i = 0; i < f->n; i++) {
        const rt_about *a = &f->about[i];
        if (a->by_cores && f->first[f->host[i]] != i)
            continue;
        if (is_short_of_memory(a))
            bad++, found_at(f, f->host[i], RT_FAULT, RT_FAILED, "memory",
                            a->by_cores ? "free -h; ulimit -v" : "nvidia-smi",
                            "has %s of memory for %s that are planned: %s",
                            rt_bytes_text((double)a->available).text,
                            rt_bytes_text((double)a->planned).text, a->limit);
        if (a->level[0] && a->level_code)
            bad++, found_at(f, f->host[i], RT_FAULT, (rt_exit)a->level_code, "offload", "df -h",
                            "has no room for what is offloaded: %s", a->level);
    }
    if (!bad)
        rt_found(f, RT_GOOD, RT_DONE, "memory", NULL, "%s planned of %s%s%s%s",
                 rt_bytes_text((double)f->about[0].planned).text,
                 rt_bytes_text((double)f->about[0].available).text,
                 f->nhosts > 1 ? ", and enough on all hosts" : "", f->about[0].level[0] ? "; " : "",
                 f->about[0].level);
}

/* Names of hosts are how everything else here is told. */
static int check_name(rt_flight *f, int host)
{
    for (int k = 0; k < host; k++)
        if (!strcmp(of_host(f, host)->host, of_host(f, k)->host)) {
            rt_found(f, RT_DOUBT, RT_FAILED, "name", NULL,
                     "two hosts call themselves %s (those of ranks %d and %d)",
                     of_host(f, host)->host, f->first[k], f->first[host]);
            return 1;
        }
    return 0;
}

static void check_limits(rt_flight *f)
{
    const int64_t checkpoint = f->checkpoint, little = (int64_t)64 << 20;
    int bad = 0;
    for (int h = 0; h < f->nhosts; h++) {
        const rt_about *a = of_host(f, h);
        if (a->shm < a->shm_needed)
            bad++, found_at(f, h, RT_FAULT, RT_FAILED, "/dev/shm", "df -h /dev/shm",
                            "has %s in /dev/shm, and %s may be needed (docker run --shm-size, or "
                            "mount -o remount,size=)",
                            rt_bytes_text((double)a->shm).text,
                            rt_bytes_text((double)a->shm_needed).text);
        if (a->files < a->files_needed)
            bad++, found_at(f, h, RT_FAULT, RT_FAILED, "open files", "ulimit -Hn",
                            "allows %" PRId64 " open files, and a rank may need %" PRId64
                            " (ulimit -Hn, LimitNOFILE)",
                            a->files, a->files_needed);
        if (a->infiniband && a->locked < little)
            bad++, found_at(f, h, RT_FAULT, RT_FAILED, "locked memory", "ulimit -Hl",
                            "allows %s of locked memory, and InfiniBand registers more (ulimit "
                            "-Hl, LimitMEMLOCK=infinity)",
                            rt_bytes_text((double)a->locked).text);
        if (!h && a->longest < checkpoint)
            bad++, found_at(f, h, RT_FAULT, RT_IO, "length of files", "ulimit -f",
                            "allows files of %s, and a checkpoint may have %s (ulimit -f)",
                            rt_bytes_text((double)a->longest).text,
                            rt_bytes_text((double)checkpoint).text);
        if (!a->knows_itself)
            bad++, found_at(f, h, RT_DOUBT, RT_FAILED, "name", "getent hosts $(hostname)",
                            "does not find an address for its own name, which libraries may ask "
                            "for (/etc/hosts)");
        bad += check_name(f, h);
    }
    if (!bad)
        rt_found(f, RT_GOOD, RT_DONE, "limits", NULL, "/dev/shm, open files, names%s",
                 f->nhosts > 1 ? ", on all hosts" : "");
}

void rt_check_hosts(rt_flight *f)
{
    check_program(f);
    check_versions(f);
    check_devices(f);
    check_cores(f);
    check_memory(f);
    check_limits(f);
}

bool rt_may_compute(const rt_flight *f)
{
    for (int i = 0; i < f->n; i++) {
        const rt_about *a = &f->about[i];
        if (!a->opened || is_short_of_memory(a) || a->level_code ||
            a->program != f->about[0].program)
            return false;
    }
    return true;
}

void rt_judge_clocks(rt_flight *f)
{
    double most = 0, bound = 0, median = rt_median(f->ahead, f->nhosts);
    int bad = 0;
    for (int h = 0; h < f->nhosts; h++) {
        const double off = f->ahead[h] - median;
        most = fmax(most, fabs(off));
        bound = fmax(bound, f->bound[h]);
        if (fabs(off) - f->bound[h] <= FAR_AHEAD)
            continue;
        bad++;
        found_at(f, h, RT_FAULT, RT_FAILED, "clock", "date +%s.%N; chronyc tracking",
                 "has a clock that is %.3f s %s that of most hosts (at most %.1g s more or less): "
                 "set it (chronyc makestep)",
                 fabs(off), off > 0 ? "ahead of" : "behind", f->bound[h]);
    }
    if (!bad && f->nhosts > 1)
        rt_found(f, RT_GOOD, RT_DONE, "clocks", NULL, "at most %.2g s apart, known to %.1g s", most,
                 bound);
}
