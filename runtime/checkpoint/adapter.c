/* adapter.c - what a program that trains an adapter does beside other programs.
 *
 * Its checkpoints hold the adapter alone, as a directory of PEFT's: adapter_model.safetensors with
 * lora_A [rank, in], lora_B [out, rank] and lora_magnitude_vector [out] of each matrix, and
 * adapter_config.json. The base is what --init read, or the initial values of the seed; state.json
 * says which. Exported is the base with the adapter in it: W + scale B A, and of DoRA its rows with
 * the lengths that the magnitudes say. */
#include "runtime/checkpoint/adapter.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/base.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/half.h"
#include "runtime/json.h"
#include "runtime/number.h"

#define PREFIX RT_ADAPTER_PREFIX

enum { LARGEST = 1 << 24 }; /* bytes of an adapter's settings */

static bool of_adapter(const rt_external *x)
{
    return x->form->tensor->adapter;
}

/* Is it trained as a whole beside the adapter? Then it is of the model, too. */
static bool of_both(const rt_external *x)
{
    return x->form->tensor->adapter == MG_ADAPTER_WHOLE;
}

char *rt_adapter_plain(const rt_external *x)
{
    return x->name + (of_both(x) ? strlen(PREFIX) : 0);
}

/* own: under the name that it has in the model. */
static void take(rt_catalog *c, const rt_external *x, bool own)
{
    c->item[c->n] = *x;
    if (own)
        c->item[c->n].name = rt_adapter_plain(x);
    c->n++;
    if (!x->part)
        c->bytes += rt_file_elements(x) * mg_dtype_bytes(rt_file_dtype(x));
}

static rt_catalog empty(const rt_catalog *all)
{
    return (rt_catalog){.form = all->form, .item = rt_alloc((size_t)all->n + 1, sizeof *all->item)};
}

rt_catalog rt_adapter_part(const rt_catalog *all, bool adapter)
{
    rt_catalog c = empty(all);
    for (int i = 0; i < all->n; i++)
        if ((of_adapter(&all->item[i]) == adapter || of_both(&all->item[i])) &&
            !rt_base_beside(&all->item[i]))
            take(&c, &all->item[i], !adapter);
    return c;
}

rt_catalog rt_exported(const rt_catalog *all)
{
    rt_catalog c = empty(all);
    for (int i = 0; i < all->n; i++)
        if ((!of_adapter(&all->item[i]) || of_both(&all->item[i])) &&
            !all->item[i].form->tensor->fixed && !rt_base_beside(&all->item[i]))
            take(&c, &all->item[i], true);
    return c;
}

/* ---- adapter_config.json -------------------------------------------------------------------- */

char *rt_adapter_config(const mg_run *r)
{
    char *base = rt_json_escape(r->state.base);
    char *text =
        *base ? rt_printf("{\n  \"base_model_name_or_path\": \"%s\",\n%s", base,
                          r->program->adapter_json)
              : rt_printf("{\n  \"base_model_name_or_path\": null,\n%s", r->program->adapter_json);
    free(base);
    return text;
}

/* Numbers of some modules, by patterns of their names in the order of the file. */
typedef struct pattern {
    char *key;
    double value;
} pattern;

typedef struct patterns {
    pattern *all;
    size_t n;
} patterns;

/* A file says how its tensors are used; 0 is PEFT's default but for the numbers. */
typedef struct settings {
    int64_t rank;
    double alpha;
    bool stabilized, dora;
    patterns ranks, alphas;
} settings;

static bool is_true(rt_json *j)
{
    while (j->at < j->end && strchr(" \t\r\n", *j->at))
        j->at++;
    const bool yes = j->end - j->at >= 4 && !memcmp(j->at, "true", 4);
    rt_json_skip(j);
    return yes;
}

static void read_patterns(rt_json *j, patterns *p)
{
    double v;
    if (rt_json_null(j) || !rt_json_enter(j, '{'))
        return;
    while (rt_json_key(j)) {
        char *key = rt_printf("%s", j->text);
        if (!rt_json_number(j, &v)) {
            free(key);
            return;
        }
        p->all = rt_grow(p->all, p->n + 1, sizeof *p->all);
        p->all[p->n++] = (pattern){key, v};
    }
}

static void free_patterns(patterns *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->all[i].key);
    free(p->all);
}

/* PEFT's rule: the first key that is the end of a module's name, behind a dot, as a pattern. */
static double of_module(const patterns *p, const char *path, const char *module, double otherwise)
{
    for (size_t i = 0; i < p->n; i++) {
        regex_t code;
        char *text = rt_printf("^(.*\\.)?(%s)$", p->all[i].key);
        if (strstr(text, "(?") || strpbrk(p->all[i].key, "\n") ||
            regcomp(&code, text, REG_EXTENDED | REG_NOSUB))
            rt_die(RT_BAD_DATA, "--adapter: %s: the pattern '%s' is not read: write it without (?",
                   path, p->all[i].key);
        const bool yes = !regexec(&code, module, 0, NULL, 0);
        regfree(&code);
        free(text);
        if (yes)
            return p->all[i].value;
    }
    return otherwise;
}

static bool read_settings(const char *text, size_t n, settings *s)
{
    rt_json j;
    *s = (settings){.rank = 8, .alpha = 8};
    rt_json_begin(&j, text, n);
    bool good = rt_json_enter(&j, '{');
    while (good && rt_json_key(&j)) {
        if (!strcmp(j.text, "r"))
            good = rt_json_int(&j, &s->rank);
        else if (!strcmp(j.text, "lora_alpha"))
            good = rt_json_number(&j, &s->alpha);
        else if (!strcmp(j.text, "use_rslora"))
            s->stabilized = is_true(&j);
        else if (!strcmp(j.text, "use_dora"))
            s->dora = is_true(&j);
        else if (!strcmp(j.text, "rank_pattern"))
            read_patterns(&j, &s->ranks);
        else if (!strcmp(j.text, "alpha_pattern"))
            read_patterns(&j, &s->alphas);
        else
            good = rt_json_skip(&j);
    }
    good = good && !j.error;
    rt_json_free(&j);
    return good;
}

/* One module: its rank and factor here are those that the file says. */
static void check_module(const rt_external *b, const char *path, const settings *s)
{
    const char *own = b->name + strlen(PREFIX), *end = strstr(own, ".lora_");
    char *module = rt_printf("%.*s", (int)(end ? end - own : 0), own);
    const double scale = b->form->tensor->scale, rank = (double)b->form->shape[1];
    const double there = of_module(&s->ranks, path, module, (double)s->rank);
    const double alpha = of_module(&s->alphas, path, module, s->alpha);
    const double factor = s->stabilized ? sqrt(rank) : rank;
    if (there != rank || fabs(alpha / factor - scale) > 1e-9 * fabs(scale))
        rt_die(RT_BAD_DATA,
               "--adapter: %s has r = %g, lora_alpha = %g of %s; this program's adapter %g, %g",
               path, there, alpha, module, rank, scale * factor);
    free(module);
}

void rt_adapter_check(const mg_run *r, const char *dir)
{
    size_t n;
    settings there, here;
    char *path = rt_printf("%s/" RT_ADAPTER_CONFIG, dir),
         *text = rt_file_need("--adapter: ", path, LARGEST, &n);
    char *own = rt_adapter_config(r);
    if (!read_settings(text, n, &there))
        rt_die(RT_BAD_DATA, "--adapter: %s is no JSON of an adapter", path);
    read_settings(own, strlen(own), &here);
    if (there.stabilized != here.stabilized || there.dora != here.dora)
        rt_die(RT_BAD_DATA,
               "--adapter: %s has use_rslora = %d, use_dora = %d; this program's adapter %d, %d",
               path, there.stabilized, there.dora, here.stabilized, here.dora);
    for (int i = 0; i < r->params.n; i += r->params.item[i].parts)
        if (r->params.item[i].form->tensor->adapter == MG_ADAPTER_B)
            check_module(&r->params.item[i], path, &there);
    free_patterns(&there.ranks);
    free_patterns(&there.alphas);
    free_patterns(&here.ranks);
    free_patterns(&here.alphas);
    free(own);
    free(text);
    free(path);
}

/* ---- an adapter's tensors ------------------------------------------------------------------- */

/* That of the matrix x which is called `what`, or NULL. */
static const rt_external *part_of(const mg_run *r, const rt_external *x, const char *what)
{
    const size_t n = strlen(x->name), end = strlen(".weight");
    const bool weight = n > end && !strcmp(x->name + n - end, ".weight");
    char *name = rt_printf(PREFIX "%.*s.%s", (int)(weight ? n - end : n), x->name, what);
    const int found = rt_catalog_find(&r->params, name);
    free(name);
    const rt_external *part = found < 0 ? NULL : &r->params.item[found];
    return part && part->form->tensor->adapter ? part : NULL;
}

/* All elements in the order of files, as doubles. */
static double *read_doubles(mg_run *r, const rt_external *x)
{
    const int64_t n = x->form->whole;
    const mg_dtype t = x->form->tensor->dtype;
    if (x->form->tensor->coded)
        return rt_base_values(r, x);
    char *dense = rt_alloc((size_t)n, (size_t)mg_dtype_bytes(t));
    double *values = rt_alloc((size_t)n, sizeof *values);
    char **stored = rt_whole_open(r, x, true);
    rt_whole_get(x, stored, 0, n, dense);
    rt_whole_close(r, x, stored, false);
    for (int64_t i = 0; i < n; i++)
        values[i] = rt_number(rt_dtype_name(t), dense, i);
    free(dense);
    return values;
}

static void put_number(mg_dtype t, char *out, int64_t i, double v)
{
    if (t == MG_F64)
        ((double *)out)[i] = v;
    else if (t == MG_BF16)
        ((uint16_t *)out)[i] = mg_to_bf16((float)v);
    else
        ((float *)out)[i] = (float)v;
}

/* ---- merging -------------------------------------------------------------------------------- */

/* Row o of [out, in] begins at o * by_out, and its elements are by_in apart. */
typedef struct merging {
    double *w, *a, *b, *magnitude; /* magnitude: NULL without */
    int64_t in, rank, by_out, by_in;
    double scale;
    mg_dtype dtype;
    char *out;
} merging;

static double length(const merging *m, int64_t row)
{
    double sum = 0;
    for (int64_t i = 0; i < m->in; i++) {
        const double v = m->w[row * m->by_out + i * m->by_in];
        sum += v * v;
    }
    return sqrt(sum);
}

static void merge_rows(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const merging *m = ctx;
    (void)scratch;
    for (int64_t o = begin; o < end; o++) {
        double *w = m->w + o * m->by_out;
        for (int64_t k = 0; k < m->rank; k++) {
            const double f = m->scale * m->b[o * m->rank + k], *a = m->a + k * m->in;
            for (int64_t i = 0; i < m->in; i++)
                w[i * m->by_in] += f * a[i];
        }
        const double g = m->magnitude ? m->magnitude[o] / length(m, o) : 1;
        for (int64_t i = 0; i < m->in; i++)
            put_number(m->dtype, m->out, o * m->by_out + i * m->by_in, g * w[i * m->by_in]);
    }
}

/* A matrix that has no adapter, and is written as what it stands for. */
static char *dequantised(mg_run *r, const rt_external *x)
{
    const int64_t n = rt_file_elements(x);
    double *values = rt_base_values(r, x);
    char *out = rt_alloc((size_t)n, (size_t)mg_dtype_bytes(rt_file_dtype(x)));
    for (int64_t i = 0; i < n; i++)
        put_number(rt_file_dtype(x), out, i, values[i]);
    free(values);
    return out;
}

char *rt_adapter_merged(mg_run *r, const rt_external *x)
{
    const bool table = part_of(r, x, "lora_embedding_A");
    const rt_external *a = part_of(r, x, table ? "lora_embedding_A" : "lora_A.weight");
    const rt_external *b = part_of(r, x, table ? "lora_embedding_B" : "lora_B.weight");
    const rt_external *magnitude = part_of(r, x, "lora_magnitude_vector");
    if (!a || !b)
        return x->form->tensor->coded ? dequantised(r, x) : NULL;
    const bool turned = b->form->tensor->turned;
    const int64_t all = rt_file_elements(x);
    merging m = {.in = rt_file_size(x, turned ? 0 : 1),
                 .rank = a->form->shape[0],
                 .scale = b->form->tensor->scale,
                 .dtype = rt_file_dtype(x)};
    m.by_out = turned ? 1 : m.in;
    m.by_in = turned ? rt_file_size(x, 1) : 1;
    m.a = read_doubles(r, a);
    m.b = read_doubles(r, b);
    m.magnitude = magnitude ? read_doubles(r, magnitude) : NULL;
    m.w = read_doubles(r, x);
    m.out = rt_alloc((size_t)all, (size_t)mg_dtype_bytes(m.dtype));
    rt_pool_run(r->pool, all / m.in, 1, merge_rows, &m);
    free(m.a);
    free(m.b);
    free(m.magnitude);
    free(m.w);
    return m.out;
}

/* ---- magnitudes ----------------------------------------------------------------------------- */

static void begin(mg_run *r, const rt_external *matrix, const rt_external *x)
{
    const bool turned = x->form->tensor->turned;
    const int64_t outs = x->form->whole;
    merging m = {.in = rt_file_elements(matrix) / outs, .w = read_doubles(r, matrix)};
    m.by_out = turned ? 1 : m.in;
    m.by_in = turned ? outs : 1;
    const mg_dtype t = x->form->tensor->dtype;
    char *values = rt_alloc((size_t)outs, (size_t)mg_dtype_bytes(t));
    for (int64_t o = 0; o < outs; o++)
        put_number(t, values, o, length(&m, o));
    char **stored = rt_whole_open(r, x, false);
    rt_whole_put(x, stored, 0, outs, values);
    rt_whole_close(r, x, stored, true);
    free(values);
    free(m.w);
}

void rt_adapter_begin(mg_run *r, const rt_weights *w)
{
    if (!r->program->adapter_json)
        return;
    for (int i = 0; i < r->params.n; i += r->params.item[i].parts) {
        const rt_external *x = &r->params.item[i];
        const rt_external *m = part_of(r, x, "lora_magnitude_vector");
        if (m && !(w && rt_weights_have(w, (int)(m - r->params.item))))
            begin(r, x, m);
    }
}
