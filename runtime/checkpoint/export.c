/* export.c - --export: a directory for other programs, as Hugging Face's: the parameters alone, in
 * the type that is asked for, in files of a limited size with an index; config.json; and beside
 * them what the directory of --init has for tokens and for generation.
 *
 * A file that is there is not overwritten. */
#include "runtime/checkpoint/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/adapter.h"
#include "runtime/checkpoint/base.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/log/card.h"

#define INDEX "model.safetensors.index.json"

/* Of the directory of --init. */
static const char *const beside[] = {"tokenizer.json",
                                     "tokenizer_config.json",
                                     "special_tokens_map.json",
                                     "added_tokens.json",
                                     "vocab.json",
                                     "merges.txt",
                                     "tokenizer.model",
                                     "chat_template.jinja",
                                     "chat_template.json",
                                     "generation_config.json",
                                     "preprocessor_config.json",
                                     "processor_config.json"};

/* ---- options -------------------------------------------------------------------------------- */

static const struct {
    const char *word, *dtype, *torch;
} types[] = {{"f32", "F32", "float32"}, {"bf16", "BF16", "bfloat16"}, {"f16", "F16", "float16"}};
enum { TYPES = sizeof types / sizeof *types };

/* TYPES: none, or no type. */
static int type_number(const char *word)
{
    int k = 0;
    while (k < TYPES && !(word && !strcmp(types[k].word, word)))
        k++;
    return k;
}

/* "500MB", "5GB", "2GiB", "1000000"; NAN: none. */
static double size_of(const char *text)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1},         {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},    {"TB", 1e12},
                 {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char *end;
    const double n = *text >= '0' && *text <= '9' ? strtod(text, &end) : NAN;
    for (size_t i = 0; n >= 0 && i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].unit))
            return n * units[i].bytes >= 1 && n * units[i].bytes < 0x1p62 ? n * units[i].bytes
                                                                          : NAN;
    return NAN;
}

char *rt_export_wrong(const rt_options *o)
{
    if (!o->export_to && (o->export_type || o->export_shard))
        return rt_printf("--export-type and --export-shard need --export DIR");
    if (o->export_type && type_number(o->export_type) == TYPES)
        return rt_printf("--export-type %s: it is f32, bf16 or f16", o->export_type);
    if (o->export_shard && isnan(size_of(o->export_shard)))
        return rt_printf("--export-shard %s: a size is 5GB, 500MB, 2GiB or a number of bytes",
                         o->export_shard);
    return NULL;
}

/* ---- tensors -------------------------------------------------------------------------------- */

typedef struct export
{
    mg_run *r;
    int dir;
    const char *file; /* the one that is written */
    rt_catalog all;
    rt_form_of form;
    int64_t limit;
}
export;

/* The items from `from` on that one file takes: at least one tensor. */
static int end_of_file(const export *x, int from)
{
    int64_t bytes = 0;
    int i = from;
    while (i < x->all.n) {
        bytes += rt_tensor_bytes(&x->all.item[i], &x->form);
        if (i > from && bytes > x->limit)
            break;
        i += x->all.item[i].parts;
    }
    return i;
}

static int count_files(const export *x)
{
    int n = 0;
    for (int i = 0; i < x->all.n; i = end_of_file(x, i))
        n++;
    return n;
}

static char *file_name(int k, int files)
{
    return files > 1 ? rt_printf("model-%05d-of-%05d.safetensors", k + 1, files)
                     : rt_printf("%s", RT_MODEL_FILE);
}

static bool write_index(export *x, int files)
{
    char *text = NULL;
    const char *sep = "\n";
    size_t size;
    int64_t total = 0;
    rt_writer w;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        rt_die(RT_FAILED, "no memory for %s", INDEX);
    for (int i = 0; i < x->all.n; i += x->all.item[i].parts)
        total += rt_tensor_bytes(&x->all.item[i], &x->form);
    fprintf(f, "{\n\"metadata\": {\"total_size\": %" PRId64 "},\n\"weight_map\": {", total);
    for (int k = 0, at = 0; k < files; k++) {
        const int end = end_of_file(x, at);
        char *name = file_name(k, files);
        for (; at < end; at += x->all.item[at].parts) {
            char *tensor = rt_json_escape(x->all.item[at].name);
            fprintf(f, "%s\"%s\": \"%s\"", sep, tensor, name);
            free(tensor);
            sep = ",\n";
        }
        free(name);
    }
    fputs("\n}\n}\n", f);
    if (fclose(f))
        rt_die(RT_FAILED, "no memory for %s", INDEX);
    const bool good = rt_write_text(x->dir, x->file = INDEX, text, &w);
    free(text);
    return good;
}

static bool write_model(export *x)
{
    const int files = count_files(x);
    bool good = true;
    for (int k = 0, at = 0; good && k < files; k++) {
        const int end = end_of_file(x, at);
        rt_writer w;
        rt_catalog part = {.item = x->all.item + at, .n = end - at};
        char *name = file_name(k, files);
        x->file = files > 1 ? "its tensors" : RT_MODEL_FILE;
        good = rt_write_tensors(x->r, x->dir, name, &part, &x->form, &w);
        free(name);
        at = end;
    }
    if (x->form.too_large)
        rt_die(RT_FAILED,
               "--export-type f16: a parameter is larger than 65504, which f16 cannot hold; bf16 "
               "can");
    return good && (files < 2 || write_index(x, files));
}

/* ---- what is beside them -------------------------------------------------------------------- */

/* The place in the object's text of the string that a key of the outermost object has, or NULL. */
static const char *value_of(const char *json, const char *key)
{
    int depth = 0;
    for (const char *s = json; *s; s++) {
        if (*s == '{' || *s == '[')
            depth++;
        else if (*s == '}' || *s == ']')
            depth--;
        if (*s != '"')
            continue;
        const char *begin = s + 1;
        for (s = begin; *s && *s != '"'; s++)
            s += *s == '\\' && s[1];
        if (!*s)
            break;
        const char *after = s + 1 + strspn(s + 1, " \n");
        if (depth == 1 && (size_t)(s - begin) == strlen(key) && !strncmp(begin, key, strlen(key)) &&
            *after == ':')
            return after + 1 + strspn(after + 1, " \n");
    }
    return NULL;
}

/* config.json with the type that the tensors have; owned by the caller. */
static char *config_text(const export *x)
{
    const char *json = x->r->program->config_json, *key = "torch_dtype";
    const char *kept = rt_dtype_name(rt_file_dtype(&x->all.item[0]));
    const char *dtype = x->form.dtype ? x->form.dtype : kept, *torch = "float64", *at;
    for (int k = 0; k < TYPES; k++)
        if (!strcmp(types[k].dtype, dtype))
            torch = types[k].torch;
    if (!(at = value_of(json, key)))
        at = value_of(json, "dtype");
    if (at && *at == '"') {
        const char *end = strchr(at + 1, '"');
        return rt_printf("%.*s\"%s%s", (int)(at - json), json, torch, end);
    }
    const char *begin = strchr(json, '{');
    return at || !begin ? rt_printf("%s", json)
                        : rt_printf("{\n  \"%s\": \"%s\",%s", key, torch, begin + 1);
}

static bool copy_file(export *x, const char *from, const char *name)
{
    char *buffer = rt_alloc(RT_CHUNK, 1);
    rt_writer w;
    const int fd = rt_file_open(AT_FDCWD, from, O_RDONLY);
    bool good = fd >= 0 && rt_writer_open(&w, x->dir, x->file = name);
    for (ssize_t n = 1; good && n;) {
        n = read(fd, buffer, RT_CHUNK);
        good = (n < 0 && errno == EINTR) || (n >= 0 && rt_writer_put(&w, buffer, (size_t)n));
    }
    if (fd >= 0)
        close(fd);
    free(buffer);
    return fd >= 0 && w.fd >= 0 && rt_writer_close(&w, good);
}

/* Copies those that are there. */
static bool copy_beside(export *x, const char *init)
{
    struct stat st;
    bool good = true;
    if (!init || stat(init, &st) || !S_ISDIR(st.st_mode))
        return true;
    for (size_t i = 0; good && i < sizeof beside / sizeof *beside; i++) {
        char *from = rt_printf("%s/%s", init, beside[i]);
        if (stat(from, &st) == 0)
            good = copy_file(x, from, beside[i]);
        free(from);
    }
    return good;
}

static bool write_card(export *x)
{
    rt_writer w;
    char *curve, *text = rt_card_of_export(x->r, &curve);
    const bool good = rt_write_text(x->dir, x->file = "README.md", text, &w) &&
                      (!curve || rt_write_text(x->dir, x->file = "loss.svg", curve, &w));
    free(curve);
    free(text);
    return good;
}

bool rt_export(mg_run *r, const char *dir)
{
    const rt_options *o = r->options;
    const bool merged = r->program->adapter_json;
    const int type = type_number(o->export_type);
    export x = {.r = r,
                .file = "its directory",
                .all = rt_exported(&r->params),
                .form = {.merged = merged, .dtype = type < TYPES ? types[type].dtype : NULL},
                .limit = (int64_t)(o->export_shard ? size_of(o->export_shard) : 5e9)};
    bool good = mkdir(dir, 0777) == 0 || errno == EEXIST;
    x.dir = good ? rt_folder_open(dir) : -1;
    good = x.dir >= 0 && write_model(&x);
    if (good && r->program->config_json) {
        rt_writer w;
        char *text = config_text(&x);
        good = rt_write_text(x.dir, x.file = RT_CONFIG_FILE, text, &w);
        free(text);
    }
    good = good && write_card(&x);
    good = good && copy_beside(&x, r->base ? r->base : o->init) && fsync(x.dir) == 0;
    if (!good)
        rt_warn("--export %s: writing %s: %s", dir, x.file, strerror(errno));
    free(x.all.item);
    if (x.dir >= 0)
        close(x.dir);
    return good;
}
