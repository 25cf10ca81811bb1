/* whole.c - tensors of files of which several tensors of the program are parts.
 *
 * A part has a range of one dim of its whole. In a file, whose elements are row-major, it is one
 * run of elements for each index of the dims before that one. */
#include "runtime/run.h"

#include <stdlib.h>
#include <string.h>

char **rt_whole_open(mg_run *r, const rt_external *x, bool read)
{
    char **stored = rt_alloc((size_t)x->parts, sizeof *stored);
    for (int k = 0; k < x->parts; k++)
        stored[k] = rt_stored_open(r, &x[k], read);
    return stored;
}

void rt_whole_close(mg_run *r, const rt_external *x, char **stored, bool changed)
{
    for (int k = 0; k < x->parts; k++)
        rt_stored_close(r, &x[k], changed);
    free(stored);
}

int64_t rt_whole_index(const rt_form *form, int64_t e)
{
    return form->from + e / form->run * form->every + e % form->run;
}

/* Calls get or put of a part for the elements that it has of [begin, begin + n) of its whole. */
static void move_part(const rt_external *x, char *stored, int64_t begin, int64_t n, char *dense,
                      bool get)
{
    const rt_form *f = x->form;
    const int64_t size = mg_dtype_bytes(f->tensor->dtype), end = begin + n;
    for (int64_t k = begin / f->every; k * f->every < end; k++) {
        int64_t first = k * f->every + f->from, last = first + f->run;
        int64_t from = first > begin ? first : begin, to = last < end ? last : end;
        char *at = dense + (from - begin) * size;
        if (from < to && get)
            rt_external_get(x, stored, k * f->run + from - first, to - from, at);
        else if (from < to)
            rt_external_put(x, stored, k * f->run + from - first, to - from, at);
    }
}

void rt_whole_get(const rt_external *x, char *const *stored, int64_t begin, int64_t n, void *out)
{
    if (x->form->elements != x->form->whole)
        memset(out, 0, (size_t)(n * mg_dtype_bytes(x->form->tensor->dtype)));
    for (int k = 0; k < x->parts; k++)
        move_part(&x[k], stored[k], begin, n, out, true);
}

void rt_whole_put(const rt_external *x, char *const *stored, int64_t begin, int64_t n,
                  const void *in)
{
    for (int k = 0; k < x->parts; k++)
        move_part(&x[k], stored[k], begin, n, (char *)in, false);
}

char *rt_whole_where(const rt_external *x)
{
    char *text = rt_printf("%s", x->form->tensor->where);
    for (int k = 1; k < x->parts; k++) {
        char *longer = rt_printf("%s, %s", text, x[k].form->tensor->where);
        free(text);
        text = longer;
    }
    return text;
}
