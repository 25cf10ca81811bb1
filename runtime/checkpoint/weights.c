/* weights.c - --init: reads the parameters of a safetensors file or directory of another program.
 *
 * A directory holds model.safetensors, or model.safetensors.index.json and the files that it names.
 * Tensors are matched by external name and shape; f32, f64, bf16 and f16 are read. All misfits are
 * listed before any file is created. Optimizer state starts at zero; what follows a parameter, and
 * is not there, begins as that (followers.c); what --new names, as its declaration says. */
#include "runtime/run.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/adapter.h"
#include "runtime/checkpoint/base.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/half.h"
#include "runtime/json.h"
#include "runtime/number.h"

#define ONE_FILE "model.safetensors"
#define INDEX    "model.safetensors.index.json"

typedef struct source {
    const rt_st_tensor *tensor;
    int file;
    bool used;
} source;

typedef struct tensor_file {
    char *path;
    int fd;
    rt_st st;
} tensor_file;

struct rt_weights {
    tensor_file *file;
    int nfiles;
    source *source; /* sorted by name */
    size_t n;
    int *of; /* per item of the catalog, of parts the first: its source */
    bool adapter;
    bool resumed; /* a checkpoint has all that is trained, and the checksum of the rest */
    uint32_t crc; /* of the bytes read so far that are no adapter's */
};

/* ---- files -------------------------------------------------------------------------------- */

static int add_file(rt_weights *w, char *path)
{
    w->file = rt_grow(w->file, (size_t)w->nfiles + 1, sizeof *w->file);
    tensor_file *f = &w->file[w->nfiles];
    *f = (tensor_file){.path = path, .fd = rt_file_open(AT_FDCWD, path, O_RDONLY)};
    if (f->fd < 0)
        rt_die(RT_BAD_DATA, "--init: %s: %s", path, rt_file_error());
    char *why = rt_st_read(path, f->fd, &f->st);
    if (why)
        rt_die(RT_BAD_DATA, "--init: %s", why);
    return w->nfiles++;
}

static void add_source(rt_weights *w, int file, const rt_st_tensor *t)
{
    if ((w->n & (w->n - 1)) == 0)
        w->source = rt_grow(w->source, w->n ? 2 * w->n : 1, sizeof *w->source);
    w->source[w->n++] = (source){t, file, false};
}

/* The file `name` of an index; must be a plain name, because a path could lead anywhere. */
static int indexed_file(rt_weights *w, const char *dir, const char *index, const char *name)
{
    size_t skip = strlen(dir) + 1;
    for (int i = 0; i < w->nfiles; i++)
        if (strcmp(w->file[i].path + skip, name) == 0)
            return i;
    if (!rt_is_file_name(name))
        rt_die(RT_BAD_DATA, "--init: %s: \"%s\" is not the name of a file beside it", index, name);
    return add_file(w, rt_printf("%s/%s", dir, name));
}

static bool read_weight_map(rt_json *j, rt_weights *w, const char *dir, const char *index)
{
    if (!rt_json_enter(j, '{'))
        return false;
    while (rt_json_key(j)) {
        char *tensor = rt_printf("%s", j->text);
        if (!rt_json_string(j))
            return false;
        int file = indexed_file(w, dir, index, j->text);
        const rt_st_tensor *t = rt_st_find(&w->file[file].st, tensor);
        if (!t)
            rt_die(RT_BAD_DATA, "--init: %s: %s is not in %s", index, tensor, w->file[file].path);
        add_source(w, file, t);
        free(tensor);
    }
    return !j->error;
}

/* {"metadata": ..., "weight_map": {"tensor": "file", ...}} */
static void read_index(rt_weights *w, const char *dir, const char *path)
{
    size_t n;
    char *text = rt_file_need("--init: ", path, ST_HEADER_MAX, &n);
    rt_json j;
    rt_json_begin(&j, text, n);
    bool map = false;
    bool good = rt_json_enter(&j, '{');
    while (good && rt_json_key(&j)) {
        bool here = strcmp(j.text, "weight_map") == 0;
        if (here && map)
            rt_json_fail(&j, "\"weight_map\" comes twice");
        else
            good = here ? read_weight_map(&j, w, dir, path) : rt_json_skip(&j);
        map |= here;
    }
    if (!j.error && !w->n)
        rt_json_fail(&j, map ? "\"weight_map\" is empty" : "there is no \"weight_map\"");
    if (!j.error)
        rt_json_end(&j);
    if (j.error)
        rt_die(RT_BAD_DATA, "--init: %s: %s (byte %td)", path, j.error, j.at - j.begin);
    rt_json_free(&j);
    free(text);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void open_directory(rt_weights *w, const char *dir)
{
    char *one = rt_printf("%s/" ONE_FILE, dir), *index = rt_printf("%s/" INDEX, dir);
    char *pickle = rt_printf("%s/pytorch_model.bin", dir);
    if (is_there(one)) {
        add_file(w, one);
        one = NULL;
    } else if (is_there(index)) {
        read_index(w, dir, index);
    } else {
        rt_die(RT_BAD_DATA, "--init: %s holds neither " ONE_FILE " nor " INDEX "%s", dir,
               is_there(pickle) ? "; pytorch_model.bin is a pickle, which is not read: save the "
                                  "model again with save_pretrained(DIR, safe_serialization=True)"
                                : "");
    }
    free(one);
    free(index);
    free(pickle);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const source *)a)->tensor->name, ((const source *)b)->tensor->name);
}

static void list_sources(rt_weights *w)
{
    if (!w->n && w->nfiles) /* without an index one file has all tensors */
        for (size_t i = 0; i < w->file[0].st.n; i++)
            add_source(w, 0, &w->file[0].st.tensor[i]);
}

static void sort_sources(rt_weights *w)
{
    if (w->n)
        qsort(w->source, w->n, sizeof *w->source, by_name);
    for (size_t i = 1; i < w->n; i++)
        if (by_name(&w->source[i - 1], &w->source[i]) == 0)
            rt_die(RT_BAD_DATA, "--init: %s is named twice in the index",
                   w->source[i].tensor->name);
}

/* ---- matching ----------------------------------------------------------------------------- */

static int find_source(const rt_weights *w, const char *name)
{
    size_t low = 0, high = w->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(w->source[middle].tensor->name, name);
        if (order == 0)
            return (int)middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static const char *const base[] = {"model.", "transformer."};
enum { BASES = sizeof base / sizeof *base };

/* Finds the tensor of a parameter. The files of a model with and without its head differ in the
 * first component of the names: way 0 takes names unchanged, way 1 without that component, way 2
 * with the prefix base[0], and so on. */
static int find_by(const rt_weights *w, const char *name, mg_adapter adapter, int way)
{
    if (adapter == MG_ADAPTER_WHOLE && !w->adapter)
        name += strlen(RT_ADAPTER_PREFIX);
    else if (adapter)
        return find_source(w, name);
    for (int i = 0; way == 1 && i < BASES; i++)
        if (strncmp(name, base[i], strlen(base[i])) == 0)
            return find_source(w, name + strlen(base[i]));
    if (way < 2)
        return find_source(w, name);
    char *longer = rt_printf("%s%s", base[way - 2], name);
    int found = find_source(w, longer);
    free(longer);
    return found >= 0 ? found : find_source(w, name);
}

/* Chooses the way that finds the most parameters; of equal ones the first. */
static void match(const mg_run *r, rt_weights *w)
{
    int best = 0, max = -1;
    for (int way = 0; way < 2 + BASES; way++) {
        int found = 0;
        for (int i = 0; i < r->params.n; i += r->params.item[i].parts)
            found += find_by(w, r->params.item[i].name, r->params.item[i].form->tensor->adapter,
                             way) >= 0;
        if (found > max) {
            max = found;
            best = way;
        }
    }
    w->of = rt_alloc((size_t)r->params.n + 1, sizeof *w->of);
    for (int i = 0; i < r->params.n; i += r->params.item[i].parts) {
        w->of[i] =
            find_by(w, r->params.item[i].name, r->params.item[i].form->tensor->adapter, best);
        if (w->of[i] >= 0)
            w->source[w->of[i]].used = true;
        const char *plain = rt_adapter_plain(&r->params.item[i]);
        const int before = plain != r->params.item[i].name ? find_by(w, plain, 0, best) : -1;
        if (before >= 0) /* the base's, which the adapter has another one for */
            w->source[before].used = true;
    }
}

static bool readable(const char *dtype)
{
    return !strcmp(dtype, "F32") || !strcmp(dtype, "F64") || !strcmp(dtype, "BF16") ||
           !strcmp(dtype, "F16");
}

static void print_shape(FILE *f, int rank, const int64_t *shape)
{
    fputc('[', f);
    for (int i = 0; i < rank; i++)
        fprintf(f, "%s%" PRId64, i ? ", " : "", shape[i]);
    fputc(']', f);
}

static void print_where(FILE *f, const rt_external *x)
{
    char *where = rt_whole_where(x);
    fprintf(f, " (%s)", where);
    free(where);
}

static bool matches(const rt_list *patterns, const char *name)
{
    for (int i = 0; i < patterns->n; i++)
        if (fnmatch(patterns->item[i], name, 0) == 0)
            return true;
    return false;
}

/* A pattern of --new that names no parameter is a slip of the pen. */
static void check_fresh(const mg_run *r)
{
    const rt_list *names = &r->options->fresh;
    for (int i = 0; i < names->n; i++) {
        bool known = false;
        for (int k = 0; k < r->params.n && !known; k++)
            known = fnmatch(names->item[i], rt_adapter_plain(&r->params.item[k]), 0) == 0;
        if (!known)
            rt_die(RT_USAGE, "--new %s: no parameter of %s has such a name", names->item[i],
                   r->program->name);
    }
}

static void print_wanted(FILE *f, const rt_external *x)
{
    int64_t shape[MG_RANK_MAX] = {0};
    for (int i = 0; i < x->form->rank; i++)
        shape[i] = rt_file_size(x, i);
    print_shape(f, x->form->rank, shape);
    print_where(f, x);
}

static bool is_of_shape(const rt_st_tensor *t, const rt_external *x)
{
    bool same = t->rank == x->form->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = t->shape[i] == rt_file_size(x, i);
    return same;
}

/* Is a parameter begun, or read, without these files? */
static bool may_lack(const mg_run *r, const rt_weights *w, const rt_external *x)
{
    const mg_adapter kind = x->form->tensor->adapter;
    if (x->begins || matches(&r->options->fresh, rt_adapter_plain(x)))
        return true;
    return kind == MG_ADAPTER_WHOLE ? w->resumed : kind && !w->adapter;
}

static void check_parameters(const mg_run *r, const rt_weights *w, FILE *f)
{
    for (int i = 0; i < r->params.n; i += r->params.item[i].parts) {
        const rt_external *x = &r->params.item[i];
        const rt_st_tensor *t = w->of[i] < 0 ? NULL : w->source[w->of[i]].tensor;
        if (rt_base_beside(x) || (!t && may_lack(r, w, x)))
            continue;
        if (!t) {
            fprintf(f, "\n  %s is missing: ", w->adapter ? x->name : rt_adapter_plain(x));
            print_wanted(f, x);
        } else if (!is_of_shape(t, x)) {
            fprintf(f, "\n  %s is ", x->name);
            print_shape(f, t->rank, t->shape);
            fputs(" there; this program has ", f);
            print_wanted(f, x);
        } else if (!readable(t->dtype)) {
            fprintf(f, "\n  %s is of type %s; F32, F64, BF16 and F16 are read", x->name, t->dtype);
        }
    }
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

/* True for tensors of older files that are not parameters: masks and tables that the program
 * computes itself. */
static bool is_buffer(const char *name)
{
    return ends_in(name, ".rotary_emb.inv_freq") || ends_in(name, ".attn.masked_bias") ||
           (ends_in(name, ".attn.bias") && !ends_in(name, "_attn.bias"));
}

static bool same_bytes(const rt_weights *w, const source *a, const source *b)
{
    uint64_t n = a->tensor->end - a->tensor->begin;
    char *x = rt_alloc(RT_CHUNK, 2), *y = x + RT_CHUNK;
    const tensor_file *fa = &w->file[a->file], *fb = &w->file[b->file];
    bool same = true;
    for (uint64_t at = 0; same && at < n; at += RT_CHUNK) {
        size_t size = (size_t)(n - at < RT_CHUNK ? n - at : RT_CHUNK);
        same = rt_read_at(fa->fd, x, size, (int64_t)(fa->st.data + a->tensor->begin + at)) &&
               rt_read_at(fb->fd, y, size, (int64_t)(fb->st.data + b->tensor->begin + at)) &&
               memcmp(x, y, size) == 0;
    }
    free(x);
    return same;
}

/* Finds the used tensor with the same bytes: a tied tensor may be stored under both of its
 * names. */
static const source *copy_of(const rt_weights *w, const source *s)
{
    for (size_t i = 0; i < w->n; i++) {
        const source *o = &w->source[i];
        if (o->used && strcmp(o->tensor->dtype, s->tensor->dtype) == 0 &&
            o->tensor->rank == s->tensor->rank &&
            memcmp(o->tensor->shape, s->tensor->shape,
                   (size_t)s->tensor->rank * sizeof *s->tensor->shape) == 0 &&
            s->tensor->rank >= 2 && same_bytes(w, o, s))
            return o;
    }
    return NULL;
}

static void check_surplus(const mg_run *r, const rt_weights *w, FILE *f)
{
    for (size_t i = 0; i < w->n; i++) {
        const source *s = &w->source[i];
        if (s->used || is_buffer(s->tensor->name) ||
            matches(&r->options->without, s->tensor->name) || copy_of(w, s))
            continue;
        char *name = rt_shown(s->tensor->name);
        fprintf(f, "\n  %s ", name);
        free(name);
        print_shape(f, s->tensor->rank, s->tensor->shape);
        fputs(" is not in this program", f);
    }
}

/* The tensors of a directory of PEFT's, beside those of the base. */
static void add_adapter(const mg_run *r, rt_weights *w, const char *dir)
{
    const int file = add_file(w, rt_printf("%s/" RT_ADAPTER_FILE, dir));
    rt_adapter_check(r, dir);
    for (size_t i = 0; i < w->file[file].st.n; i++)
        add_source(w, file, &w->file[file].st.tensor[i]);
    w->adapter = true;
}

rt_weights *rt_weights_open(const mg_run *r, const char *path, const char *adapter, bool resumed)
{
    rt_weights *w = rt_alloc(1, sizeof *w);
    struct stat st;
    w->resumed = resumed;
    check_fresh(r);
    if (stat(path, &st))
        rt_die(RT_BAD_DATA, "--init: %s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        open_directory(w, path);
    else
        add_file(w, rt_printf("%s", path));
    list_sources(w);
    if (adapter)
        add_adapter(r, w, adapter);
    sort_sources(w);
    match(r, w);
    char *list = NULL;
    size_t size;
    FILE *f = open_memstream(&list, &size);
    if (!f)
        rt_die(RT_FAILED, "no memory to check %s", path);
    check_parameters(r, w, f);
    if (!resumed) /* else --without may have named it */
        check_surplus(r, w, f);
    fclose(f);
    if (*list)
        rt_die(RT_BAD_DATA, "--init: %s does not fit this program:%s", path, list);
    free(list);
    return w;
}

/* ---- loading ------------------------------------------------------------------------------ */

typedef struct moving {
    const rt_external *x;
    const char *dtype;
    char *const *stored;
    int64_t begin;
    char *in, *converted;
} moving;

enum { SOME = 256 }; /* numbers that are converted together */

static void convert_and_put(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const moving *m = ctx;
    mg_dtype to = m->x->form->tensor->dtype;
    const bool same = strcmp(m->dtype, rt_dtype_name(to)) == 0;
    (void)scratch;
    for (int64_t i = begin; i < end && !same; i += SOME) {
        double v[SOME];
        const int64_t n = end - i < SOME ? end - i : SOME;
        rt_numbers(m->dtype, m->in, i, n, v);
        for (int64_t k = 0; k < n; k++)
            if (to == MG_F64)
                ((double *)m->converted)[i + k] = v[k];
            else if (to == MG_BF16)
                ((uint16_t *)m->converted)[i + k] = mg_to_bf16((float)v[k]);
            else
                ((float *)m->converted)[i + k] = (float)v[k];
    }
    rt_whole_put(m->x, m->stored, m->begin + begin, end - begin,
                 (same ? m->in : m->converted) + begin * mg_dtype_bytes(to));
}

/* Number i of the catalog, from its file, a piece at a time. */
static void load(mg_run *r, rt_weights *w, int i, char *in, char *converted)
{
    enum { ELEMENTS = RT_CHUNK / 8 };
    const rt_external *x = &r->params.item[i];
    const source *s = &w->source[w->of[i]];
    const tensor_file *f = &w->file[s->file];
    const int64_t size = rt_st_bits(s->tensor->dtype) / 8, all = rt_file_elements(x);
    rt_base *base = x->form->tensor->coded ? rt_base_begin(r, x) : NULL;
    char **stored = base ? NULL : rt_whole_open(r, x, false);
    for (int64_t at = 0; at < all; at += ELEMENTS) {
        int64_t n = all - at < ELEMENTS ? all - at : ELEMENTS;
        int64_t from = (int64_t)(f->st.data + s->tensor->begin) + at * size;
        if (!rt_read_at(f->fd, in, (size_t)(n * size), from))
            rt_die(RT_IO, "%s cannot be read: %s", f->path, rt_file_error());
        if (!x->form->tensor->adapter)
            w->crc = rt_crc32c(w->crc, in, (size_t)(n * size));
        moving m = {x, s->tensor->dtype, stored, at, in, converted};
        if (base)
            rt_base_put(base, s->tensor->dtype, in, at, n);
        else
            rt_pool_run(r->pool, n, 16384, convert_and_put, &m);
    }
    if (base)
        rt_base_end(base);
    else
        rt_whole_close(r, x, stored, true);
}

void rt_weights_load(mg_run *r, rt_weights *w)
{
    char *in = rt_alloc(RT_CHUNK, 2);
    for (int i = 0; i < r->params.n; i += r->params.item[i].parts)
        if (w->of[i] >= 0) /* else followers.c */
            load(r, w, i, in, in + RT_CHUNK);
    free(in);
}

uint32_t rt_weights_crc(const rt_weights *w)
{
    return w->crc;
}

bool rt_weights_have(const rt_weights *w, int item)
{
    return w->of[item] >= 0;
}

void rt_weights_close(rt_weights *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->nfiles; i++) {
        rt_st_free(&w->file[i].st);
        close(w->file[i].fd);
        free(w->file[i].path);
    }
    free(w->file);
    free(w->source);
    free(w->of);
    free(w);
}
