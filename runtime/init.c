/* init.c - fills parameters and optimizer state with initial values, the same under every layout
 * and any number of threads.
 *
 * Number k that element e of the external tensor n draws takes the block of Philox4x32-10 with
 *     key = mg_key(n) ^ seed, counter = { low(e), high(e), k, 0 }
 * and uses the first two of its four words:
 *     normal   mean + std * sqrt(-2 log((w0 + 1) / 2^32)) * cos(2 pi w1 / 2^32)
 *     uniform  low + (high - low) * w0 / 2^32
 * (Box and Muller, 1958) in double (normal.h), rounded once to the tensor's dtype. A formula, which
 * is a function of the emitted program, draws numbers 0, 1, ...; others draw number 0. Parts of a
 * tensor count its elements; a formula counts those of the part, whose place is then in the key. */
#include "runtime/checkpoint/base.h"
#include "runtime/draw.h"
#include "runtime/half.h"
#include "runtime/normal.h"
#include "runtime/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

typedef struct filling {
    const rt_external *x;
    char *stored;
    uint32_t key[2];
} filling;

static void words(int64_t e, const uint32_t key[2], uint32_t which, uint32_t w[4])
{
    uint32_t counter[4] = {(uint32_t)e, (uint32_t)((uint64_t)e >> 32), which, 0};
    mg_philox(counter, key, w);
}

double mg_uniform(int64_t e, const uint32_t key[2], uint32_t which, double low, double high)
{
    uint32_t w[4];
    words(e, key, which, w);
    return low + (high - low) * ((double)w[0] * 0x1p-32);
}

double mg_normal(int64_t e, const uint32_t key[2], uint32_t which, double deviation)
{
    uint32_t w[4];
    words(e, key, which, w);
    return deviation * mg_normal_of(w[0], w[1]);
}

static double formula(const filling *f, int64_t e)
{
    const mg_tensor *t = f->x->form->tensor;
    const double v = t->formula(e, f->key);
    if (!isfinite(t->dtype == MG_F64 ? v : (double)(float)v))
        rt_die(RT_FAILED, "%s: the initial value of element %" PRId64 " is %g", f->x->name, e, v);
    return v;
}

/* The values of n elements from e on. */
static void initial(const filling *f, int64_t e, int64_t n, double out[RT_DRAWS])
{
    const mg_tensor *t = f->x->form->tensor;
    const bool normal = t->init == MG_INIT_NORMAL, drawn = normal || t->init == MG_INIT_UNIFORM;
    uint64_t at[RT_DRAWS] = {0};
    if (!t->formula && drawn) {
        for (int64_t i = 0; i < n; i++)
            at[i] = (uint64_t)(t->part_of ? rt_whole_index(f->x->form, e + i) : e + i);
        rt_draw(at, f->key, normal, out);
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = t->formula ? formula(f, e + i)
                 : normal   ? t->a + t->b * out[i]
                 : drawn    ? t->a + (t->b - t->a) * out[i]
                            : t->a;
}

/* Keeps a uniform value below b: rounding to float may give b, which is not in [a, b). */
static float narrow(const mg_tensor *t, double v)
{
    float f = (float)v;
    return t->init == MG_INIT_UNIFORM && t->b > t->a && (double)f >= t->b ? nextafterf(f, -INFINITY)
                                                                          : f;
}

static void fill(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    enum { BLOCK = RT_DRAWS };
    const filling *f = ctx;
    const mg_tensor *t = f->x->form->tensor;
    union {
        float f32[BLOCK];
        double f64[BLOCK];
        uint16_t bf16[BLOCK];
    } out;
    double value[BLOCK];
    (void)scratch;
    for (int64_t e = begin; e < end; e += BLOCK) {
        int64_t n = end - e < BLOCK ? end - e : BLOCK;
        initial(f, e, n, value);
        for (int64_t i = 0; i < n; i++) {
            const double v = value[i];
            if (t->dtype == MG_F64)
                out.f64[i] = v;
            else if (t->dtype == MG_BF16)
                out.bf16[i] = mg_to_bf16(narrow(t, v));
            else
                out.f32[i] = narrow(t, v);
        }
        rt_external_put(f->x, f->stored, e, n, &out);
    }
}

/* A frozen matrix in fewer bits: its numbers, of which codes are made, a piece at a time. */
typedef struct drawing {
    const filling *f;
    int64_t at;
    float *out;
} drawing;

static void draw(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const drawing *d = ctx;
    double value[RT_DRAWS];
    (void)scratch;
    for (int64_t e = begin; e < end; e += RT_DRAWS) {
        const int64_t n = end - e < RT_DRAWS ? end - e : RT_DRAWS;
        initial(d->f, d->at + e, n, value);
        for (int64_t i = 0; i < n; i++)
            d->out[e + i] = narrow(d->f->x->form->tensor, value[i]);
    }
}

static void init_base(mg_run *r, const filling *f)
{
    enum { PIECE = 1 << 18 };
    float *out = rt_alloc(PIECE, sizeof *out);
    rt_base *b = rt_base_begin(r, f->x);
    const int64_t all = rt_file_elements(f->x);
    for (int64_t at = 0; at < all; at += PIECE) {
        const int64_t n = all - at < PIECE ? all - at : PIECE;
        rt_pool_run(r->pool, n, 4096, draw, &(drawing){f, at, out});
        rt_base_put(b, "F32", (const char *)out, at, n);
    }
    rt_base_end(b);
    free(out);
}

static void init_tensor(mg_run *r, const rt_external *x)
{
    uint64_t key = mg_key(x->name) ^ (uint64_t)r->state.seed;
    if (x->form->tensor->formula)
        key ^= (uint64_t)x->form->from * 0x9e3779b97f4a7c15; /* 0 but for parts */
    filling f = {x, NULL, {(uint32_t)key, (uint32_t)(key >> 32)}};
    if (x->form->tensor->coded) {
        init_base(r, &f);
        return;
    }
    f.stored = rt_stored_open(r, x, false);
    rt_pool_run(r->pool, x->form->elements, 4096, fill, &f);
    rt_stored_close(r, x, true);
}

void rt_init(mg_run *r)
{
    const rt_weights *w = r->weights;
    for (int i = 0; i < r->params.n; i++) {
        const rt_external *x = &r->params.item[i];
        if (!rt_base_beside(x) && !x->begins &&
            !(w && rt_weights_have(w, i - x->part))) /* else followers.c */
            init_tensor(r, x);
    }
}

void rt_init_state(mg_run *r)
{
    for (int i = 0; i < r->slots.n; i++)
        if (r->slots.item[i].form->tensor->a != 0)
            init_tensor(r, &r->slots.item[i]);
}
