/* check_bytes.c - P2: buffers in the arena, and whether the claimed peaks are the real ones. */
#include "plan/check/check_run.h"
#include "runtime/sizes.h"

#include <stdlib.h>
#include <string.h>

static const char *buffer_name(const Check *c, const Buffer *b)
{
    return name_str(c->m->names, b->name);
}

/* Bytes of a cache line; and what products of a GPU are made for. */
enum { HOST_WHOLE = 64, GPU_WHOLE = 256 };

/* Caches are alive while texts are generated, and no longer: a text begins with zeros. */
static bool is_cache(const Buffer *b)
{
    return b->persistent && b->owner == OWN_cache;
}

static bool always(const Buffer *b)
{
    return b->persistent && !is_cache(b);
}

/* Does a program go on from caches? What reads or leaves one does. */
static bool has_caches(const Program *p)
{
    bool any = false;
    for (size_t k = 0; p && k < p->fn->args.n; k++)
        any |= p->fn->args.data[k].role == ARG_cache;
    for (size_t k = 0; p && k < p->fn->results.n; k++)
        any |= p->fn->results.data[k].role == RES_cache;
    return any;
}

static void check_buffer(Check *c, const Buffer *b)
{
    const Plan *p = c->p;
    const int64_t whole = p->device->target == TARGET_cuda ? GPU_WHOLE : HOST_WHOLE;
    if (b->bytes < 0 || b->bytes % whole || b->offset < 0 || b->offset % whole)
        broken(c, 2, "buffer '%s' of %lld bytes at %lld is not in whole pieces of %lld",
               buffer_name(c, b), (long long)b->bytes, (long long)b->offset, (long long)whole);
    else if (b->level >= LEVEL_count ||
             (b->level && b->offset > p->level_bytes[b->level] - b->bytes))
        broken(c, 2, "buffer '%s' of %lld bytes at %lld is not inside the arena of its level",
               buffer_name(c, b), (long long)b->bytes, (long long)b->offset);
    else if (b->level)
        return;
    else if (b->offset > p->arena_bytes - b->bytes)
        broken(c, 2, "buffer '%s' of %lld bytes at %lld is not inside the arena of %lld",
               buffer_name(c, b), (long long)b->bytes, (long long)b->offset,
               (long long)p->arena_bytes);
    else if (always(b) ? b->offset + b->bytes > p->persistent_bytes
                       : b->bytes && b->offset < p->persistent_bytes)
        broken(c, 2, "buffer '%s' is on the wrong side of the persistent bytes", buffer_name(c, b));
}

static bool alive_together(const Check *c, const Buffer *a, const Buffer *b)
{
    if (!(a->at & b->at)) /* no rank has both */
        return false;
    if (always(a) || always(b) || a->level || (a->persistent && b->persistent))
        return true;
    if (a->persistent || b->persistent)
        return has_caches(c->p->programs[a->persistent ? b->program : a->program]);
    return a->program == b->program && a->first <= b->last && b->first <= a->last;
}

static int by_offset(const void *x, const void *y)
{
    const Buffer *a = *(const Buffer *const *)x, *b = *(const Buffer *const *)y;
    return buffer_address(a) < buffer_address(b) ? -1 : buffer_address(a) > buffer_address(b);
}

/* No two buffers that are alive together share a byte. */
static void check_disjoint(Check *c)
{
    size_t n = c->p->buffers.n;
    const Buffer **sorted = calloc(n + 1, sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &c->p->buffers.data[i];
    qsort(sorted, n, sizeof *sorted, by_offset);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1;
             k < n && buffer_address(sorted[k]) < buffer_address(sorted[i]) + sorted[i]->bytes; k++)
            if (sorted[k]->bytes && alive_together(c, sorted[i], sorted[k]))
                broken(c, 2, "buffers '%s' and '%s' share bytes and are alive together",
                       buffer_name(c, sorted[i]), buffer_name(c, sorted[k]));
    free(sorted);
}

/* The arenas of other levels end where the last of their buffers does, and a machine has room for
 * those of all its ranks, and on the host of GPUs for what goes to a disk. */
static void check_levels(Check *c)
{
    const Plan *p = c->p;
    const int64_t machine =
        p->device->machine_ranks ? p->device->machine_ranks : p->device->node_ranks;
    int64_t end[LEVEL_count] = {0}, ranks = 0;
    for (size_t i = 0; i < p->buffers.n; i++) {
        const Buffer *b = &p->buffers.data[i];
        if (b->level && b->offset + b->bytes > end[b->level])
            end[b->level] = b->offset + b->bytes;
    }
    while (ranks < machine && ranks < mesh_ranks(c->m))
        ranks++;
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++) {
        const int64_t has = p->device->level[l].memory;
        if (end[l] != p->level_bytes[l])
            broken(c, 2, "it claims %lld bytes of the %s and uses %lld",
                   (long long)p->level_bytes[l], level_names[l], (long long)end[l]);
        const bool through = l == LEVEL_host && p->device->target == TARGET_cuda && end[LEVEL_disk];
        const int64_t each = end[l] + (through ? MG_DISK_PINNED : 0);
        for (int64_t r = 0, left = has; r < ranks && each; r++, left -= each)
            if (left < each) {
                broken(c, 2, "the %s of a machine has %lld bytes, too few for %lld ranks",
                       level_names[l], (long long)has, (long long)ranks);
                break;
            }
    }
}

void check_bytes(Check *c)
{
    const Plan *p = c->p;
    if (p->tensor_buffer.n != c->m->tensors.n || p->persistent_bytes > p->arena_bytes)
        broken(c, 2, "not one buffer for each tensor");
    for (size_t i = 0; i < p->buffers.n; i++)
        check_buffer(c, &p->buffers.data[i]);
    for (size_t i = 0; i < p->tensor_buffer.n; i++) {
        int b = p->tensor_buffer.data[i];
        if (b < 0 || (size_t)b >= p->buffers.n || !p->buffers.data[b].persistent ||
            p->buffers.data[b].bytes < type_bytes(&c->m->tensors.data[i].type))
            broken(c, 2, "tensor '%s' has no buffer of its own",
                   name_str(c->m->names, c->m->tensors.data[i].name));
    }
    if (!c->broken)
        check_levels(c);
    if (!c->broken)
        check_disjoint(c);
}

/* The largest sum of live bytes, by the buffers' lifetimes, and the highest byte in use. */
void check_peak(Check *c)
{
    const Program *p = c->prog;
    int64_t top = 0, bound = 0;
    int64_t *change = calloc(p->actions.n + 2, sizeof *change);
    for (StageSet at = AT_FIRST; at <= AT_LAST; at <<= 1) {
        memset(change, 0, (p->actions.n + 2) * sizeof *change);
        for (size_t i = 0; i < c->p->buffers.n; i++) {
            const Buffer *b = &c->p->buffers.data[i];
            const bool kept = is_cache(b) && has_caches(p) && (b->at & at);
            if (!kept && (b->persistent || b->level || b->program != c->program ||
                          b->last < b->first || b->first < 0 || !(b->at & at)))
                continue;
            if (!kept && b->last >= (int)p->actions.n) {
                broken(c, 2, "buffer '%s' outlives its program", buffer_name(c, b));
                continue;
            }
            if (b->offset + b->bytes - c->p->persistent_bytes > top)
                top = b->offset + b->bytes - c->p->persistent_bytes;
            change[kept ? 0 : b->first] += b->bytes;
            change[kept ? p->actions.n : (size_t)b->last + 1] -= b->bytes;
        }
        int64_t live = 0;
        for (size_t i = 0; i < p->actions.n; i++) {
            live += change[i];
            bound = live > bound ? live : bound;
        }
    }
    free(change);
    c->at = -1;
    if (p->peak != top)
        broken(c, 2, "it claims a peak of %lld bytes and uses %lld", (long long)p->peak,
               (long long)top);
    if (p->live_bound != bound)
        broken(c, 2, "it claims that at most %lld bytes are alive, and %lld are",
               (long long)p->live_bound, (long long)bound);
}
