/* settled.c - fields of decisions, from one layout to another, and as bytes; see settled.h. */
#include "decide/settled.h"

#include <stdlib.h>
#include <string.h>

#include "decide/frontier.h"

/* The elements of a list, in an arena (NULL: where they are). */
#define TAKE_LIST(a, to, from)                                                                     \
    do {                                                                                           \
        *(to) = *(from);                                                                           \
        if (a) {                                                                                   \
            (to)->cap = (to)->n;                                                                   \
            (to)->data = NEW_ARRAY(a, __typeof__(*(from)->data), (from)->n + 1);                   \
            if ((from)->n)                                                                         \
                memcpy((to)->data, (from)->data, (from)->n * sizeof *(from)->data);                \
        }                                                                                          \
    } while (0)

/* Fields of a decision go from one layout to another. */
typedef void Fields(Layout *to, const Layout *from, Arena *a);

static void of_stages(Layout *to, const Layout *from, Arena *a)
{
    TAKE_LIST(a, &to->pipeline.layers, &from->pipeline.layers);
    memcpy(to->pipeline.compared, from->pipeline.compared, sizeof to->pipeline.compared);
}

static void of_offload(Layout *to, const Layout *from, Arena *a)
{
    (void)a;
    memcpy(to->offload, from->offload, sizeof to->offload);
    to->offloads = from->offloads;
}

static void of_frontier(Layout *to, const Layout *from, Arena *a)
{
    (void)a;
    to->plan = from->plan;
}

static void of_once(Layout *to, const Layout *from, Arena *a)
{
    (void)a;
    to->once = from->once;
}

static void of_overlap(Layout *to, const Layout *from, Arena *a)
{
    to->overlap = from->overlap;
    to->one_line = from->one_line;
    to->bucket = from->bucket;
    to->send_flops = from->send_flops;
    TAKE_LIST(a, &to->ahead, &from->ahead);
    to->ahead_apart = from->ahead_apart;
}

static void of_optimizer(Layout *to, const Layout *from, Arena *a)
{
    (void)a;
    to->optimizer = from->optimizer;
}

static void of_logits(Layout *to, const Layout *from, Arena *a)
{
    (void)a;
    to->logits = from->logits;
}

static Fields *const fields[STEP_count] = {
    [STEP_ID_stages] = of_stages,     [STEP_ID_offload] = of_offload,
    [STEP_ID_frontier] = of_frontier, [STEP_ID_once] = of_once,
    [STEP_ID_overlap] = of_overlap,   [STEP_ID_optimizer] = of_optimizer,
    [STEP_ID_logits] = of_logits,
};

void settled_note(Settled *s, StepId row, const Module *m, Arena *a)
{
    if (!fields[row])
        return;
    fields[row](&s->as, &m->layout, a);
    s->rows |= 1u << row;
    if (row == STEP_ID_frontier)
        s->values = m->values.n;
}

bool settled_take(const Settled *s, StepId row, Module *m)
{
    const bool noted = s->rows >> row & 1;
    if (noted)
        fields[row](&m->layout, &s->as, NULL);
    return noted;
}

void settled_untold(Settled *s, const Module *m)
{
    if (m->layout.offloads == OFFLOADS_if_needed && s->as.offloads != OFFLOADS_if_needed)
        s->rows &= (1u << STEP_ID_offload) - 1;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void write_list(FILE *out, const void *list, size_t n, size_t each)
{
    if (n)
        fwrite(list, each, n, out); /* who closes `out` sees what went wrong */
}

void settled_write(FILE *out, const Settled *s)
{
    write_list(out, s, 1, sizeof *s);
    write_list(out, s->as.pipeline.layers.data, s->as.pipeline.layers.n, sizeof(int64_t));
    write_list(out, s->as.ahead.data, s->as.ahead.n, sizeof(Value));
    keep_write(out, s->as.plan, s->values);
}

/* So many bytes of those that are left, in a; NULL: there are not as many. */
static void *read_list(const char **at, const char *end, size_t n, size_t each, Arena *a)
{
    if (n > (size_t)(end - *at) / each)
        return NULL;
    void *list = arena_array(a, n + 1, each);
    if (n)
        memcpy(list, *at, n * each);
    *at += n * each;
    return list;
}

Settled *settled_read(const char *bytes, size_t n, Arena *a)
{
    const char *at = bytes, *end = bytes + n;
    Settled *s = read_list(&at, end, 1, sizeof *s, a);
    if (!s)
        return NULL;
    Layout *l = &s->as;
    l->pipeline.layers.data = read_list(&at, end, l->pipeline.layers.n, sizeof(int64_t), a);
    l->ahead.data = read_list(&at, end, l->ahead.n, sizeof(Value), a);
    if (!l->pipeline.layers.data || !l->ahead.data ||
        !keep_read(at, (size_t)(end - at), s->values, a, &l->plan))
        return NULL;
    l->pipeline.layers.cap = l->pipeline.layers.n;
    l->ahead.cap = l->ahead.n;
    return s;
}

Settled *settled_copy(const Settled *s, Arena *a)
{
    Settled *copy = NULL;
    char *bytes = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&bytes, &n);
    if (!out)
        return NULL;
    settled_write(out, s);
    if (!fclose(out))
        copy = settled_read(bytes, n, a);
    free(bytes);
    return copy;
}
