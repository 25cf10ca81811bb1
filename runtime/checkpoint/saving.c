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
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/health/health.h"
#include "runtime/machine.h"
#include "runtime/room.h"

/* ---- every rank ------------------------------------------------------------------------------ */

rt_words rt_saving_probe(int64_t number)
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
        root >= 0 && fstatat(root, rt_saving_probe(number).text, &s, AT_SYMLINK_NOFOLLOW) == 0;
    if (root >= 0)
        close(root);
    return sees;
}

static bool add_bytes(void *ctx, int64_t at, int64_t bytes)
{
    (void)at;
    *(int64_t *)ctx += bytes;
    return true;
}

static void prepare(mg_run *r, int64_t number, rt_save_answer *answer)
{
    const char *limit;
    rt_saving *s = r->saving = rt_alloc(1, sizeof *s);
    s->run = r;
    s->good = true;
    s->id = (uint64_t)number;
    rt_snapshot_plan(r, s);
    answer->sees = !r->rank || sees_probe(r, number);
    answer->bytes = s->memory;
    for (int f = 0; f < RT_TENSOR_FILES; f++)
        rt_parts_pieces(s->parts[f], add_bytes, &answer->writes);
    answer->room = rt_room_memory(&limit);
    s->largest = s->copied;
}

static void begin(rt_saving *s, int64_t step, bool keeps)
{
    s->step = step;
    s->keeps = keeps;
    s->set = rt_mix64(s->id ^ rt_mix64((uint64_t)step)) | 1;
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
    rt_keep_end(s);
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
            begin(s, number, false);
        rt_scribe_give(s, RT_WRITE);
        break;
    case RT_SAVE_KEEP:
        if (r->rank)
            begin(s, number, true);
        rt_scribe_give(s, RT_SEND);
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

/* ---- the leader: a save ---------------------------------------------------------------------- */

void rt_saving_order(mg_run *r, rt_save_order order, int64_t number, rt_save_answer *answer)
{
    rt_ranks_save(r, order, number);
    rt_saving_obey(r, order, number, &answer[0]);
    rt_ranks_saved(r, answer);
}

bool rt_saving_writes(const mg_run *r)
{
    return r->saving && r->saving->writes;
}

static void finish_kept(mg_run *r, bool good)
{
    rt_saving *s = r->saving;
    s->phase = RT_IDLE;
    if (!good) {
        rt_warn("no in-memory checkpoint of step %" PRId64 ": %s", s->step,
                s->result.error == EACCES ? "a process that is no keeper answered"
                                          : strerror(s->result.error));
        return;
    }
    const double stop = (double)s->stopped_ns / 1e6,
                 sent = (double)(s->sent_ns - s->began_ns - s->stopped_ns) / 1e6;
    s->nkept++;
    s->kept_stop_ms += stop;
    s->kept_sent_ms += sent;
    rt_log_event(r->log, "memory_save",
                 "\"of\":%" PRId64 ",\"bytes\":%" PRId64 ",\"stopped_ms\":%.3f,\"sent_ms\":%.3f,"
                 "\"predicted_ms\":%.3f",
                 s->step, s->sent, stop, sent, rt_saving_send(r) * 1e3);
    if (s->nkept == 1) /* a line for the first; all are in metrics.jsonl */
        rt_log_line(r->log,
                    "in-memory checkpoint of step %" PRId64 ": steps stood still %s, sent in %s",
                    s->step, rt_ms_text(stop).text, rt_ms_text(sent).text);
}

void rt_saving_tell(const mg_run *r)
{
    const rt_saving *s = r->saving;
    if (s && s->nkept)
        rt_log_line(r->log,
                    "in-memory checkpoints: %" PRId64 ", for which steps stood still %s each, sent "
                    "beside steps in %s",
                    s->nkept, rt_ms_text(s->kept_stop_ms / (double)s->nkept).text,
                    rt_ms_text(s->kept_sent_ms / (double)s->nkept).text);
}

static void finish(mg_run *r, bool good)
{
    rt_saving *s = r->saving;
    if (s->keeps) {
        finish_kept(r, good);
        return;
    }
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
                      .predicted_stop_ms = rt_saving_stop(r) * 1e3,
                      .predicted_write_ms = rt_saving_write(r) * 1e3};
    rt_log_saved(r->log, &c);
}

/* Asks the others, and takes the first failure; true if nobody is busy. */
static bool gather(mg_run *r, rt_save_order order, uint32_t part[RT_TENSOR_FILES])
{
    rt_saving *s = r->saving;
    const int n = r->ranks ? r->ranks->n : 1;
    bool idle = true;
    rt_save_answer *answer = rt_alloc((size_t)n, sizeof *answer);
    rt_saving_order(r, order, 0, answer);
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
    rt_scribe_give(s, s->keeps ? RT_ALONE : RT_PUBLISH);
}

/* Goes on to the next phase, if the one before is over. */
static void advance(mg_run *r)
{
    rt_saving *s = r->saving;
    if (rt_scribe_busy(s))
        return;
    if (s->phase == RT_WRITES && !r->ranks && !s->result.error && !s->keeps)
        finish(r, true);
    else if (s->phase == RT_WRITES)
        look_at_others(r);
    else if (s->phase == RT_STOPS)
        stop_writing(r);
    else if (s->phase == RT_PUBLISHES)
        finish(r, s->published || s->keeps);
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
    return r->saving && r->saving->phase != RT_IDLE && !r->saving->keeps ? r->saving->step : -1;
}

/* The save before is not over. */
static void wait_for_last(mg_run *r)
{
    rt_saving *s = r->saving;
    const int64_t now = rt_now_ns(), since = now - s->began_ns;
    rt_saving_end(r);
    s->waited_ns = rt_now_ns() - now;
    if (s->said || s->keeps || r->state.step == r->lr.steps)
        return;
    rt_log_line(r->log,
                "a save takes %s, and the next is due after %s: steps wait for the one before, "
                "now and whenever that is so again",
                rt_ms_text((double)r->save_ns / 1e6).text, rt_ms_text((double)since / 1e6).text);
    s->said = true;
}

/* All ranks copy their state. */
static void copy(mg_run *r, bool keeps, rt_save_answer *answer)
{
    rt_saving *s = r->saving;
    s->began_ns = rt_now_ns();
    rt_saving_order(r, RT_SAVE_COPY, r->state.step, answer);
    s->state = r->state;
    begin(s, r->state.step, keeps);
}

void rt_saving_begin(mg_run *r)
{
    rt_saving *s = r->saving;
    rt_save_answer *answer = rt_alloc((size_t)(r->ranks ? r->ranks->n : 1), sizeof *answer);
    s->waited_ns = 0;
    if (s->phase != RT_IDLE)
        wait_for_last(r);
    copy(r, false, answer);
    if (rt_scribe_make(s)) {
        rt_saving_order(r, RT_SAVE_WRITE, r->state.step, answer);
        s->phase = RT_WRITES;
    } else {
        rt_scribe_give(s, RT_DROP);
        s->phase = RT_DROPS;
    }
    s->stopped_ns = rt_now_ns() - s->began_ns;
    free(answer);
}

/* ---- the leader: an in-memory checkpoint ------------------------------------------------------
 */

static bool is_due(const mg_run *r)
{
    const rt_every *e = &r->options->memory_save_every;
    const rt_saving *s = r->saving;
    if (e->seconds > 0)
        return (double)(rt_now_ns() - s->tried_ns) >= e->seconds * 1e9;
    return s->late || r->state.step % e->steps == 0;
}

bool rt_saving_keep(mg_run *r)
{
    rt_saving *s = r->saving;
    if (!s || !s->keeping || r->state.step == r->lr.steps || !is_due(r))
        return false;
    s->late = s->phase != RT_IDLE;
    if (s->late || r->saved_step == r->state.step)
        return false;
    rt_health_before_save(r);
    s->tried_ns = rt_now_ns();
    rt_save_answer *answer = rt_alloc((size_t)(r->ranks ? r->ranks->n : 1), sizeof *answer);
    copy(r, true, answer);
    rt_saving_order(r, RT_SAVE_KEEP, r->state.step, answer);
    s->phase = RT_WRITES;
    s->stopped_ns = rt_now_ns() - s->began_ns;
    free(answer);
    return true;
}
