/* device.c - a device description (JSON) as a Device; docs/devices.md describes the fields. */
#include "base/open.h"
#include "codegen/processor.h"
#include "compiler/description.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

typedef enum FieldKind { FIELD_text, FIELD_real, FIELD_bytes, FIELD_count, FIELD_whole } FieldKind;

/* The fields of a description. An optional one that is left out is 0. */
typedef struct Description {
    const char *name, *target, *processor, *measured;
    double memory, threads; /* or "host": what this machine has */
    double flops_f32, flops_f64, flops_tf32, flops_bf16, flops_f16;
    double product_share, product_share_f32, product_share_f64, product_share_tf32;
    double attention_share, attention_grad_share, exponentials;
    double thread_bandwidth, bandwidth;
    double launch, streams;
    double link_bandwidth, link_seconds, link_slowdown;
    double architecture, warpgroups;
    double product_rows, product_columns;
    double node_ranks, node_bandwidth, node_seconds;
} Description;

typedef struct Field {
    const char *key;
    FieldKind kind;
    size_t at;
    double min, max;
    bool optional;
} Field;

#define FIELD(key, kind, member, min, max)                                                         \
    {key, FIELD_##kind, offsetof(Description, member), min, max, false}
#define OPTIONAL(key, kind, member, min, max)                                                      \
    {key, FIELD_##kind, offsetof(Description, member), min, max, true}
static const Field fields[] = {
    FIELD("name", text, name, 0, 0),
    FIELD("target", text, target, 0, 0),
    OPTIONAL("processor", text, processor, 0, 0),
    OPTIONAL("measured", text, measured, 0, 0),
    OPTIONAL("architecture", whole, architecture, 80, 999),
    OPTIONAL("warpgroups", whole, warpgroups, 0, 1),
    FIELD("memory", bytes, memory, 1 << 20, 0x1p60),
    FIELD("threads", count, threads, 1, 4096),
    FIELD("flops_f32_per_thread", real, flops_f32, 1e6, 1e18),
    FIELD("flops_f64_per_thread", real, flops_f64, 1e6, 1e18),
    FIELD("flops_tf32_per_thread", real, flops_tf32, 1e6, 1e18),
    FIELD("flops_bf16_per_thread", real, flops_bf16, 1e6, 1e18),
    FIELD("flops_f16_per_thread", real, flops_f16, 1e6, 1e18),
    FIELD("product_share", real, product_share, 0.01, 1.5),
    OPTIONAL("product_share_f32", real, product_share_f32, 0.01, 1.5),
    OPTIONAL("product_share_f64", real, product_share_f64, 0.01, 1.5),
    OPTIONAL("product_share_tf32", real, product_share_tf32, 0.01, 1.5),
    FIELD("product_rows", whole, product_rows, 0, 4096),
    FIELD("product_columns", whole, product_columns, 0, 4096),
    FIELD("attention_share", real, attention_share, 1e-6, 1),
    FIELD("attention_grad_share", real, attention_grad_share, 1e-6, 1),
    FIELD("exponentials_per_thread", real, exponentials, 1e3, 1e18),
    FIELD("bandwidth_per_thread", real, thread_bandwidth, 1e6, 1e15),
    FIELD("bandwidth", real, bandwidth, 1e6, 1e15),
    FIELD("launch_seconds", real, launch, 0, 1),
    FIELD("link_bandwidth", real, link_bandwidth, 1e3, 1e15),
    FIELD("link_seconds", real, link_seconds, 0, 1),
    FIELD("link_slowdown", real, link_slowdown, 1, 16),
    FIELD("node_ranks", whole, node_ranks, 1, 1 << 20),
    FIELD("node_bandwidth", real, node_bandwidth, 1e3, 1e15),
    FIELD("node_seconds", real, node_seconds, 0, 1),
    FIELD("streams", whole, streams, 1, 2),
};
enum { NFIELDS = sizeof fields / sizeof *fields };

static double host_amount(FieldKind kind)
{
    cpu_set_t set;
    if (kind == FIELD_bytes)
        return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* NULL, or what is wrong with the value. */
static const char *read_field(Arena *a, const Field *f, const json_t *v, Description *d)
{
    void *to = (char *)d + f->at;
    if (f->kind == FIELD_text) {
        if (!json_is_string(v))
            return "is a text";
        *(const char **)to = arena_strdup(a, json_string_value(v));
        return NULL;
    }
    bool host = f->kind == FIELD_bytes || f->kind == FIELD_count;
    if (host && json_is_string(v) && !strcmp(json_string_value(v), "host")) {
        *(double *)to = host_amount(f->kind);
        return NULL;
    }
    if (!json_is_number(v) || ((host || f->kind == FIELD_whole) && !json_is_integer(v)))
        return host                     ? "is a whole number, or \"host\""
               : f->kind == FIELD_whole ? "is a whole number"
                                        : "is a number";
    double x = json_number_value(v);
    if (!(x >= f->min && x <= f->max))
        return arena_printf(a, "lies between %g and %g", f->min, f->max);
    *(double *)to = x;
    return NULL;
}

static const char *read_all(Arena *a, json_t *root, Description *d)
{
    const char *key;
    json_t *value;
    if (!json_is_object(root))
        return "a description is one object";
    json_object_foreach(root, key, value) {
        size_t i = 0;
        while (i < NFIELDS && strcmp(fields[i].key, key))
            i++;
        if (i == NFIELDS)
            return arena_printf(a, "unknown key '%s'", key);
        const char *wrong = read_field(a, &fields[i], value, d);
        if (wrong)
            return arena_printf(a, "'%s' %s", key, wrong);
    }
    for (size_t i = 0; i < NFIELDS; i++)
        if (!fields[i].optional && !json_object_get(root, fields[i].key))
            return arena_printf(a, "'%s' is missing", fields[i].key);
    if (strcmp(d->target, "host") && strcmp(d->target, "cuda"))
        return arena_printf(a, "there is no target '%s', only \"host\" and \"cuda\"", d->target);
    if (d->processor && !processor_find(d->processor))
        return arena_printf(a, "there is no processor '%s', only those of --cpu", d->processor);
    return NULL;
}

static Device device_from(const Description *d)
{
    double stream = d->threads * d->thread_bandwidth;
    return (Device){.name = d->name,
                    .target = strcmp(d->target, "cuda") ? TARGET_host : TARGET_cuda,
                    .processor = d->processor,
                    .measured = d->measured,
                    .architecture = (int)d->architecture,
                    .warpgroups = d->warpgroups > 0,
                    .memory = (int64_t)d->memory,
                    .flops_f32 = d->threads * d->flops_f32,
                    .flops_f64 = d->threads * d->flops_f64,
                    .flops_tf32 = d->threads * d->flops_tf32,
                    .flops_bf16 = d->threads * d->flops_bf16,
                    .flops_f16 = d->threads * d->flops_f16,
                    .product_share = d->product_share,
                    .product_share_f32 = d->product_share_f32,
                    .product_share_f64 = d->product_share_f64,
                    .product_share_tf32 = d->product_share_tf32,
                    .attention_share = d->attention_share,
                    .attention_grad_share = d->attention_grad_share,
                    .exponentials = d->threads * d->exponentials,
                    .bandwidth = fmin(stream, d->bandwidth),
                    .launch = d->launch,
                    .link_bandwidth = d->link_bandwidth,
                    .link_seconds = d->link_seconds,
                    .link_slowdown = d->link_slowdown,
                    .product_rows = (int)d->product_rows,
                    .product_columns = (int)d->product_columns,
                    .node_ranks = (int)d->node_ranks,
                    .node_bandwidth = d->node_bandwidth,
                    .node_seconds = d->node_seconds,
                    .streams = (int)d->streams,
                    .products_wait = strcmp(d->target, "cuda") != 0,
                    .threads = (int)d->threads};
}

static const char *devices_dir(Arena *a)
{
    return arena_printf(a, "%s/devices", home_dir(a));
}

const char **device_names(Arena *a, size_t *count)
{
    struct dirent **entry;
    int n = scandir(devices_dir(a), &entry, NULL, alphasort);
    const char **name = NEW_ARRAY(a, const char *, n > 0 ? n : 1);
    *count = 0;
    for (int i = 0; i < n; i++) {
        size_t length = strlen(entry[i]->d_name);
        if (length > 5 && !strcmp(entry[i]->d_name + length - 5, ".json"))
            name[(*count)++] = arena_strndup(a, entry[i]->d_name, length - 5);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    return name;
}

/* For the message about a wrong one. */
static const char *known_devices(Arena *a)
{
    size_t n;
    const char **name = device_names(a, &n), *all = "";
    for (size_t i = 0; i < n; i++)
        all = arena_printf(a, "%s%s%s", all, *all ? ", " : "", name[i]);
    return all;
}

static bool is_file(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && !strcmp(name + n - 5, ".json");
}

static const char *path_of(Arena *a, const char *name)
{
    return is_file(name) ? name : arena_printf(a, "%s/%s.json", devices_dir(a), name);
}

Exit description_read(Session *s, const char *name, json_t **root)
{
    const char *dir = devices_dir(s->arena);
    bool simple = !strchr(name, '/') && name[0] != '.';
    const char *path = path_of(s->arena, name);
    if (!is_file(name) && (!simple || access(path, R_OK))) {
        diag_error(s->diag, (Span){0}, 562, "unknown device '%s'", name);
        const char *known = known_devices(s->arena);
        if (*known)
            diag_help(s->diag, "known devices: %s; or a description of your own, in a .json file",
                      known);
        else
            diag_help(s->diag, "no descriptions were found in '%s'", dir);
        return EXIT_usage;
    }
    json_error_t error;
    FILE *in = open_file(path);
    if (!in) {
        diag_error(s->diag, (Span){0}, 563, "%s: %s", path, open_error());
        return EXIT_usage;
    }
    *root = json_loadf(in, JSON_REJECT_DUPLICATES, &error);
    fclose(in);
    if (*root)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 563, "%s:%d: %s", path, error.line, error.text);
    return EXIT_usage;
}

const char *description_wrong(Arena *a, json_t *root)
{
    Description description = {0};
    return read_all(a, root, &description);
}

Exit device_load(Session *s, const char *name, Device *d)
{
    json_t *root;
    Description description = {0};
    Exit status = description_read(s, name, &root);
    if (status)
        return status;
    const char *wrong = read_all(s->arena, root, &description);
    json_decref(root);
    if (wrong) {
        diag_error(s->diag, (Span){0}, 563, "%s: %s", path_of(s->arena, name), wrong);
        return EXIT_usage;
    }
    *d = device_from(&description);
    return EXIT_done;
}
