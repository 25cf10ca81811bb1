/* preflight.c - the parts of a preflight, in order. See preflight.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/net/ranks.h"
#include "runtime/preflight/flight.h"

void rt_gather_to_leader(mg_run *r, const void *mine, void *all, int64_t bytes)
{
    const int n = r->ranks ? r->ranks->n : 1;
    if (r->rank) {
        rt_ranks_tell(r, 0, mine, bytes);
        return;
    }
    memcpy(all, mine, (size_t)bytes);
    for (int i = 1; i < n; i++)
        rt_ranks_hear(r, i, (char *)all + i * bytes, bytes);
}

static void share(mg_run *r, void *what, int64_t bytes)
{
    if (r->ranks)
        rt_ranks_share(r, what, bytes);
}

/* Numbers hosts in the order of their first ranks. */
static void find_hosts(rt_flight *f)
{
    for (int i = 0; i < f->n && !f->run->rank; i++) {
        int h = 0;
        while (h < f->nhosts && f->about[f->first[h]].machine != f->about[i].machine)
            h++;
        if (h == f->nhosts)
            f->first[f->nhosts++] = i;
        f->host[i] = h;
        f->place[i] = f->ranks[h]++;
    }
    share(f->run, &f->nhosts, sizeof f->nhosts);
    share(f->run, f->host, sizeof f->host);
    share(f->run, f->first, sizeof f->first);
    share(f->run, f->ranks, sizeof f->ranks);
    share(f->run, f->place, sizeof f->place);
}

/* All ranks: the arena, and what needs it. */
static void compute(rt_flight *f)
{
    mg_run *r = f->run;
    r->pool = rt_pool_new(r->threads, false);
    rt_arena_map(r);
    if (!r->ranks)
        return;
    rt_pairs(f);
    rt_groups(f);
    if (r->rank)
        return;
    rt_judge_pairs(f);
    rt_report_groups(f);
    rt_judge_groups(f);
}

/* Bytes/s to the disk of the run's folder, by a file without a name; 0: it takes none. */
static double write_rate(const char *folder, int64_t bytes)
{
    enum { PIECE = 4 << 20 };
    const int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    char *piece = rt_alloc(PIECE, 1);
    bool good = fd >= 0;
    memset(piece, 0x5a, PIECE);
    const int64_t began = rt_now_ns();
    for (int64_t at = 0; good && at < bytes; at += PIECE)
        good = write(fd, piece, PIECE) == PIECE;
    good = good && fsync(fd) == 0;
    const double seconds = 1e-9 * (double)(rt_now_ns() - began);
    if (fd >= 0)
        close(fd);
    free(piece);
    return good ? (double)((bytes + PIECE - 1) / PIECE * PIECE) / seconds : 0;
}

/* The run's folder, or what there is of the path to it, has room for checkpoints; how long one
 * takes. */
static void check_out(rt_flight *f)
{
    const rt_options *o = f->run->options;
    const int64_t one = f->checkpoint, most = (int64_t)64 << 20;
    const int64_t count = o->keep ? o->keep + 1 : 1;
    char *folder = rt_existing_part(o->out);
    char *shows = rt_printf("df -h %s", folder), *again = rt_on_host(f, 0, shows);
    struct statvfs v;
    if (statvfs(folder, &v) || access(folder, W_OK | X_OK)) {
        rt_found(f, RT_FAULT, RT_IO, "disk", again, "--out %s: %s: %s", o->out, folder,
                 strerror(errno));
    } else {
        const int64_t room = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
        const double rate = room > one ? write_rate(folder, one < most ? one : most) : 0;
        const rt_words has = rt_bytes_text((double)room),
                       needs = rt_bytes_text((double)(one * count));
        if (room < one * count)
            rt_found(f, RT_FAULT, RT_IO, "disk", again,
                     "--out %s on host %s: %s free, and %lld checkpoints take %s", o->out,
                     rt_host_name(f, 0), has.text, (long long)count, needs.text);
        else if (rate <= 0)
            rt_found(f, RT_DOUBT, RT_IO, "disk", again, "--out %s: %s free; its rate is not known",
                     o->out, has.text);
        else
            rt_found(f, RT_GOOD, RT_DONE, "disk", NULL,
                     "--out %s: %s free, %lld checkpoints take %s; one takes %.2g s at %s", o->out,
                     has.text, (long long)count, needs.text, (double)one / rate,
                     rt_rate_text(rate, "B/s").text);
    }
    free(folder);
    free(shows);
    free(again);
}

/* Of rank 0: all is known; the last to be looked at is the data, which may end the program. */
static void conclude(rt_flight *f)
{
    const char *json = f->run->options->preflight;
    check_out(f);
    if (!f->silent) {
        rt_exit code = RT_DONE;
        rt_check_start(f->run, &code);
        if (code)
            rt_found(f, RT_FAULT, code, "start", NULL, "this run cannot begin: see above");
    }
    if (strcmp(json, "auto"))
        rt_report_json(f, json);
    rt_report_end(f);
}

static void release(rt_flight *f)
{
    for (int i = 0; i < f->nfindings; i++) {
        free(f->finding[i].text);
        free(f->finding[i].again);
    }
    free(f->finding);
    free(f->about);
    free(f->ahead);
    free(f->bound);
    free(f->link);
    free(f->pair);
    free(f->group);
    free(f);
}

rt_exit rt_preflight(mg_run *r)
{
    rt_flight *f = rt_alloc(1, sizeof *f);
    rt_about *mine = rt_alloc(1, sizeof *mine);
    bool goes_on = false;
    f->run = r;
    rt_ranks_start(r); /* in a bare start, before anything asks for a device */
    f->n = r->ranks ? r->ranks->n : 1;
    f->silent = !strcmp(r->options->preflight, "-");
    if (!r->rank) {
        f->checkpoint = rt_checkpoint_bytes(r);
        f->about = rt_alloc((size_t)f->n, sizeof *f->about);
    }
    rt_about_fill(r, mine);
    rt_gather_to_leader(r, mine, f->about, sizeof *mine);
    free(mine);
    find_hosts(f);
    f->ahead = rt_alloc((size_t)f->nhosts, sizeof *f->ahead);
    f->bound = rt_alloc((size_t)f->nhosts, sizeof *f->bound);
    if (!r->rank) {
        rt_report_head(f);
        rt_check_hosts(f);
        goes_on = rt_may_compute(f);
    }
    share(r, &goes_on, sizeof goes_on);
    rt_clocks(f);
    if (!r->rank)
        rt_judge_clocks(f);
    rt_links(f);
    if (!r->rank) {
        rt_report_links(f);
        rt_judge_links(f);
        if (!goes_on)
            rt_found(f, RT_LEFT_OUT, RT_DONE, "collectives", NULL,
                     "not measured: not all ranks could hold this program");
    }
    if (goes_on)
        compute(f);
    if (!r->rank)
        conclude(f);
    const rt_exit code = f->code;
    release(f);
    return code;
}
