/* saving.c - when checkpoints are copied, written and published, beside the steps; see saving.h.
 *
 * The leader goes through the phases of a save between steps, and never waits there but for the
 * copy, or for the save before:
 *
 *   copy     all ranks, while the steps stand still; the leader makes the files
 *   WRITES   all scribes; when the leader's is done, it asks the others
 *   STOPS    something failed: all are told to stop, and asked until they have
 *   then the leader's scribe PUBLISHES the checkpoint, or DROPS what is there. Of one rank it
 *   publishes as soon as all is written.
 *
 * A failure is a warning, as in the blocking way; the newest checkpoint stays what it was. */
#include "runtime/checkpoint/saving.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/machine.h"
#include "runtime/room.h"

/* ---- every rank ------------------------------------------------------------------------------ */

/* The leader's probe has a name that is removed at the next start, if a kill left it. */
static rt_words probe_name(int64_t number)
{
    rt_words w;
    snprintf(w.text, sizeof w.text, ".tmp-step-p%016" PRIx64, (uint64_t)number);
    return w;
}

static bool sees_probe(const mg_run *r, int64_t number)
{
    struct stat s;
    const int root = rt_checkpoints_open(r->options->out);
    const bool sees =
        root >= 0 && fstatat(root, probe_name(number).text, &s, AT_SYMLINK_NOFOLLOW) == 0;
    if (root >= 0)
        close(root);
    return sees;
}

static void prepare(mg_run *r, int64_t number, rt_save_answer *answer)
{
    const char *limit;
    rt_saving *s = r->saving = rt_alloc(1, sizeof *s);
    s->run = r;
    s->good = true;
    rt_snapshot_plan(r, s);
    answer->sees = !r->rank || sees_probe(r, number);
    answer->bytes = s->memory;
    answer->room = rt_room_memory(&limit);
    s->largest = s->copied;
}

static void begin(rt_saving *s, int64_t step)
{
    s->step = step;
    s->cancel = s->published = false;
    memset(&s->result, 0, sizeof s->result);
}

/* The scribe's result is said when it is not busy. */
static void tell_state(rt_saving *s, rt_save_answer *answer)
{
    const bool busy = rt_scribe_busy(s);
    if (!busy)
        *answer = s->result;
    answer->busy = busy;
}

void rt_saving_close(mg_run *r)
{
    rt_saving *s = r->saving;
    if (!s)
        return;
    rt_scribe_end(s);
    rt_snapshot_free(s);
    free(s);
    r->saving = NULL;
}

void rt_saving_obey(mg_run *r, rt_save_order order, int64_t number, rt_save_answer *answer)
{
    rt_saving *s = r->saving;
    memset(answer, 0, sizeof *answer);
    switch (order) {
    case RT_SAVE_OPEN:
        prepare(r, number, answer);
        break;
    case RT_SAVE_MAP:
        rt_snapshot_map(r, s);
        rt_scribe_start(s);
        break;
    case RT_SAVE_COPY:
        rt_snapshot_copy(r, s);
        break;
    case RT_SAVE_WRITE:
        if (r->rank)
            begin(s, number);
        rt_scribe_give(s, RT_WRITE);
        break;
    case RT_SAVE_CANCEL:
        s->cancel = true;
        tell_state(s, answer);
        break;
    case RT_SAVE_ASK:
        tell_state(s, answer);
        break;
    case RT_SAVE_CLOSE:
        rt_saving_close(r);
        break;
    }
}

int64_t rt_saving_memory(const mg_run *r)
{
    return r->saving ? r->saving->memory : 0;
}

/* ---- the leader: may it be done? ------------------------------------------------------------- */

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

static bool is_offloaded(const rt_catalog *c)
{
    for (int i = 0; i < c->n; i++)
        if (MG_LEVEL(c->item[i].form->tensor->offset))
            return true;
    return false;
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
                            : openat(root, probe_name(number).text,
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
        unlinkat(root, probe_name(number).text, 0);
        close(root);
    }
}

/* An order to all ranks, this one too, and their answers by rank. */
static void order_all(mg_run *r, rt_save_order order, int64_t number, rt_save_answer *answer)
{
    rt_ranks_save(r, order, number);
    rt_saving_obey(r, order, number, &answer[0]);
    rt_ranks_saved(r, answer);
}

/* NULL, or why checkpoints are not written beside the steps (the caller frees it). */
static char *misfit(const mg_run *r, const rt_save_answer *answer)
{
    const struct rt_ranks *k = r->ranks;
    for (int m = 0; m < (k ? k->n : 1); m++) {
        int64_t bytes = 0;
        for (int a = 0; a < (k ? k->n : 1); a++)
            bytes += (k ? k->host[a] : 0) == m ? answer[a].bytes : 0;
        if (!answer[m].sees)
            return rt_printf("rank %d does not see %s/ckpt as rank 0 does", m, r->options->out);
        if (bytes && answer[m].room >= 0 && bytes > answer[m].room)
            return rt_printf("a copy of the state takes %" PRId64
                             " bytes (%s) of %s, which has %" PRId64 " (%s) left",
                             bytes, rt_bytes_text((double)bytes).text,
                             m ? "another machine" : "this machine", answer[m].room,
                             rt_bytes_text((double)answer[m].room).text);
        if (!m)
            r->saving->memory = bytes; /* of this machine: what the summary compares */
    }
    return NULL;
}

/* May it be beside the steps, as far as options and plan say? */
static bool is_asked(const mg_run *r)
{
    return !(r->options->save && !strcmp(r->options->save, "blocking")) && saves_between(r);
}

int64_t rt_saving_wants(const mg_run *r)
{
    const int ranks = rt_ranks_of(r->program, RT_ALL_AXES), here = rt_ranks_here(r);
    if (!is_asked(r) || is_offloaded(&r->saved) || is_offloaded(&r->slots))
        return 0;
    return rt_checkpoint_bytes(r) * here / ranks;
}

static void say_blocking(const mg_run *r, const char *why)
{
    rt_log_line(r->log, "checkpoints are written while steps wait: %s", why);
}

/* Seconds that a machine takes to copy and to write, as predicted; 0: unknown. */
static double predicted(int64_t bytes, double rate)
{
    return rate > 0 ? (double)bytes / rate : 0;
}

static double predicted_stop(const mg_run *r)
{
    const rt_saving *s = r->saving;
    const int ranks = r->ranks ? rt_ranks_here(r) : 1;
    return predicted(s->copied * ranks, r->program->saving.copy);
}

static double predicted_write(const mg_run *r)
{
    int64_t bytes = 0;
    for (int f = 0; f < RT_TENSOR_FILES; f++)
        bytes += rt_parts_file(r->saving->parts[f]);
    return predicted(bytes, r->program->saving.write);
}

void rt_saving_open(mg_run *r)
{
    const char *far = "parameters or state are offloaded, and have no copy in memory";
    if (!is_asked(r))
        return;
    if (is_offloaded(&r->saved) || is_offloaded(&r->slots)) {
        say_blocking(r, far);
        return;
    }
    const int64_t probe = make_probe(r);
    if (!probe)
        return; /* the first save says what is wrong */
    rt_save_answer *answer = rt_alloc((size_t)(r->ranks ? r->ranks->n : 1), sizeof *answer);
    order_all(r, RT_SAVE_OPEN, probe, answer);
    remove_probe(r, probe);
    char *why = misfit(r, answer);
    order_all(r, why ? RT_SAVE_CLOSE : RT_SAVE_MAP, 0, answer);
    if (why)
        say_blocking(r, why);
    else
        rt_log_line(r->log, "checkpoints are written beside the steps, from a copy: %s of memory",
                    rt_bytes_text((double)r->saving->memory).text);
    free(why);
    free(answer);
}

/* ---- the leader: a save ---------------------------------------------------------------------- */

static void finish(mg_run *r, bool good)
{
    rt_saving *s = r->saving;
    s->phase = RT_IDLE;
    s->good = good;
    r->save_ns = s->over_ns - s->began_ns;
    if (!good) {
        rt_checkpoint_failed(r, &s->u, s->result.error);
        return;
    }
    r->saved_step = s->step;
    rt_save_cost c = {.step = s->step,
                      .bytes = rt_checkpoint_bytes(r),
                      .stopped_ms = (double)s->stopped_ns / 1e6,
                      .waited_ms = (double)s->waited_ns / 1e6,
                      .beside_ms = (double)(r->save_ns - s->stopped_ns) / 1e6,
                      .predicted_stop_ms = predicted_stop(r) * 1e3,
                      .predicted_write_ms = predicted_write(r) * 1e3};
    rt_log_saved(r->log, &c);
}

/* Asks the others, and takes the first failure; true if nobody is busy. */
static bool gather(mg_run *r, rt_save_order order, uint32_t part[RT_TENSOR_FILES])
{
    rt_saving *s = r->saving;
    const int n = r->ranks ? r->ranks->n : 1;
    bool idle = true;
    rt_save_answer *answer = rt_alloc((size_t)n, sizeof *answer);
    order_all(r, order, 0, answer);
    for (int f = 0; f < RT_TENSOR_FILES; f++)
        part[f] = 0;
    for (int a = 0; a < n; a++) {
        idle &= !answer[a].busy;
        for (int f = 0; f < RT_TENSOR_FILES; f++)
            part[f] ^= answer[a].part[f];
        if (answer[a].error && !s->result.error) {
            s->result.error = answer[a].error;
            s->u.file = rt_checkpoint_file(r->program, answer[a].file);
        }
    }
    free(answer);
    return idle;
}

static void stop_writing(mg_run *r)
{
    uint32_t part[RT_TENSOR_FILES];
    rt_saving *s = r->saving;
    const bool first = s->phase != RT_STOPS;
    const int error = s->result.error;
    s->phase = RT_STOPS;
    if (!gather(r, first ? RT_SAVE_CANCEL : RT_SAVE_ASK, part))
        return;
    s->result.error = error;
    s->phase = RT_DROPS;
    rt_scribe_give(s, RT_DROP);
}

/* The leader's own part is done. */
static void look_at_others(mg_run *r)
{
    rt_saving *s = r->saving;
    uint32_t part[RT_TENSOR_FILES];
    const bool idle = gather(r, RT_SAVE_ASK, part);
    if (s->result.error) {
        stop_writing(r);
        return;
    }
    if (!idle)
        return;
    memcpy(s->result.part, part, sizeof part);
    s->phase = RT_PUBLISHES;
    rt_scribe_give(s, RT_PUBLISH);
}

/* Goes on to the next phase, if the one before is over. */
static void advance(mg_run *r)
{
    rt_saving *s = r->saving;
    if (rt_scribe_busy(s))
        return;
    if (s->phase == RT_WRITES && !r->ranks && !s->result.error)
        finish(r, true);
    else if (s->phase == RT_WRITES)
        look_at_others(r);
    else if (s->phase == RT_STOPS)
        stop_writing(r);
    else if (s->phase == RT_PUBLISHES)
        finish(r, s->published);
    else if (s->phase == RT_DROPS)
        finish(r, false);
}

void rt_saving_look(mg_run *r)
{
    if (r->saving && r->saving->phase != RT_IDLE)
        advance(r);
}

bool rt_saving_end(mg_run *r)
{
    enum { NAP_US = 500 };
    if (!r->saving)
        return true;
    for (; r->saving->phase != RT_IDLE; usleep(NAP_US))
        advance(r);
    return r->saving->good;
}

int64_t rt_saving_step(const mg_run *r)
{
    return r->saving && r->saving->phase != RT_IDLE ? r->saving->step : -1;
}

/* The save before is not over. */
static void wait_for_last(mg_run *r)
{
    rt_saving *s = r->saving;
    const int64_t now = rt_now_ns(), since = now - s->began_ns;
    rt_saving_end(r);
    s->waited_ns = rt_now_ns() - now;
    if (s->said || r->state.step == r->lr.steps)
        return;
    rt_log_line(r->log,
                "a save takes %s, and the next is due after %s: steps wait for the one before, "
                "now and whenever that is so again",
                rt_ms_text((double)r->save_ns / 1e6).text, rt_ms_text((double)since / 1e6).text);
    s->said = true;
}

void rt_saving_begin(mg_run *r)
{
    rt_saving *s = r->saving;
    rt_save_answer *answer = rt_alloc((size_t)(r->ranks ? r->ranks->n : 1), sizeof *answer);
    s->waited_ns = 0;
    if (s->phase != RT_IDLE)
        wait_for_last(r);
    s->began_ns = rt_now_ns();
    order_all(r, RT_SAVE_COPY, r->state.step, answer);
    s->state = r->state;
    begin(s, r->state.step);
    if (rt_scribe_make(s)) {
        order_all(r, RT_SAVE_WRITE, r->state.step, answer);
        s->phase = RT_WRITES;
    } else {
        rt_scribe_give(s, RT_DROP);
        s->phase = RT_DROPS;
    }
    s->stopped_ns = rt_now_ns() - s->began_ns;
    free(answer);
}
