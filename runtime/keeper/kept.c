/* kept.c - rank 0 finds the newest whole set in the keepers' memory, and reads it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/crc32c_parts.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/elastic/pulse.h"
#include "runtime/keeper/keeper.h"
#include "runtime/run.h"

/* A piece, and the keeper that has it: a piece of two keepers comes twice. */
typedef struct piece {
    rt_keep_word word;
    int keeper;
} piece;

struct rt_kept {
    const rt_keepers *keepers;
    rt_keep_line line[MG_RANKS_MAX];
    piece *piece; /* by step, the newest first, set, file and place in the file */
    int64_t n;
    int64_t damaged;
    int64_t first[RT_TENSOR_FILES], end[RT_TENSOR_FILES]; /* of the set: the pieces of a file */
    rt_manifest manifest;
    uint64_t set;
    char *data;        /* one piece, */
    int64_t at, bytes; /* of `file`, or bytes 0: none */
    int file;
};

/* ---- what there is --------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const piece *p = a, *q = b;
    const rt_keep_word *x = &p->word, *y = &q->word;
    if (x->step != y->step)
        return x->step < y->step ? 1 : -1;
    if (x->set != y->set)
        return x->set < y->set ? -1 : 1;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return p->keeper - q->keeper;
}

static void ask(rt_kept *k, int which)
{
    rt_keep_word answer;
    if (!rt_keep_call(&k->line[which], k->keepers, which))
        return; /* its machine is gone, or its supervisor */
    if (!rt_keep_ask(&k->line[which], &(rt_keep_word){.kind = RT_KEEP_LIST}, &answer) ||
        answer.bytes < 0 || answer.bytes % (int64_t)sizeof(rt_keep_word)) {
        rt_keep_close(&k->line[which]);
        return;
    }
    const int64_t n = answer.bytes / (int64_t)sizeof(rt_keep_word);
    rt_keep_word *all = rt_alloc((size_t)n + 1, sizeof *all);
    if (rt_keep_hear(&k->line[which], all, answer.bytes)) {
        k->piece = rt_grow(k->piece, (size_t)(k->n + n) + 1, sizeof *k->piece);
        for (int64_t i = 0; i < n; i++)
            k->piece[k->n++] = (piece){all[i], which};
        k->damaged += answer.at;
    } else {
        rt_keep_close(&k->line[which]);
    }
    free(all);
}

/* ---- one set --------------------------------------------------------------------------------- */

/* A piece from one of the keepers that have it, into k->data; i: the first of its copies. False: no
 * copy is good. */
static bool fetch(rt_kept *k, int64_t i)
{
    const rt_keep_word *w = &k->piece[i].word;
    k->bytes = 0;
    for (int64_t c = i; c < k->n && !memcmp(&k->piece[c].word, w, sizeof *w); c++) {
        rt_keep_line *l = &k->line[k->piece[c].keeper];
        rt_keep_word asks = *w, answer;
        asks.kind = RT_KEEP_GET;
        if (l->fd < 0)
            continue;
        if (!rt_keep_ask(l, &asks, &answer) ||
            (answer.bytes && (answer.bytes != w->bytes || !rt_keep_hear(l, k->data, w->bytes)))) {
            rt_keep_close(l);
            continue;
        }
        if (!answer.error && answer.bytes &&
            rt_crc32c_part(k->data, (size_t)w->bytes, w->behind) == w->part) {
            k->file = (int)w->file;
            k->at = w->at;
            k->bytes = w->bytes;
            return true;
        }
    }
    return false;
}

/* NULL, or what is wrong with the file in the pieces [begin, end) (the caller frees it). */
static char *check_file(const rt_kept *k, int file, int64_t begin, int64_t end,
                        const rt_file_seal *seal)
{
    const char *name = file ? RT_SLOTS_FILE : rt_checkpoint_tensors(k->manifest.program);
    int64_t at = 0, there = 0;
    for (int64_t i = begin; i < end; i++) {
        const rt_keep_word *w = &k->piece[i].word;
        if (i > begin && w->at == k->piece[i - 1].word.at) {
            if (memcmp(w, &k->piece[i - 1].word, sizeof *w))
                return rt_printf("two copies of a part of %s differ", name);
            continue;
        }
        there += w->bytes;
        at += w->at == at ? w->bytes : 0;
    }
    if (at != seal->bytes || there != at)
        return rt_printf("of %s %" PRId64 " of %" PRId64 " bytes are there", name, there,
                         seal->bytes);
    return NULL;
}

static char *check_set(rt_kept *k, int64_t begin, int64_t end)
{
    int64_t from[RT_KEEP_STATE + 2] = {begin};
    for (int f = 0; f <= RT_KEEP_STATE; f++) {
        from[f + 1] = from[f];
        while (from[f + 1] < end && k->piece[from[f + 1]].word.file == (uint32_t)f)
            from[f + 1]++;
    }
    if (from[RT_KEEP_STATE] == from[RT_KEEP_STATE + 1])
        return rt_printf("it was not whole when the run ended");
    if (!fetch(k, from[RT_KEEP_STATE]))
        return rt_printf("its state is damaged");
    k->data[k->bytes] = 0;
    k->manifest = (rt_manifest){.program = k->manifest.program};
    char *why = rt_manifest_parse("its state", k->data, (size_t)k->bytes, &k->manifest);
    const rt_file_seal *seal[RT_TENSOR_FILES] = {&k->manifest.model, &k->manifest.slots};
    if (!why && k->manifest.fingerprint != k->manifest.program->fingerprint)
        why = rt_printf("it is of another model or optimizer");
    for (int f = 0; !why && f < RT_TENSOR_FILES; f++) {
        why = check_file(k, f, from[f], from[f + 1], seal[f]);
        k->first[f] = from[f];
        k->end[f] = from[f + 1];
    }
    return why;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool choose(rt_kept *k, int64_t after, int64_t until)
{
    for (int64_t begin = 0, end; begin < k->n; begin = end) {
        const rt_keep_word *w = &k->piece[begin].word;
        for (end = begin; end < k->n && k->piece[end].word.set == w->set;)
            end++;
        if (w->step <= after || w->step > until)
            continue;
        char *why = check_set(k, begin, end);
        if (!why) {
            k->set = w->set;
            return true;
        }
        rt_note("the in-memory checkpoint of step %" PRId64 " is passed over: %s%s", w->step, why,
                k->damaged ? "; some of what is in memory is damaged" : "");
        free(why);
    }
    return false;
}

rt_kept *rt_kept_find(const mg_run *r, int64_t after, int64_t until)
{
    if (!rt_keeps(r))
        return NULL;
    rt_kept *k = rt_alloc(1, sizeof *k);
    k->keepers = &r->pulse->keepers;
    k->manifest.program = r->program;
    k->data = rt_alloc(RT_KEEP_MOST + 1, 1);
    for (int i = 0; i < MG_RANKS_MAX; i++)
        k->line[i].fd = -1;
    for (int i = 0; i < k->keepers->n; i++)
        ask(k, i);
    if (k->n)
        qsort(k->piece, (size_t)k->n, sizeof *k->piece, compare);
    if (choose(k, after, until))
        return k;
    rt_kept_close(k);
    return NULL;
}

const rt_state *rt_kept_state(const rt_kept *k)
{
    return &k->manifest.state;
}

uint64_t rt_kept_set(const rt_kept *k)
{
    return k->set;
}

int64_t rt_kept_file(const rt_kept *k, int file)
{
    return file ? k->manifest.slots.bytes : k->manifest.model.bytes;
}

/* The first copy of the piece with a byte. */
static int64_t piece_at(const rt_kept *k, int file, int64_t at)
{
    int64_t low = k->first[file], high = k->end[file];
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (k->piece[middle].word.at <= at)
            low = middle;
        else
            high = middle;
    }
    while (low > k->first[file] && k->piece[low - 1].word.at == k->piece[low].word.at)
        low--;
    return low;
}

void rt_kept_read(rt_kept *k, int file, int64_t at, int64_t bytes, void *to)
{
    for (char *out = to; bytes;) {
        const bool here = k->bytes && k->file == file && at >= k->at && at < k->at + k->bytes;
        if (!here && !fetch(k, piece_at(k, file, at)))
            rt_die(RT_IO,
                   "byte %" PRId64 " of %s was in the memory of a supervisor that has it no more",
                   at, file ? RT_SLOTS_FILE : RT_MODEL_FILE);
        int64_t n = k->at + k->bytes - at;
        n = n < bytes ? n : bytes;
        memcpy(out, k->data + (at - k->at), (size_t)n);
        out += n;
        at += n;
        bytes -= n;
    }
}

void rt_kept_close(rt_kept *k)
{
    if (!k)
        return;
    for (int i = 0; i < MG_RANKS_MAX; i++)
        rt_keep_close(&k->line[i]);
    free(k->piece);
    free(k->data);
    free(k);
}
