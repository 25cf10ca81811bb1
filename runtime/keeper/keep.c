/* keep.c - a rank sends its part of a checkpoint to keepers: to that of its supervisor, and to that
 * of a rank of the next machine, in a ring. It does so beside the steps, from the snapshot, in the
 * pieces that it would write to a disk. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/crc32c_parts.h"
#include "runtime/checkpoint/saving.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/elastic/pulse.h"
#include "runtime/keeper/keeper.h"
#include "runtime/machine.h"

bool rt_keeps(const mg_run *r)
{
    const rt_every *e = &r->options->memory_save_every;
    return (e->steps || e->seconds > 0) && r->pulse && r->pulse->keepers.n;
}

int rt_keep_neighbour(const int16_t *host, int ranks, int rank)
{
    int next = -1, place = 0, n = 0, there = 0;
    for (int m = 0; m < ranks; m++) /* the machine behind this one, or the first */
        if (host[m] == m && m > host[rank] && next < 0)
            next = m;
    next = next < 0 ? host[0] : next;
    if (next == host[rank])
        return -1;
    for (int a = 0; a < rank; a++)
        place += host[a] == host[rank];
    for (int a = 0; a < ranks; a++)
        there += host[a] == next;
    for (int a = 0; a < ranks; a++)
        if (host[a] == next && n++ == place % there)
            return a;
    return -1;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static const rt_keepers *keepers_of(const rt_saving *s)
{
    return &s->run->pulse->keepers;
}

void rt_keep_end(rt_saving *s)
{
    for (int i = 0; s->line && i < keepers_of(s)->n; i++)
        rt_keep_close(&s->line[i]);
    free(s->line);
    s->line = NULL;
}

/* Calls a keeper, if that is not done. */
static bool call(rt_saving *s, int which)
{
    const rt_keepers *k = keepers_of(s);
    if (!s->line) {
        s->line = rt_alloc((size_t)k->n, sizeof *s->line);
        for (int i = 0; i < k->n; i++)
            s->line[i].fd = -1;
    }
    if (which < 0) {
        errno = ENOTCONN;
        return false;
    }
    return s->line[which].fd >= 0 || rt_keep_call(&s->line[which], k, which);
}

static bool says(rt_saving *s, int which, const rt_keep_word *w, const void *data)
{
    return call(s, which) && rt_keep_say(&s->line[which], w, data);
}

/* All keepers that were called have what they were sent: they are asked together. */
static bool sync_all(rt_saving *s)
{
    const rt_keep_word asks = {.kind = RT_KEEP_SYNC};
    rt_keep_word answer;
    for (int i = 0; i < keepers_of(s)->n; i++)
        if (s->line[i].fd >= 0 &&
            !(rt_keep_say(&s->line[i], &asks, NULL) && rt_keep_flush(&s->line[i])))
            return false;
    for (int i = 0; i < keepers_of(s)->n; i++) {
        if (s->line[i].fd < 0)
            continue;
        if (!rt_keep_hear(&s->line[i], &answer, sizeof answer))
            return false;
        if (answer.error) {
            errno = answer.error;
            return false;
        }
    }
    return true;
}

/* ---- the pieces of a rank -------------------------------------------------------------------- */

typedef struct sending {
    rt_saving *s;
    int file;
    bool good;
} sending;

static bool send_bytes(rt_saving *s, int file, const char *data, int64_t at, int64_t bytes)
{
    rt_keep_word w = {.kind = RT_KEEP_PUT,
                      .file = (uint32_t)file,
                      .set = s->set,
                      .step = s->step,
                      .at = at,
                      .bytes = bytes};
    w.behind = rt_parts_file(s->parts[file]) - at - bytes;
    w.part = rt_crc32c_part(data, (size_t)bytes, w.behind);
    return says(s, s->own, &w, data) && (s->other < 0 || says(s, s->other, &w, data));
}

static bool send_piece(void *ctx, int64_t at, int64_t bytes)
{
    sending *x = ctx;
    rt_saving *s = x->s;
    if (s->cancel) {
        errno = ECANCELED;
        return x->good = false;
    }
    rt_parts_get(s->parts[x->file], s->snapshot, at, bytes, s->piece);
    return x->good = send_bytes(s, x->file, s->piece, at, bytes);
}

static bool send_header(rt_saving *s, int file)
{
    const mg_run *r = s->run;
    size_t size;
    char *header = rt_tensors_header(file ? &r->slots : &r->saved, NULL, &size);
    bool good = true;
    for (size_t at = 0, n; good && at < size; at += n) {
        n = size - at < RT_PIECE ? size - at : RT_PIECE;
        good = send_bytes(s, file, header + at, (int64_t)at, (int64_t)n);
    }
    const int e = errno;
    free(header);
    errno = e;
    return good;
}

static bool send_file(rt_saving *s, int file)
{
    sending x = {s, file, true};
    s->result.file = file;
    if (!s->run->rank && !send_header(s, file))
        return false;
    rt_parts_pieces(s->parts[file], send_piece, &x);
    return x.good;
}

/* ---- the leader ------------------------------------------------------------------------------ */

/* The state of the run, to the keepers of all ranks. The pieces behind it have their checksums, so
 * the files have none. */
static bool send_state(rt_saving *s)
{
    const mg_run *r = s->run;
    const rt_keepers *k = keepers_of(s);
    rt_seal seals[RT_TENSOR_FILES];
    bool good = true;
    for (int f = 0; f < RT_TENSOR_FILES; f++)
        seals[f] = (rt_seal){0, rt_parts_file(s->parts[f])};
    char *text = rt_checkpoint_state(r, &s->state, seals, &(rt_seal){0});
    rt_keep_word w = {.kind = RT_KEEP_PUT,
                      .file = RT_KEEP_STATE,
                      .set = s->set,
                      .step = s->step,
                      .bytes = (int64_t)strlen(text)};
    w.part = rt_crc32c_part(text, strlen(text), 0);
    for (int a = 0; good && a < (r->ranks ? r->ranks->n : 1); a++)
        good = says(s, rt_keeper_of(k, a), &w, text);
    const int e = errno;
    free(text);
    errno = e;
    return good;
}

void rt_keep_alone(rt_saving *s, uint64_t set)
{
    const rt_keepers *k = keepers_of(s);
    for (int i = 0; i < k->n; i++)
        if (k->of[i].spot.version && /* one that does not answer has no memory, or is told later */
            !(says(s, i, &(rt_keep_word){.kind = RT_KEEP_DROP, .set = set}, NULL) &&
              rt_keep_flush(&s->line[i])))
            rt_keep_close(&s->line[i]);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

bool rt_keep_pieces(rt_saving *s)
{
    const mg_run *r = s->run;
    const rt_keepers *k = keepers_of(s);
    const int other = r->ranks ? rt_keep_neighbour(r->ranks->host, r->ranks->n, r->rank) : -1;
    s->own = rt_keeper_of(k, r->rank);
    s->other = other < 0 ? -1 : rt_keeper_of(k, other);
    bool good = call(s, s->own) && (other < 0 || call(s, s->other)) && (r->rank || send_state(s));
    for (int f = 0; good && f < RT_TENSOR_FILES; f++)
        good = send_file(s, f);
    good = good && sync_all(s);
    const int e = errno;
    s->sent_ns = rt_now_ns();
    if (!good)
        rt_keep_end(s); /* called anew the next time */
    errno = e;
    return good;
}
