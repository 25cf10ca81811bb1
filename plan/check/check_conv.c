/* check_conv.c - do the numbers of a convolution's descriptor describe the instruction?
 *
 * Each dim of the result and each that is summed is one of the descriptor's, in the group in which
 * it has to be, and steps through x, w, y and the axes as the instruction says. Dims of one element
 * may be left out. */
#include "plan/check/check.h"

#include "runtime/conv.h"

/* A dim as the instruction has it. */
typedef struct Step {
    int64_t size, x, w, y;
    int32_t by[MG_CONV_AXES];
    int group; /* 0 batch, 1 rows, 2 columns, 3 terms; -1: none */
} Step;

static int64_t stride_of(const Operand *o, Name d)
{
    const int at = type_find(&o->type, d);
    return at < 0 ? 0 : o->stride[at];
}

static Step step_of(const Action *a, const Attrs *at, Dim d)
{
    const Operand *x = &a->operand[0], *w = &a->operand[1], *y = &a->operand[2];
    bool read = false, counts = false;
    Step s = {.size = d.size, .w = stride_of(w, d.name), .y = stride_of(y, d.name)};
    for (int k = 0; k < at->taps->n; k++) {
        const Tap *t = &at->taps->tap[k];
        read |= t->dim.name == d.name;
        for (int n = 0; n < t->n; n++)
            if (t->over[n].name == d.name) {
                s.by[k] = t->by[n];
                counts = true;
            }
    }
    if (!read)
        s.x = stride_of(x, d.name);
    const bool in_x = counts || (!read && type_find(&x->type, d.name) >= 0);
    const bool in_w = type_find(&w->type, d.name) >= 0, in_y = type_find(&y->type, d.name) >= 0;
    s.group = !in_y ? in_x && in_w ? 3 : -1 : in_x && in_w ? counts ? -1 : 0 : in_x ? 1 : 2;
    return s;
}

/* Marks the descriptor's dim that is this one. */
static bool find_step(const mg_conv_desc *d, const Step *s, bool *used)
{
    const int first[] = {0, d->batch, d->batch + d->rows, d->batch + d->rows + d->columns};
    const int count[] = {d->batch, d->rows, d->columns, d->terms};
    for (int i = 0; s->group >= 0 && i < count[s->group]; i++) {
        const int k = first[s->group] + i;
        bool same = !used[k] && d->size[k] == s->size && d->x[k] == s->x && d->w[k] == s->w &&
                    d->y[k] == s->y;
        for (int n = 0; n < d->axes && same; n++)
            same = d->axis[n].by[k] == s->by[n];
        if (same)
            return used[k] = true;
    }
    return s->size == 1 && s->group >= 0;
}

static const char *axes_wrong(const Action *a, const Attrs *at)
{
    const mg_conv_desc *d = &a->conv;
    if (d->axes != at->taps->n)
        return "the axes";
    for (int k = 0; k < d->axes; k++) {
        const Tap *t = &at->taps->tap[k];
        if (d->axis[k].size != t->dim.size || d->axis[k].at != t->at ||
            d->axis[k].every != t->every ||
            d->axis[k].stride != stride_of(&a->operand[0], t->dim.name))
            return "an axis";
    }
    return NULL;
}

const char *conv_wrong(const Action *a, const Ins *i)
{
    const mg_conv_desc *d = &a->conv;
    const Operand *y = &a->operand[2];
    const int n = d->batch + d->rows + d->columns + d->terms;
    bool used[MG_CONV_DIMS] = {false};
    if (d->dtype != check_dtype(a->operand[0].type.dtype) || d->out != check_dtype(y->type.dtype) ||
        a->operand[1].type.dtype != a->operand[0].type.dtype)
        return "the type of its numbers";
    if (d->accumulate != (ins_added(i) >= 0))
        return "what it adds to";
    if (d->batch < 0 || d->rows < 0 || d->columns < 0 || d->terms < 1 || n > MG_CONV_DIMS ||
        d->axes > MG_CONV_AXES)
        return "how many dims there are";
    const char *wrong = axes_wrong(a, &i->attrs);
    for (int k = 0; k < y->type.rank && !wrong; k++) {
        const Step s = step_of(a, &i->attrs, y->type.dims[k]);
        if (!find_step(d, &s, used))
            wrong = "a dim of the result";
    }
    for (int k = 0; k < i->attrs.over.n && !wrong; k++) {
        const Step s = step_of(a, &i->attrs, i->attrs.over.dim[k]);
        if (!find_step(d, &s, used))
            wrong = "a dim that is summed";
    }
    if (a->noperands > 3 && !wrong && type_bytes(&a->operand[3].type) < mg_conv_work(d))
        return "too little work space";
    int64_t run = 1;
    for (int k = n - 1; k >= 0 && !wrong; k--) {
        if (!used[k] && d->size[k] != 1)
            return "a dim that the instruction has not";
        if (k >= n - d->terms || k < d->batch + d->rows)
            continue;
        if (d->size[k] > 1 && d->y[k] != run)
            return "columns that are apart";
        run *= d->size[k];
    }
    return wrong;
}
