/* snapshot.c - the copy of a run's state that a checkpoint is written from.
 *
 * It has the state at the arena's own offsets, and what is offloaded behind that, so that what
 * reads tensors of arenas reads tensors of it. The ranks of a machine share the memory: each has
 * the parts that it is the first to have, and those that have the same part each copy a piece of it
 * there. Memory where nothing is copied to is reserved and never touched. On a GPU the snapshot is
 * memory of the host. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/checkpoint/saving.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/machine.h"

enum { UNIT = 1 << 20 }; /* bytes that a thread copies at once */

static const rt_catalog *tensors_of(const mg_run *r, int file)
{
    return file ? &r->slots : &r->saved;
}

/* ---- the list -------------------------------------------------------------------------------- */

static void add(void *ctx, int64_t offset, int64_t bytes, int to)
{
    rt_saving *s = ctx;
    if (s->ncopy == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->copy = rt_grow(s->copy, (size_t)s->cap, sizeof *s->copy);
    }
    s->copy[s->ncopy++] = (rt_copy){offset, bytes, to};
}

static int by_place(const void *a, const void *b)
{
    const rt_copy *x = a, *y = b;
    const int to = (x->to > y->to) - (x->to < y->to);
    return to ? to : (x->offset > y->offset) - (x->offset < y->offset);
}

/* Joins neighbours. */
static void join(rt_saving *s)
{
    int64_t n = 0;
    if (s->ncopy)
        qsort(s->copy, (size_t)s->ncopy, sizeof *s->copy, by_place);
    for (int64_t i = 0; i < s->ncopy; i++) {
        rt_copy *last = n ? &s->copy[n - 1] : NULL;
        if (last && last->to == s->copy[i].to && last->offset + last->bytes == s->copy[i].offset)
            last->bytes += s->copy[i].bytes;
        else
            s->copy[n++] = s->copy[i];
    }
    s->ncopy = n;
}

/* Cuts the list into pieces for threads; what is offloaded is copied as a whole. */
static void cut(rt_saving *s)
{
    rt_copy *whole = s->copy;
    const int64_t n = s->ncopy;
    s->copy = NULL;
    s->ncopy = s->cap = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t unit = MG_LEVEL(whole[i].offset) ? whole[i].bytes : UNIT;
        for (int64_t at = 0; at < whole[i].bytes; at += unit)
            add(s, whole[i].offset + at, whole[i].bytes - at < unit ? whole[i].bytes - at : unit,
                whole[i].to);
    }
    free(whole);
}

/* The ends of what is saved, by level. */
static void find_ends(const rt_catalog *c, int64_t end[MG_LEVELS])
{
    for (int i = 0; i < c->n; i++) {
        const rt_external *x = &c->item[i];
        const int64_t offset = x->form->tensor->offset;
        const int64_t last = offset - MG_FAR(MG_LEVEL(offset), 0) +
                             x->offset * mg_dtype_bytes(x->form->tensor->dtype) +
                             rt_form_bytes(x->form);
        if (last > end[MG_LEVEL(offset)])
            end[MG_LEVEL(offset)] = last;
    }
}

void rt_snapshot_plan(mg_run *r, rt_saving *s)
{
    const int16_t one = 0;
    const struct rt_ranks *k = r->ranks;
    int64_t pages = 0, end[MG_LEVELS] = {0};
    s->places = (rt_places){r->program, r->rank, k ? k->n : 1, k ? k->host : &one, 0, {0}};
    for (int f = 0; f < RT_TENSOR_FILES; f++)
        find_ends(tensors_of(r, f), end);
    for (int level = 0; level < MG_LEVELS; level++) {
        s->places.base[level] = s->places.apart;
        s->places.apart += rt_whole_pages(end[level]);
    }
    for (int f = 0; f < RT_TENSOR_FILES; f++) {
        size_t header;
        free(rt_tensors_header(tensors_of(r, f), NULL, &header));
        s->parts[f] = rt_parts_new(&s->places, tensors_of(r, f), (int64_t)header);
        rt_parts_copies(s->parts[f], add, s);
        s->memory += rt_parts_memory(s->parts[f]);
    }
    join(s);
    for (int64_t i = 0; i < s->ncopy; i++) {
        s->copied += s->copy[i].bytes;
        const int64_t at = rt_places_at(&s->places, s->copy[i].offset);
        pages += rt_whole_pages(at + s->copy[i].bytes) - at / rt_page() * rt_page();
    }
    s->places.host = NULL; /* parts have their own */
    if (rt_arenas_are_shared)
        cut(s);
    s->memory += pages + RT_PIECE + s->cap * (int64_t)sizeof *s->copy;
}

/* ---- the memory and the copy ----------------------------------------------------------------- */

static char *place_of(const rt_saving *s, const rt_copy *c)
{
    return s->snapshot + c->to * s->places.apart + rt_places_at(&s->places, c->offset);
}

static void copy_units(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const rt_saving *s = ctx;
    (void)scratch;
    for (int64_t i = begin; i < end; i++)
        if (!MG_LEVEL(s->copy[i].offset))
            memcpy(place_of(s, &s->copy[i]), s->run->arena + s->copy[i].offset,
                   (size_t)s->copy[i].bytes);
}

void rt_snapshot_copy(mg_run *r, rt_saving *s)
{
    if (rt_arenas_are_shared)
        rt_pool_run(r->pool, s->ncopy, 1, copy_units, s);
    for (int64_t i = 0; i < s->ncopy; i++)
        if (!rt_arenas_are_shared || MG_LEVEL(s->copy[i].offset))
            rt_get(r, s->copy[i].offset, place_of(s, &s->copy[i]), s->copy[i].bytes);
}

/* The first copy takes the pages, so that no save has to wait for the system. */
void rt_snapshot_map(mg_run *r, rt_saving *s)
{
    if (r->ranks) {
        s->snapshot = rt_ranks_memory(r, s->places.apart);
    } else if (s->places.apart) {
        s->reserved_bytes = s->places.apart;
        s->reserved = mmap(NULL, (size_t)s->places.apart, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (s->reserved == MAP_FAILED)
            rt_die(RT_FAILED, "%lld bytes for a copy of the state could not be mapped",
                   (long long)s->places.apart);
        madvise(s->reserved, (size_t)s->places.apart, MADV_HUGEPAGE);
        s->snapshot = s->reserved;
    }
    rt_snapshot_copy(r, s);
}

/* Memory that ranks share goes with their process. */
void rt_snapshot_free(rt_saving *s)
{
    for (int f = 0; f < RT_TENSOR_FILES; f++)
        rt_parts_free(s->parts[f]);
    if (s->reserved)
        munmap(s->reserved, (size_t)s->reserved_bytes);
    free(s->copy);
}
