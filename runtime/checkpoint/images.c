/* images.c - checkpoints and initial values when rank 0 cannot reach all arenas. Rank 0 reads and
 * writes external tensors element by element, in arenas. In the place of an arena on another
 * machine, or in the memory of a GPU, rank 0 has an image of it: its own memory at the same
 * offsets. Only the tensor that is open occupies memory there, with all its parts. Ranks with the
 * same part of a tensor share one image, which is then sent to all of them. */
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/machine.h"

/* True if the rank is out of reach and has a part of the tensor. Some ranks have no part of a layer
 * or an expert. */
static bool is_there(const mg_run *r, const rt_external *x, int rank)
{
    return !rt_is_in_reach(r, rank) && rt_external_has(x, rank);
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
        x->stands = rt_alloc((size_t)k->n, sizeof *x->stands);
        for (int a = 0; a < k->n; a++) {
            int b = a;
            for (int other = 0; other < a && !rt_is_in_reach(r, a) && b == a; other++)
                if (!rt_is_in_reach(r, other) && alike(x, other, a))
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
    int64_t width = mg_dtype_bytes(x->form->tensor->dtype), elements = 1;
    for (int i = 0; i < x->form->ndims; i++)
        elements +=
            ((x->form->split ? x->form->part[i] : x->form->dim[i]) - 1) * x->form->stride[i];
    *offset = x->form->tensor->offset + x->offset * width;
    return elements * width;
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
            rt_ranks_get(r, k, offset, rt_image(r, offset, k), bytes);
}

static void spread(mg_run *r, const rt_external *x)
{
    int64_t offset, bytes = span(x, &offset);
    for (int k = 0; k < r->ranks->n; k++)
        if (is_there(r, x, k))
            rt_ranks_put(r, k, offset, rt_image(r, offset, x->stands[k]), bytes);
}

static void forget(mg_run *r, const rt_external *x)
{
    int64_t offset, bytes = span(x, &offset);
    int64_t begin = offset / rt_page() * rt_page(), end = rt_whole_pages(offset + bytes);
    for (int k = 0; k < r->ranks->n; k++)
        if (is_there(r, x, k) && x->stands[k] == k)
            madvise(rt_image(r, begin, k), (size_t)(end - begin), MADV_DONTNEED);
}

char *rt_images_open(mg_run *r, const rt_external *x, bool read)
{
    if (read && x->stands)
        fetch(r, x);
    return rt_image(r, x->form->tensor->offset + x->offset * mg_dtype_bytes(x->form->tensor->dtype),
                    0);
}

void rt_images_close(mg_run *r, const rt_external *x, bool changed)
{
    if (changed && x->stands)
        spread(r, x);
    for (int k = 0; x->stands && x->part == x->parts - 1 && k < x->parts; k++)
        forget(r, x - k); /* parts are open together, and may share a page */
}
