/* catalog.c - maps the tensors of a program to the tensors of a checkpoint, and back.
 *
 * mg_tensor says how a stored tensor (stacked over layers and experts, its dims in the order that
 * suits the kernels, padded) relates to external tensors (one for each layer, in the order and
 * shape that other programs expect). This file turns that into a list of external tensors with
 * strides, so that any range of external elements can be read or written. `order` holds indices of
 * stored dims. */
#include "runtime/net/ranks.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/sizes.h"

#include <stdlib.h>
#include <string.h>

/* NULL, or the fault of a tensor of layers that are cut into stages. */
static const char *stages_contradict(const mg_program *p, const mg_tensor *t)
{
    const mg_stages *s = &p->stages;
    const int stages = s->chunks * rt_ranks_of(p, s->axis);
    int64_t all = 0;
    for (int i = 0; i < stages; i++) {
        if (s->layers[i] < 0 || s->layers[i] > s->max_layers)
            return "a stage without room for its layers";
        all += s->layers[i];
    }
    if (!t->stacked || t->axes[0] != s->axis)
        return "stages on a dim that is not a dim of layers";
    return t->size[0] == (int64_t)s->chunks * s->max_layers && t->valid[0] == all
               ? NULL
               : "another number of layers than its stages";
}

static bool is_part(const mg_tensor *t)
{
    int64_t size = 1;
    int from = 0;
    for (int i = 0; i < t->part_dim; i++)
        from += t->merge[i];
    for (int i = 0; t->part_dim < t->external_rank && i < t->merge[t->part_dim]; i++)
        size *= t->valid[t->order[from + i]];
    return t->part_dim < t->external_rank && t->part_at >= 0 && t->part_at <= t->part_of - size;
}

/* NULL, or the fault of a tensor. */
static const char *contradiction(const mg_program *p, const mg_tensor *t)
{
    unsigned seen = 0;
    int places = t->rank - t->stacked, merged = 0;
    if (t->rank > MG_RANK_MAX || t->stacked > t->rank || t->external_rank > MG_RANK_MAX)
        return "a rank over MG_RANK_MAX";
    if (t->role == MG_ROUNDED && (!p->half || t->dtype != p->half))
        return "another dtype than the program's halves";
    const bool state8 =
        t->role == MG_STATE && (t->dtype == MG_DYNAMIC8 || t->dtype == MG_UDYNAMIC8);
    const bool base = t->role == MG_PARAM && (t->coded == MG_BASE_CODES    ? t->dtype == MG_U8
                                              : t->coded == MG_BASE_BYTES  ? t->dtype == MG_U8
                                              : t->coded == MG_BASE_ABSMAX ? t->dtype == MG_DYNAMIC8
                                                                           : false);
    if (t->role != MG_ROUNDED && t->dtype != MG_F32 && t->dtype != MG_F64 && t->dtype != MG_BF16 &&
        !state8 && !base)
        return "a dtype other than f32, f64, bf16 and, of state and of codes, those of 8 bits";
    for (int i = 0; i < t->rank; i++)
        if (t->size[i] < 1 || t->valid[i] < 1 ||
            t->valid[i] > t->size[i] * rt_ranks_of(p, t->axes[i]))
            return "a size that is not 1 <= valid <= size";
    for (int i = 0; i < places; i++) {
        if (t->order[i] < t->stacked || t->order[i] >= t->rank || (seen >> t->order[i] & 1))
            return "an order that is not a permutation of the dims after the stacked ones";
        seen |= 1u << t->order[i];
    }
    for (int i = 0; i < t->external_rank; i++)
        merged += t->merge[i];
    if (merged != places)
        return "merges that do not sum to the number of dims";
    if (t->part_of && !is_part(t))
        return "a part that does not lie in its whole";
    uint32_t split = 0;
    for (int i = 0; i < t->stacked; i++) {
        if (split & t->axes[i])
            return "two dims in its name that are split on one axis";
        split |= t->axes[i];
    }
    if (mg_is_staged(&p->stages, t, 0)) {
        const char *wrong = stages_contradict(p, t);
        if (wrong)
            return wrong;
    }
    const bool middle = rt_ranks_of(p, p->stages.axis) > 2;
    if (p->stages.axis && !(t->at & (middle ? MG_AT_ALL : MG_AT_FIRST | MG_AT_LAST)))
        return "no rank that has it";
    int holes = 0;
    for (const char *s = t->name; *s; s++)
        holes += *s == '{';
    if (holes != t->stacked)
        return "a name without one {} a stacked dim";
    for (const char *s = t->begins ? t->begins : ""; *s; s++)
        holes -= *s == '{';
    return !t->begins || !holes ? NULL : "a beginning without one {} a stacked dim";
}

/* The index that {} or {3+2i} at *s stands for; moves *s behind it. */
static long long number_at(const char **s, int64_t index)
{
    long long first = 0, step = 1;
    if ((*s)[1] != '}')
        sscanf(*s, "{%lld+%lldi", &first, &step);
    *s += strcspn(*s, "}") + (strchr(*s, '}') != NULL);
    return first + index * step;
}

/* The external name by a pattern: "exp_avg.model.layers.3.weight". */
static char *name_of(const char *slot, const char *pattern, const int64_t *index)
{
    char *name = NULL;
    size_t size;
    FILE *f = open_memstream(&name, &size);
    if (!f)
        rt_die(RT_FAILED, "no memory for a name");
    fprintf(f, "%s%s", slot, *slot ? "." : "");
    for (const char *s = pattern; *s;)
        if (*s == '{')
            fprintf(f, "%lld", number_at(&s, *index++));
        else
            putc(*s++, f);
    if (fclose(f) || !name)
        rt_die(RT_FAILED, "no memory for a name");
    char *exact = rt_printf("%s", name); /* without the spare room of the stream's buffer */
    free(name);
    return exact;
}

/* Returns an index of dim i of the whole tensor as an index in one part, and in *place the place of
 * the ranks with that part along the dim's axes. */
static int64_t index_in_part(const mg_program *p, const rt_form *x, int i, int64_t index,
                             int *place)
{
    int64_t size = x->part[i] * rt_ranks_of(p, x->axes[i]);
    *place = 0;
    for (int a = 0; a < p->naxes; a++) {
        int64_t n = p->axes[a].size, half = size / n / 2;
        if (!(x->axes[i] >> a & 1))
            continue;
        size /= n;
        if (x->zigzag[i] >> a & 1) {
            int64_t piece = index / half;
            *place = *place * (int)n + (int)(piece < n ? piece : 2 * n - 1 - piece);
            index = index % half + (piece < n ? 0 : half);
        } else {
            *place = *place * (int)n + (int)(index / size);
            index %= size;
        }
    }
    return index;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

/* Elements of dim i: each piece begins at a multiple of this, in the whole tensor and on its
 * rank. */
static int64_t unit_of(const mg_program *p, const rt_form *x, int i)
{
    int64_t size = x->part[i] * rt_ranks_of(p, x->axes[i]), unit = size;
    for (int a = 0; a < p->naxes; a++)
        if (x->axes[i] >> a & 1) {
            size /= p->axes[a].size;
            unit = common_divisor(unit, x->zigzag[i] >> a & 1 ? size / 2 : size);
        }
    return unit;
}

/* The coordinate on axis i of a rank at `place` along the set `axes`. */
static int digit_of(const mg_program *p, uint32_t axes, int place, int i)
{
    return place / rt_ranks_of(p, axes & ~(((uint32_t)2 << i) - 1)) % (int)p->axes[i].size;
}

/* Combines a place along `on` and a place along `axes` into a place along both. */
static int place_on(const mg_program *p, uint32_t on, int place, uint32_t axes, int place_of_axes)
{
    int both = 0;
    for (int i = 0; i < p->naxes; i++)
        if ((axes | on) >> i & 1)
            both =
                both * (int)p->axes[i].size +
                (axes >> i & 1 ? digit_of(p, axes, place_of_axes, i) : digit_of(p, on, place, i));
    return both;
}

/* Merges neighbouring dims that are contiguous in memory: longer runs, fewer carries. */
static void coalesce(rt_form *x)
{
    int n = 0;
    for (int i = 0; i < x->ndims && !x->split; i++) {
        if (n && x->stride[n - 1] == x->stride[i] * x->dim[i]) {
            x->dim[n - 1] *= x->dim[i];
            x->stride[n - 1] = x->stride[i];
        } else {
            x->dim[n] = x->dim[i];
            x->stride[n++] = x->stride[i];
        }
    }
    if (!x->ndims) { /* a scalar */
        x->dim[n] = x->part[n] = x->unit[n] = 1;
        x->stride[n++] = 1;
    }
    if (n)
        x->ndims = n;
}

static void strides_of(const mg_tensor *t, int64_t stride[MG_RANK_MAX])
{
    int64_t behind = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        stride[i] = behind;
        behind *= t->size[i];
    }
}

/* The places of a part's elements in its whole, and the shape of that. */
static void place_part(rt_form *x)
{
    const mg_tensor *t = x->tensor;
    int64_t behind = 1;
    x->run = x->every = x->whole = x->elements;
    if (!t->part_of)
        return;
    for (int i = t->part_dim + 1; i < x->rank; i++)
        behind *= x->shape[i];
    x->run = x->shape[t->part_dim] * behind;
    x->from = t->part_at * behind;
    x->every = t->part_of * behind;
    x->whole = x->elements / x->run * x->every;
    x->shape[t->part_dim] = t->part_of;
}

int64_t rt_form_bytes(const rt_form *x)
{
    int64_t elements = 1;
    for (int i = 0; i < x->ndims; i++)
        elements += ((x->split ? x->part[i] : x->dim[i]) - 1) * x->stride[i];
    return elements * mg_dtype_bytes(x->tensor->dtype);
}

static rt_form form_of(const mg_program *p, const mg_tensor *t)
{
    int64_t stride[MG_RANK_MAX];
    rt_form x = {.tensor = t, .rank = t->external_rank, .elements = 1};
    x.copies = rt_ranks_of(p, RT_ALL_AXES);
    x.apart = x.copies > 1 ? rt_arena_stride(p) : 0;
    strides_of(t, stride);
    for (int i = 0; i < t->stacked; i++)
        x.on |= t->axes[i];
    if (x.on || (p->stages.axis && t->at != MG_AT_ALL))
        x.split = p;
    x.ndims = t->rank - t->stacked;
    for (int i = 0; i < x.ndims; i++) {
        x.dim[i] = t->valid[t->order[i]];
        x.stride[i] = stride[t->order[i]];
        x.part[i] = t->size[t->order[i]];
        x.axes[i] = t->axes[t->order[i]];
        x.zigzag[i] = t->zigzag[t->order[i]];
        x.unit[i] = unit_of(p, &x, i);
        x.split = x.axes[i] ? p : x.split;
        x.elements *= x.dim[i];
    }
    for (int i = 0, k = 0; i < x.rank; i++) {
        x.shape[i] = 1;
        for (int n = 0; n < t->merge[i]; n++)
            x.shape[i] *= x.dim[k++];
    }
    place_part(&x);
    coalesce(&x);
    if (x.copies > 1 && MG_LEVEL(t->offset)) /* images.c has its parts side by side */
        x.apart = rt_whole_pages(rt_form_bytes(&x));
    return x;
}

static rt_external describe(const mg_program *p, const rt_form *form, const int64_t *index)
{
    const mg_tensor *t = form->tensor;
    int64_t stride[MG_RANK_MAX];
    rt_external x = {.form = form};
    uint32_t on = 0;
    strides_of(t, stride);
    for (int i = 0; i < t->stacked; i++) {
        mg_layer l = {.place = (int)(index[i] / t->size[i]), .at = index[i] % t->size[i]};
        if (mg_is_staged(&p->stages, t, i))
            l = mg_layer_of(&p->stages, rt_ranks_of(p, p->stages.axis), index[i]);
        x.offset += l.at * stride[i];
        if (t->axes[i])
            x.place = place_on(p, on, x.place, t->axes[i], l.place);
        on |= t->axes[i];
    }
    x.name = name_of(t->slot, t->name, index);
    x.begins = t->begins ? name_of("", t->begins, index) : NULL;
    return x;
}

/* Adds the memory of the entry in this catalog, and at most in the header of a file: twice its
 * struct, because the list grows by doubling, and its text. */
static void count_memory(rt_catalog *c, const rt_external *x)
{
    enum { CHUNK = 32, NUMBER = 21, KEYS = 64 }; /* of the heap; digits; text besides the name */
    const int64_t name = (int64_t)strlen(x->name);
    const int64_t text = name + KEYS + NUMBER * (x->form->rank + 2);
    c->memory += (int64_t)sizeof *x + name + CHUNK;
    c->memory += x->begins ? (int64_t)strlen(x->begins) + CHUNK : 0;
    c->entries += 2 * (int64_t)sizeof(rt_st_tensor) + name + CHUNK + 2 * text;
}

static void add(rt_catalog *c, const mg_program *p, const rt_form *form)
{
    const mg_tensor *t = form->tensor;
    int64_t index[MG_RANK_MAX] = {0}, count = 1;
    for (int i = 0; i < t->stacked; i++)
        count *= t->valid[i];
    c->item = rt_grow(c->item, (size_t)(c->n + count), sizeof *c->item);
    for (int64_t k = 0; k < count; k++) {
        int64_t rest = k;
        for (int i = t->stacked - 1; i >= 0; i--) {
            index[i] = rest % t->valid[i];
            rest /= t->valid[i];
        }
        rt_external x = describe(p, form, index);
        c->item[c->n++] = x;
        count_memory(c, &x);
    }
}

static int by_name(const void *a, const void *b)
{
    const rt_external *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->form->from > y->form->from) - (x->form->from < y->form->from);
}

/* True if y is the next part of the tensor that x is a part of. */
static bool follows(const rt_external *x, const rt_external *y)
{
    const mg_tensor *t = x->form->tensor, *u = y->form->tensor;
    return t->part_of && u->part_of && t->part_dim == u->part_dim && t->dtype == u->dtype &&
           x->form->rank == y->form->rank && x->form->from + x->form->run <= y->form->from &&
           memcmp(x->form->shape, y->form->shape, sizeof x->form->shape) == 0;
}

/* Numbers the parts of each tensor of a file, which lie side by side. */
static void join_parts(rt_catalog *c)
{
    for (int i = 0, n; i < c->n; i += n) {
        rt_external *x = &c->item[i];
        for (n = 1; i + n < c->n && strcmp(x->name, x[n].name) == 0; n++)
            if (!follows(&x[n - 1], &x[n]))
                rt_die(RT_MISFIT, "two tensors are called %s (%s and %s)", x->name,
                       x[n - 1].form->tensor->where, x[n].form->tensor->where);
        for (int k = 0; k < n; k++) {
            x[k].part = k;
            x[k].parts = n;
        }
        c->bytes += x->form->whole * mg_dtype_bytes(x->form->tensor->dtype);
    }
}

rt_catalog rt_catalog_new(const mg_program *p, mg_role role)
{
    rt_catalog c = {.form = rt_alloc((size_t)p->ntensors, sizeof *c.form)};
    int forms = 0;
    for (int i = 0; i < p->ntensors; i++) {
        const mg_tensor *t = &p->tensors[i];
        const char *wrong = contradiction(p, t);
        if (wrong)
            rt_die(RT_MISFIT, "%s: tensor %s has %s: this program was not made by its compiler",
                   t->where, t->name, wrong);
        if (t->role == role) {
            c.form[forms] = form_of(p, t);
            add(&c, p, &c.form[forms++]);
        }
    }
    c.memory += p->ntensors * (int64_t)sizeof *c.form;
    if (c.n)
        qsort(c.item, (size_t)c.n, sizeof *c.item, by_name);
    join_parts(&c);
    return c;
}

void rt_catalog_free(rt_catalog *c)
{
    for (int i = 0; i < c->n; i++) {
        free(c->item[i].name);
        free(c->item[i].begins);
        free(c->item[i].stands);
    }
    free(c->item);
    free(c->form);
    *c = (rt_catalog){0};
}

int rt_catalog_find(const rt_catalog *c, const char *name)
{
    int low = 0, high = c->n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (strcmp(c->item[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->n && !strcmp(c->item[low].name, name) ? low : -1;
}

/* Of a size that the compiler knows: each copy is an instruction. */
static inline void move_each(char *stored, int64_t stride, char *dense, int64_t n, size_t size,
                             bool get)
{
    const int64_t step = (int64_t)size;
    for (int64_t i = 0; i < n; i++)
        memcpy(get ? dense + i * step : stored + i * stride * step,
               get ? stored + i * stride * step : dense + i * step, size);
}

/* Copies `n` elements at stride `stride` to or from a dense row. */
static void move_run(char *stored, int64_t stride, char *dense, int64_t n, size_t size, bool get)
{
    if (stride == 1)
        memcpy(get ? dense : stored, get ? stored : dense, (size_t)n * size);
    else if (size == 4)
        move_each(stored, stride, dense, n, 4, get);
    else if (size == 2)
        move_each(stored, stride, dense, n, 2, get);
    else if (size == 1)
        move_each(stored, stride, dense, n, 1, get);
    else
        move_each(stored, stride, dense, n, 8, get);
}

bool rt_external_has(const rt_external *x, int rank)
{
    const mg_program *p = x->form->split;
    return !p || ((!x->form->on || rt_place_of(p, rank, x->form->on) == x->place) &&
                  rt_has_tensor(p, x->form->tensor, rank));
}

/* True if a rank is at these places along the axes of each dim. */
static bool has(const rt_external *x, int rank, const int *place)
{
    if (!rt_external_has(x, rank))
        return false;
    for (int i = 0; i < x->form->ndims; i++)
        if (x->form->axes[i] && rt_place_of(x->form->split, rank, x->form->axes[i]) != place[i])
            return false;
    return true;
}

/* Copies a run of the part at these places, `at` elements from the part's beginning: writes it to
 * all ranks that have the part, or reads it from one. */
static void move_parts(const rt_external *x, char *stored, const int *place, int64_t at,
                       char *dense, int64_t run, bool get)
{
    size_t size = (size_t)mg_dtype_bytes(x->form->tensor->dtype);
    int ranks = rt_ranks_of(x->form->split, ~(uint32_t)0);
    int64_t stride = x->form->apart;
    for (int k = 0; k < ranks; k++)
        if ((!x->stands || x->stands[k] == k) && has(x, k, place)) {
            move_run(stored + k * stride + at * (int64_t)size, x->form->stride[x->form->ndims - 1],
                     dense, run, size, get);
            if (get)
                return;
        }
}

/* Copies a run of a tensor that all ranks have: reads it from one rank, writes it to all. */
static void move_whole(const rt_external *x, char *stored, int64_t at, char *dense, int64_t run,
                       bool get)
{
    size_t size = (size_t)mg_dtype_bytes(x->form->tensor->dtype);
    for (int k = 0; k < x->form->copies; k++)
        if (!x->stands || x->stands[k] == k) {
            move_run(stored + k * x->form->apart + at * (int64_t)size,
                     x->form->stride[x->form->ndims - 1], dense, run, size, get);
            if (get)
                return;
        }
}

static void index_of(const rt_external *x, int64_t element, int64_t *index)
{
    for (int i = x->form->ndims - 1; i >= 0; i--) {
        index[i] = element % x->form->dim[i];
        element /= x->form->dim[i];
    }
}

/* The length of the run that begins at an index, at most n: it lies in one part. Sets the place of
 * the ranks with the part along each dim, and where the run begins in it. */
static int64_t run_at(const rt_external *x, const int64_t *index, int64_t n, int *place,
                      int64_t *at)
{
    const int last = x->form->ndims - 1;
    const int64_t unit = x->form->unit[last];
    int64_t run = x->form->dim[last] - index[last];
    if (x->form->split && run > unit - index[last] % unit)
        run = unit - index[last] % unit;
    *at = 0;
    for (int i = 0; i <= last; i++)
        *at += (x->form->split ? index_in_part(x->form->split, x->form, i, index[i], &place[i])
                               : index[i]) *
               x->form->stride[i];
    return run < n ? run : n;
}

static void move(const rt_external *x, char *stored, int64_t begin, int64_t n, char *dense,
                 bool get)
{
    size_t size = (size_t)mg_dtype_bytes(x->form->tensor->dtype);
    int64_t index[MG_RANK_MAX];
    int last = x->form->ndims - 1;
    index_of(x, begin, index);
    while (n > 0) {
        int place[MG_RANK_MAX];
        int64_t at, run = run_at(x, index, n, place, &at);
        if (x->form->split)
            move_parts(x, stored, place, at, dense, run, get);
        else
            move_whole(x, stored, at, dense, run, get);
        dense += run * (int64_t)size;
        n -= run;
        index[last] += run;
        for (int i = last; i > 0 && index[i] == x->form->dim[i]; i--) {
            index[i] = 0;
            index[i - 1]++;
        }
    }
}

int64_t rt_external_run(const rt_external *x, int64_t begin, int64_t n, int *rank)
{
    int64_t index[MG_RANK_MAX], at;
    int place[MG_RANK_MAX];
    *rank = 0;
    if (!x->form->split)
        return n;
    index_of(x, begin, index);
    const int64_t run = run_at(x, index, n, place, &at);
    while (!has(x, *rank, place))
        ++*rank;
    return run;
}

void rt_external_get(const rt_external *x, const char *stored, int64_t begin, int64_t n, void *out)
{
    move(x, (char *)stored, begin, n, out, true);
}

void rt_external_put(const rt_external *x, char *stored, int64_t begin, int64_t n, const void *in)
{
    move(x, stored, begin, n, (char *)in, false);
}

int64_t rt_stored_bytes(const rt_external *x, int64_t *offset)
{
    const int64_t width = mg_dtype_bytes(x->form->tensor->dtype);
    int64_t span = 1;
    for (int i = 0; i < x->form->ndims; i++)
        span += (x->form->dim[i] - 1) * x->form->stride[i];
    *offset = x->form->tensor->offset + x->offset * width;
    return span * width;
}
