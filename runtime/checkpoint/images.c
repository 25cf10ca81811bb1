/* images.c - checkpoints and initial values where rank 0 cannot reach all arenas. It reads and
 * writes external tensors element by element, in arenas. Where an arena is on another machine, or
 * in the memory of a GPU, it has an image of it: memory of its own at the same place, of which only
 * the tensor that is open takes any. Ranks that have the same part of a tensor have one image
 * together, which then goes to all of them. */
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/machine.h"

enum { PAGE = 4096 };

/* Does a rank that cannot be reached have a part? Of one of many layers or experts some have none.
 */
static bool is_there(const mg_run *r, const rt_external *x, int rank)
{
    return !rt_is_in_reach(r, rank) && rt_external_has(x, rank);
}

/* Do two ranks have the same part? */
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

/* Where it begins in an arena, and how far a rank's part of it goes there. */
static int64_t span(const rt_external *x, int64_t *offset)
{
    int64_t width = mg_dtype_bytes(x->form->tensor->dtype), elements = 1;
    for (int i = 0; i < x->form->ndims; i++)
        elements +=
            ((x->form->split ? x->form->part[i] : x->form->dim[i]) - 1) * x->form->stride[i];
    *offset = x->form->tensor->offset + x->offset * width;
    return elements * width;
}

/* Is it the lowest rank that has its part? That one is read. */
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
    int64_t begin = offset / PAGE * PAGE, end = (offset + bytes + PAGE - 1) / PAGE * PAGE;
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
    if (x->stands)
        forget(r, x);
}
