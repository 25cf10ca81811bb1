/* saving_open.c - the leader finds out whether checkpoints are written beside the steps, and kept
 * in memory; what that takes, and how long it should take. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/saving.h"
#include "runtime/machine.h"
#include "runtime/room.h"

/* Does this run save before its end? */
static bool saves_between(const mg_run *r)
{
    const rt_options *o = r->options;
    const rt_every *e = &o->save_every;
    const int64_t steps = o->steps != RT_UNSET ? o->steps : r->lr.steps;
    if (e->seconds > 0 || (*r->state.best.by && r->val))
        return true;
    return e->steps && (r->state.step / e->steps + 1) * e->steps < steps;
}

/* The lowest level of memory that has something of the catalog. */
static int lowest(const rt_catalog *c)
{
    int level = MG_LEVEL_DEVICE;
    for (int i = 0; i < c->n; i++)
        if (MG_LEVEL(c->item[i].form->tensor->offset) > level)
            level = MG_LEVEL(c->item[i].form->tensor->offset);
    return level;
}

static bool reads_disk(const mg_run *r)
{
    return lowest(&r->saved) == MG_LEVEL_DISK || lowest(&r->slots) == MG_LEVEL_DISK;
}

/* A file of a random name in OUT/ckpt; 0: it could not be made. */
static int64_t make_probe(const mg_run *r)
{
    int64_t number = 0;
    char *path = rt_printf("%s/ckpt", r->options->out);
    const bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
    const int root = made ? rt_checkpoints_open(r->options->out) : -1;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = rt_now_ns();
    const int fd = root < 0 ? -1
                            : openat(root, rt_saving_probe(number).text,
                                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0)
        close(fd);
    if (root >= 0)
        close(root);
    free(path);
    return fd < 0 ? 0 : number;
}

static void remove_probe(const mg_run *r, int64_t number)
{
    const int root = rt_checkpoints_open(r->options->out);
    if (root >= 0) {
        unlinkat(root, rt_saving_probe(number).text, 0);
        close(root);
    }
}

/* ---- what it takes --------------------------------------------------------------------------- */

static int host_of(const mg_run *r, int rank)
{
    return r->ranks ? r->ranks->host[rank] : 0;
}

static int ranks_of(const mg_run *r)
{
    return r->ranks ? r->ranks->n : 1;
}

/* Bytes that the ranks of machine m have in their snapshots, and beside them. */
static int64_t copies_on(const mg_run *r, const rt_save_answer *answer, int m)
{
    int64_t bytes = 0;
    for (int a = 0; a < ranks_of(r); a++)
        bytes += host_of(r, a) == m ? answer[a].bytes : 0;
    return bytes;
}

/* Bytes of in-memory checkpoints there: its own parts and its neighbour's, of the newest one and of
 * the one that is being sent. */
static int64_t kept_on(const mg_run *r, const rt_save_answer *answer, int m)
{
    int64_t bytes = 0;
    for (int a = 0; a < ranks_of(r); a++) {
        const int next = r->ranks ? rt_keep_neighbour(r->ranks->host, r->ranks->n, a) : -1;
        bytes += host_of(r, a) == m ? answer[a].writes : 0;
        bytes += next >= 0 && host_of(r, next) == m ? answer[a].writes : 0;
    }
    return 2 * bytes;
}

static int64_t most_sent(const mg_run *r, const rt_save_answer *answer)
{
    int64_t most = 0;
    for (int m = 0; m < ranks_of(r); m++) {
        int64_t bytes = 0;
        for (int a = 0; a < ranks_of(r); a++)
            bytes += host_of(r, a) == m ? answer[a].writes : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* NULL, or why there is no room for copies on one of the machines, `kept`: and in-memory
 * checkpoints (the caller frees it). */
static char *no_room(const mg_run *r, const rt_save_answer *answer, bool kept)
{
    for (int m = 0; m < ranks_of(r); m++) {
        const int64_t bytes = copies_on(r, answer, m) + (kept ? kept_on(r, answer, m) : 0);
        if (host_of(r, m) != m || answer[m].room < 0 || bytes <= answer[m].room)
            continue;
        return rt_printf("%s %" PRId64 " bytes (%s) of %s, which has %" PRId64 " (%s) left",
                         kept ? "with a copy of the state they take" : "a copy of the state takes",
                         bytes, rt_bytes_text((double)bytes).text,
                         m ? "another machine" : "this machine", answer[m].room,
                         rt_bytes_text((double)answer[m].room).text);
    }
    return NULL;
}

static char *unseen(const mg_run *r, const rt_save_answer *answer)
{
    for (int a = 0; a < ranks_of(r); a++)
        if (!answer[a].sees)
            return rt_printf("rank %d does not see %s/ckpt as rank 0 does", a, r->options->out);
    return NULL;
}

static bool is_blocking(const mg_run *r)
{
    return r->options->save && !strcmp(r->options->save, "blocking");
}

/* May it be beside the steps, as far as options and plan say? */
static bool is_asked(const mg_run *r)
{
    return !is_blocking(r) && (saves_between(r) || rt_keeps(r));
}

int64_t rt_saving_wants(const mg_run *r)
{
    const int ranks = rt_ranks_of(r->program, RT_ALL_AXES), here = rt_ranks_here(r);
    const rt_every *e = &r->options->memory_save_every;
    const bool kept = e->steps || e->seconds > 0;
    if (!is_asked(r) && !kept)
        return 0;
    /* Two in-memory checkpoints, each of its own part and of a neighbour's. */
    const int64_t times = 1 + (!kept ? 0 : here < ranks ? 4 : 2);
    return rt_checkpoint_bytes(r) * here / ranks * times;
}

/* ---- how long it should take ----------------------------------------------------------------- */

/* Seconds that a machine takes, as predicted; 0: unknown. */
static double predicted(int64_t bytes, double rate)
{
    return rate > 0 ? (double)bytes / rate : 0;
}

double rt_saving_stop(const mg_run *r)
{
    const rt_saving *s = r->saving;
    const int ranks = r->ranks ? rt_ranks_here(r) : 1;
    return predicted(s->copied * ranks, r->program->saving.copy);
}

double rt_saving_write(const mg_run *r)
{
    int64_t bytes = 0;
    for (int f = 0; f < RT_TENSOR_FILES; f++)
        bytes += rt_parts_file(r->saving->parts[f]);
    return predicted(bytes, r->program->saving.write);
}

/* To the next machine; on one machine it is a copy within its memory. */
double rt_saving_send(const mg_run *r)
{
    const mg_network *n = &r->program->network;
    const bool several = r->ranks && r->ranks->nhere < r->ranks->n;
    const double rate = !several                ? r->program->saving.copy
                        : n->node_bandwidth > 0 ? n->node_bandwidth
                                                : n->link_bandwidth;
    return predicted(r->saving->sent, rate);
}

/* ---- the decision ---------------------------------------------------------------------------- */

static void say_writes(const mg_run *r, const char *why)
{
    if (why)
        rt_log_line(r->log, "checkpoints are written while steps wait: %s", why);
    else
        rt_log_line(r->log, "checkpoints are written beside the steps, from a copy: %s of memory%s",
                    rt_bytes_text((double)r->saving->memory).text,
                    reads_disk(r) ? "; steps wait while the copy is read from the disk" : "");
}

static void say_kept(const mg_run *r, const char *why)
{
    const rt_saving *s = r->saving;
    const rt_every *e = &r->options->memory_save_every;
    const double send = rt_saving_send(r);
    const bool several = r->ranks && r->ranks->nhere < r->ranks->n;
    if (why) {
        rt_log_line(r->log, "no in-memory checkpoints: %s", why);
        return;
    }
    char *often = e->seconds > 0
                      ? rt_printf("every %g s", e->seconds)
                      : rt_printf("every %" PRId64 " step%s", e->steps, e->steps > 1 ? "s" : "");
    char *cost = send > 0 ? rt_printf(", in %s, predicted", rt_ms_text(send * 1e3).text)
                          : rt_printf("%s", "");
    rt_log_line(r->log, "in-memory checkpoints %s: %s of this machine's memory; each sends %s%s%s",
                often, rt_bytes_text((double)s->kept).text, rt_bytes_text((double)s->sent).text,
                several ? " to the next machine" : " to the supervisor; another machine has none",
                cost);
    free(often);
    free(cost);
}

/* Whether there are in-memory checkpoints, and what they take. */
static void settle_kept(mg_run *r, const rt_save_answer *answer)
{
    rt_saving *s = r->saving;
    char *why = no_room(r, answer, true);
    s->keeping = !why;
    s->kept = why ? 0 : kept_on(r, answer, 0);
    s->sent = most_sent(r, answer);
    s->tried_ns = rt_now_ns();
    say_kept(r, why);
    free(why);
}

void rt_saving_open(mg_run *r)
{
    const int64_t probe = is_asked(r) ? make_probe(r) : 0;
    if (!probe)
        return; /* the first save says what is wrong */
    rt_save_answer *answer = rt_alloc((size_t)ranks_of(r), sizeof *answer);
    rt_device_wait(r); /* another rank's may wait for it, before that rank hears an order */
    rt_saving_order(r, RT_SAVE_OPEN, probe, answer);
    remove_probe(r, probe);
    char *room = no_room(r, answer, false), *hidden = unseen(r, answer);
    const bool open = !room && (!hidden || rt_keeps(r));
    if (open) {
        r->saving->writes = !hidden;
        r->saving->memory = copies_on(r, answer, 0); /* what the summary compares */
    }
    if (saves_between(r) || room)
        say_writes(r, room ? room : hidden);
    if (open && rt_keeps(r))
        settle_kept(r, answer);
    rt_saving_order(r, open ? RT_SAVE_MAP : RT_SAVE_CLOSE, 0, answer);
    if (r->saving && rt_keeps(r)) /* what this run did not go on from is of no use any more */
        rt_keep_alone(r->saving, r->kept ? rt_kept_set(r->kept) : 0);
    rt_kept_close(r->kept);
    r->kept = NULL;
    free(room);
    free(hidden);
    free(answer);
}
