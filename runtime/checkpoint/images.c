/* images.c - checkpoints and initial values when rank 0 cannot reach all arenas. Rank 0 reads and
 * writes external tensors element by element, in arenas. In the place of an arena on another
 * machine, or in the memory of a GPU, rank 0 has an image of it: its own memory at the same
 * offsets. Only the tensor that is open occupies memory there, with all its parts. Ranks with the
 * same part of a tensor share one image, which is then sent to all of them.
 *
 * No other rank reaches what a rank has on another level of memory, nor is it in its own arena. Of
 * such a tensor rank 0 has images of all ranks' parts, its own among them, in memory that is there
 * while the tensor is open. */
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/machine.h"

/* True if it lies on another level of memory. */
static bool is_far(const rt_external *x)
{
    return MG_LEVEL(x->form->tensor->offset) != 0;
}

static bool is_in_reach(const mg_run *r, const rt_external *x, int rank)
{
    return rt_is_in_reach(r, rank) && !is_far(x);
}

/* True if the rank is out of reach and has a part of the tensor. Some ranks have no part of a layer
 * or an expert. */
static bool is_there(const mg_run *r, const rt_external *x, int rank)
{
    return !is_in_reach(r, x, rank) && rt_external_has(x, rank);
}

/* True if two ranks have the same part. */
static bool alike(const rt_external *x, int a, int b)
{
    if (!rt_external_has(x, a) || !rt_external_has(x, b))
        return false;
    for (int i = 0; x->form->split && i < x->form->ndims; i++)
        if (rt_place_of(x->form->split, a, x->form->axes[i]) !=
            rt_place_of(x->form->split, b, x->form->axes[i]))
            return false;
    return true;
}

static void settle(const mg_run *r, rt_catalog *c)
{
    const struct rt_ranks *k = r->ranks;
    for (int i = 0; i < c->n; i++) {
        rt_external *x = &c->item[i];
        if (!k->wire && rt_arenas_are_shared && !is_far(x))
            continue; /* all arenas are in reach */
        x->stands = rt_alloc((size_t)k->n, sizeof *x->stands);
        for (int a = 0; a < k->n; a++) {
            int b = a;
            for (int other = 0; other < a && !is_in_reach(r, x, a) && b == a; other++)
                if (!is_in_reach(r, x, other) && alike(x, other, a))
                    b = other;
            x->stands[a] = (int16_t)b;
        }
    }
}

void rt_images_settle(mg_run *r)
{
    settle(r, &r->params);
    settle(r, &r->slots);
}

/* Bytes of a rank's part of the tensor in an arena, and its first byte in *offset. */
static int64_t span(const rt_external *x, int64_t *offset)
{
    *offset = x->form->tensor->offset + x->offset * mg_dtype_bytes(x->form->tensor->dtype);
    return rt_form_bytes(x->form);
}

/* The image of a rank's part. */
static char *image(const mg_run *r, const rt_external *x, int64_t offset, int rank)
{
    return is_far(x) ? r->ranks->far[x->part] + rank * x->form->apart : rt_image(r, offset, rank);
}

/* True if the rank is the lowest rank with its part: only that rank is read. */
static bool is_read(const rt_external *x, int rank)
{
    for (int other = 0; other < rank; other++)
        if (alike(x, other, rank))
            return false;
    return true;
}

static void fetch(mg_run *r, const rt_external *x)
{
    int64_t offset, bytes = span(x, &offset);
    for (int k = 0; k < r->ranks->n; k++)
        if (is_there(r, x, k) && is_read(x, k))
            rt_ranks_get(r, k, offset, image(r, x, offset, k), bytes);
}

static void spread(mg_run *r, const rt_external *x)
{
    int64_t offset, bytes = span(x, &offset);
    for (int k = 0; k < r->ranks->n; k++)
        if (is_there(r, x, k))
            rt_ranks_put(r, k, offset, image(r, x, offset, x->stands[k]), bytes);
}

static void forget(mg_run *r, const rt_external *x)
{
    int64_t offset, bytes = span(x, &offset);
    int64_t begin = offset / rt_page() * rt_page(), end = rt_whole_pages(offset + bytes);
    for (int k = 0; k < r->ranks->n; k++)
        if (is_there(r, x, k) && x->stands[k] == k)
            madvise(rt_image(r, begin, k), (size_t)(end - begin), MADV_DONTNEED);
}

static int64_t far_bytes(const mg_run *r, const rt_external *x)
{
    return r->ranks->n * x->form->apart;
}

static void open_far(mg_run *r, const rt_external *x)
{
    struct rt_ranks *k = r->ranks;
    const size_t bytes = (size_t)far_bytes(r, x);
    if (x->part >= k->nfar) {
        k->far = rt_grow(k->far, (size_t)x->part + 1, sizeof *k->far);
        k->nfar = x->part + 1;
    }
    k->far[x->part] = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (k->far[x->part] == MAP_FAILED)
        rt_die(RT_FAILED, "%zu bytes of %s, which is offloaded, could not be mapped", bytes,
               x->name);
}

char *rt_images_open(mg_run *r, const rt_external *x, bool read)
{
    int64_t offset;
    span(x, &offset);
    if (is_far(x))
        open_far(r, x);
    if (read && x->stands)
        fetch(r, x);
    return image(r, x, offset, 0);
}

void rt_images_close(mg_run *r, const rt_external *x, bool changed)
{
    if (changed && x->stands)
        spread(r, x);
    if (is_far(x))
        munmap(r->ranks->far[x->part], (size_t)far_bytes(r, x));
    for (int k = 0; x->stands && x->part == x->parts - 1 && k < x->parts; k++)
        if (!is_far(x - k))
            forget(r, x - k); /* parts are open together, and may share a page */
}
