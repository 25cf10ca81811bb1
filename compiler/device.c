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

typedef enum FieldKind {
    FIELD_text,
    FIELD_real,
    FIELD_bytes,
    FIELD_count,
    FIELD_whole,
    FIELD_table
} FieldKind;

/* The fields of a description. An optional one that is left out is 0. */
typedef struct Description {
    const char *name, *target, *processor, *measured, *known, *known_by, *link;
    double memory, threads; /* or "host": what this machine has */
    double flops_f32, flops_f64, flops_tf32, flops_bf16, flops_f16, flops_fp8;
    double product_share, product_share_f32, product_share_f64, product_share_tf32,
        product_share_fp8;
    double attention_share, attention_grad_share, exponentials, operations;
    AttentionShare *attention;
    int nattention;
    double thread_bandwidth, bandwidth, weights_share;
    double launch, streams;
    double link_bandwidth, link_seconds, link_slowdown, switch_bandwidth;
    double architecture, warpgroups;
    double product_rows, product_columns;
    double node_ranks, node_bandwidth, node_seconds, machine_ranks, rank_spread;
    double watts, idle_watts;
    struct {
        double ranks, bandwidth, seconds;
    } pod;
    double host_all;
    struct {
        double memory, in, out, both, seconds;
    } host, disk;
    double host_bandwidth;
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
    OPTIONAL("known", text, known, 0, 0), /* evident() */
    OPTIONAL("known_by", text, known_by, 0, 0),
    OPTIONAL("architecture", whole, architecture, 80, 999),
    OPTIONAL("warpgroups", whole, warpgroups, 0, 1),
    FIELD("memory", bytes, memory, 1 << 20, 0x1p60),
    FIELD("threads", count, threads, 1, 4096),
    FIELD("flops_f32_per_thread", real, flops_f32, 1e6, 1e18),
    FIELD("flops_f64_per_thread", real, flops_f64, 1e6, 1e18),
    FIELD("flops_tf32_per_thread", real, flops_tf32, 1e6, 1e18),
    FIELD("flops_bf16_per_thread", real, flops_bf16, 1e6, 1e18),
    FIELD("flops_f16_per_thread", real, flops_f16, 1e6, 1e18),
    OPTIONAL("flops_fp8_per_thread", real, flops_fp8, 1e6, 1e18), /* only_of() */
    FIELD("product_share", real, product_share, 0.01, 1.5),
    OPTIONAL("product_share_f32", real, product_share_f32, 0.01, 1.5),
    OPTIONAL("product_share_f64", real, product_share_f64, 0.01, 1.5),
    OPTIONAL("product_share_tf32", real, product_share_tf32, 0.01, 1.5),
    OPTIONAL("product_share_fp8", real, product_share_fp8, 0.01, 1.5),
    FIELD("product_rows", whole, product_rows, 0, 4096),
    FIELD("product_columns", whole, product_columns, 0, 4096),
    OPTIONAL("attention_share", real, attention_share, 1e-3, 1), /* only_of() */
    OPTIONAL("attention_grad_share", real, attention_grad_share, 1e-3, 1),
    OPTIONAL("attention", table, attention, 0, 0),
    FIELD("exponentials_per_thread", real, exponentials, 1e3, 1e18),
    OPTIONAL("operations_per_thread", real, operations, 1e6, 1e18), /* only_of() */
    FIELD("bandwidth_per_thread", real, thread_bandwidth, 1e6, 1e15),
    FIELD("bandwidth", real, bandwidth, 1e6, 1e15),
    OPTIONAL("weights_share", real, weights_share, 0.1, 10),
    FIELD("launch_seconds", real, launch, 0, 1),
    FIELD("link_bandwidth", real, link_bandwidth, 1e3, 1e15),
    FIELD("link_seconds", real, link_seconds, 0, 1),
    FIELD("link_slowdown", real, link_slowdown, 1, 16),
    OPTIONAL("switch_bandwidth", real, switch_bandwidth, 1e3, 1e15), /* linked() */
    OPTIONAL("link", text, link, 0, 0),                              /* linked() */
    FIELD("node_ranks", whole, node_ranks, 1, 1 << 20),
    FIELD("node_bandwidth", real, node_bandwidth, 1e3, 1e15),
    FIELD("node_seconds", real, node_seconds, 0, 1),
    OPTIONAL("machine_ranks", whole, machine_ranks, 1, 1 << 20), /* placed() */
    OPTIONAL("rank_spread", real, rank_spread, 0, 0.5),
    OPTIONAL("watts", real, watts, 1e-3, 1e6), /* powered() */
    OPTIONAL("idle_watts", real, idle_watts, 1e-3, 1e6),
    OPTIONAL("pod_ranks", whole, pod.ranks, 1, 1 << 20),
    OPTIONAL("pod_bandwidth", real, pod.bandwidth, 1e3, 1e15),
    OPTIONAL("pod_seconds", real, pod.seconds, 0, 1),
    FIELD("streams", whole, streams, 1, 3),
    OPTIONAL("host_memory", bytes, host.memory, 1 << 20, 0x1p50), /* level_of() */
    OPTIONAL("host_in", real, host.in, 1e6, 1e15),
    OPTIONAL("host_out", real, host.out, 1e6, 1e15),
    OPTIONAL("host_both", real, host.both, 1e6, 1e15),
    OPTIONAL("host_seconds", real, host.seconds, 0, 1),
    OPTIONAL("host_bandwidth", real, host_bandwidth, 1e6, 1e15),
    OPTIONAL("host_all", real, host_all, 1e6, 1e15), /* linked() */
    OPTIONAL("disk_memory", bytes, disk.memory, 1 << 20, 0x1p50),
    OPTIONAL("disk_in", real, disk.in, 1e6, 1e15),
    OPTIONAL("disk_out", real, disk.out, 1e6, 1e15),
    OPTIONAL("disk_both", real, disk.both, 1e6, 1e15),
    OPTIONAL("disk_seconds", real, disk.seconds, 0, 1),
};
enum { NFIELDS = sizeof fields / sizeof *fields };

static double host_amount(FieldKind kind)
{
    cpu_set_t set;
    if (kind == FIELD_bytes)
        return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* An error of a description; text: NULL if there is none. key: where; row: of a table, from 0 on,
 * or -1. */
typedef struct Wrong {
    const char *text, *key;
    int row;
} Wrong;

static const char *const kernels_name[ATTENTION_KERNELS] = {
    [ATTENTION_flash] = "flash",
    [ATTENTION_flash_sm90] = "flash_sm90",
    [ATTENTION_flash_tf32] = "flash_tf32",
    [ATTENTION_flash_f32] = "flash_f32",
};

/* A number of a row. */
static const char *row_number(Arena *a, json_t *row, const char *key, double min, double max,
                              double *to)
{
    const json_t *v = json_object_get(row, key);
    *to = v && json_is_number(v) ? json_number_value(v) : NAN;
    return *to >= min && *to <= max
               ? NULL
               : arena_printf(a, "'%s' is a number from %g to %g", key, min, max);
}

static const char *read_row(Arena *a, json_t *row, AttentionShare *to)
{
    const char *wrong = NULL;
    const char *name = json_string_value(json_object_get(row, "kernels"));
    if (!json_is_object(row) || json_object_size(row) != 5)
        return "a row has 'kernels', 'head', 'keys', 'forward' and 'gradient', and no more";
    to->kernels = 0;
    while (to->kernels < ATTENTION_KERNELS && (!name || strcmp(name, kernels_name[to->kernels])))
        to->kernels++;
    if (to->kernels == ATTENTION_KERNELS)
        return "'kernels' is \"flash\", \"flash_sm90\", \"flash_tf32\" or \"flash_f32\"";
    if ((wrong = row_number(a, row, "head", 1, 256, &to->head)) ||
        (wrong = row_number(a, row, "keys", 1, 0x1p40, &to->keys)) ||
        (wrong = row_number(a, row, "forward", 1e-6, 1.5, &to->forward)) ||
        (wrong = row_number(a, row, "gradient", 1e-6, 1.5, &to->gradient)))
        return wrong;
    return NULL;
}

/* The rows in any order, no two of them for the same. */
static Wrong read_attention(Arena *a, const json_t *rows, Description *d)
{
    bool flash = false;
    if (!json_is_array(rows) || !json_array_size(rows) || json_array_size(rows) > 4096)
        return (Wrong){"is a list of rows", "attention", -1};
    d->nattention = (int)json_array_size(rows);
    d->attention = NEW_ARRAY(a, AttentionShare, (size_t)d->nattention);
    for (int i = 0; i < d->nattention; i++) {
        AttentionShare *r = &d->attention[i];
        const char *wrong = read_row(a, json_array_get(rows, (size_t)i), r);
        if (wrong)
            return (Wrong){arena_printf(a, "row %d: %s", i + 1, wrong), "attention", i};
        for (const AttentionShare *o = d->attention; o < r; o++)
            if (o->kernels == r->kernels && !(o->head < r->head || o->head > r->head) &&
                !(o->keys < r->keys || o->keys > r->keys))
                return (Wrong){arena_printf(a, "row %d is for the same as row %d", i + 1,
                                            (int)(o - d->attention) + 1),
                               "attention", i};
        flash = flash || r->kernels == ATTENTION_flash;
    }
    if (!flash)
        return (Wrong){"has no row of the kernels \"flash\", which are those of all other classes",
                       "attention", -1};
    return (Wrong){0};
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

/* A host has one class of kernels of attention, a GPU a table of them. */
static Wrong only_of(Arena *a, const json_t *root, const Description *d)
{
    static const char *const of_host[] = {"operations_per_thread", "attention_share",
                                          "attention_grad_share"};
    const bool cuda = !strcmp(d->target, "cuda");
    if (!cuda && (d->attention || d->flops_fp8 > 0))
        return (Wrong){"is of target \"cuda\"; a host has 'attention_share' and no fp8",
                       d->attention ? "attention" : "flops_fp8_per_thread", -1};
    if (cuda && !d->attention)
        return (Wrong){"'attention' is missing: a list of rows", NULL, -1};
    for (int i = 0; i < 3; i++) {
        const bool has = json_object_get(root, of_host[i]);
        if (cuda && has)
            return (Wrong){"is of target \"host\"; a GPU has 'attention'", of_host[i], -1};
        if (!cuda && !has && i)
            return (Wrong){arena_printf(a, "'%s' is missing", of_host[i]), NULL, -1};
    }
    return (Wrong){0};
}

/* A level has all of its fields, or none. */
static Wrong whole_level(Arena *a, const json_t *root, const char *level)
{
    static const char *const part[] = {"memory", "in", "out", "both", "seconds"};
    enum { PARTS = sizeof part / sizeof *part };
    const char *has = NULL, *lacks = NULL;
    for (int i = 0; i < PARTS; i++) {
        const char *key = arena_printf(a, "%s_%s", level, part[i]);
        *(json_object_get(root, key) ? &has : &lacks) = key;
    }
    if (!has || !lacks)
        return (Wrong){0};
    return (Wrong){arena_printf(a, "'%s' is missing, where there is '%s'", lacks, has), NULL, -1};
}

/* How GPUs of a node are linked: by links of their own, or through their host, whose rates have to
 * be there then. */
static Wrong linked(const json_t *root, const Description *d)
{
    const bool cuda = !strcmp(d->target, "cuda"), host = d->link && !strcmp(d->link, "host");
    if (d->link && strcmp(d->link, "own") && !host)
        return (Wrong){"is \"own\" or \"host\"", "link", -1};
    if (d->link && !cuda)
        return (Wrong){"is of target \"cuda\": ranks on processors have memory and the network",
                       "link", -1};
    if (host && !json_object_get(root, "host_memory"))
        return (Wrong){"is \"host\", and 'host_memory' and the host's rates are missing", "link",
                       -1};
    if (d->switch_bandwidth > 0 && (!cuda || host))
        return (Wrong){"is of GPUs with links of their own, whose switch adds up",
                       "switch_bandwidth", -1};
    if (d->host_all > 0 && !host)
        return (Wrong){"is of GPUs whose 'link' is \"host\"", "host_all", -1};
    return (Wrong){0};
}

/* Machines are whole parts of a node, nodes of a pod; what is farther is no faster. */
static Wrong placed(Arena *a, const json_t *root, const Description *d)
{
    const bool pods = json_object_get(root, "pod_ranks");
    const int64_t node = (int64_t)d->node_ranks, machine = (int64_t)d->machine_ranks;
    const int64_t pod = (int64_t)d->pod.ranks;
    if (machine && node % machine)
        return (Wrong){arena_printf(a,
                                    "%lld does not divide 'node_ranks', %lld: links join whole "
                                    "machines",
                                    (long long)machine, (long long)node),
                       "machine_ranks", -1};
    if (machine && machine != node && d->link && !strcmp(d->link, "host"))
        return (Wrong){arena_printf(a,
                                    "%lld is not 'node_ranks', %lld, where 'link' is \"host\": "
                                    "links through a host join its own ranks",
                                    (long long)machine, (long long)node),
                       "machine_ranks", -1};
    for (int i = 0; i < 2; i++)
        if (pods != !!json_object_get(root, i ? "pod_seconds" : "pod_bandwidth"))
            return (Wrong){"'pod_ranks', 'pod_bandwidth' and 'pod_seconds' belong together: one is "
                           "missing",
                           NULL, -1};
    if (pods && (pod % node || pod == node))
        return (Wrong){arena_printf(a, "%lld is not two or more times 'node_ranks', %lld",
                                    (long long)pod, (long long)node),
                       "pod_ranks", -1};
    if (d->pod.bandwidth > d->node_bandwidth)
        return (Wrong){arena_printf(a, "%g is more than 'node_bandwidth', %g", d->pod.bandwidth,
                                    d->node_bandwidth),
                       "pod_bandwidth", -1};
    if (pods && d->pod.seconds < d->node_seconds)
        return (Wrong){
            arena_printf(a, "%g is less than 'node_seconds', %g", d->pod.seconds, d->node_seconds),
            "pod_seconds", -1};
    return (Wrong){0};
}

static Wrong powered(Arena *a, const json_t *root, const Description *d)
{
    if (!json_object_get(root, "watts") != !json_object_get(root, "idle_watts"))
        return (Wrong){"'watts' and 'idle_watts' belong together: one is missing", NULL, -1};
    if (d->idle_watts > d->watts)
        return (Wrong){arena_printf(a, "%g is more than 'watts', %g", d->idle_watts, d->watts),
                       "idle_watts", -1};
    return (Wrong){0};
}

static Wrong evident(const Description *d)
{
    if (!d->known != !d->known_by)
        return (Wrong){d->known ? "'known_by' is missing" : "'known' is missing", NULL, -1};
    if (d->known && strcmp(d->known, "measured") && strcmp(d->known, "calibrated") &&
        strcmp(d->known, "guessed"))
        return (Wrong){"is \"measured\", \"calibrated\" or \"guessed\"", "known", -1};
    return (Wrong){0};
}

static Wrong read_all(Arena *a, json_t *root, Description *d)
{
    const char *key;
    json_t *value;
    if (!json_is_object(root))
        return (Wrong){"a description is one object", NULL, -1};
    json_object_foreach(root, key, value) {
        size_t i = 0;
        while (i < NFIELDS && strcmp(fields[i].key, key))
            i++;
        if (i == NFIELDS)
            return (Wrong){arena_printf(a, "unknown key '%s'", key), NULL, -1};
        Wrong wrong = {.key = fields[i].key, .row = -1};
        if (fields[i].kind == FIELD_table)
            wrong = read_attention(a, value, d);
        else
            wrong.text = read_field(a, &fields[i], value, d);
        if (wrong.text)
            return wrong;
    }
    for (size_t i = 0; i < NFIELDS; i++)
        if (!fields[i].optional && !json_object_get(root, fields[i].key))
            return (Wrong){arena_printf(a, "'%s' is missing", fields[i].key), NULL, -1};
    if (strcmp(d->target, "host") && strcmp(d->target, "cuda"))
        return (Wrong){
            arena_printf(a, "there is no target '%s', only \"host\" and \"cuda\"", d->target), NULL,
            -1};
    if (d->processor && !processor_find(d->processor))
        return (Wrong){
            arena_printf(a, "there is no processor '%s', only those of --cpu", d->processor), NULL,
            -1};
    const bool cuda = !strcmp(d->target, "cuda");
    if (!cuda && json_object_get(root, "host_memory"))
        return (Wrong){"is of target \"cuda\": a processor has its host's memory itself",
                       "host_memory", -1};
    if (json_object_get(root, "host_bandwidth") && !json_object_get(root, "host_memory"))
        return (Wrong){"'host_memory' is missing, where there is 'host_bandwidth'", NULL, -1};
    if (cuda && json_object_get(root, "disk_memory") && !json_object_get(root, "host_memory"))
        return (Wrong){"'host_memory' is missing: a GPU reaches a disk through its host", NULL, -1};
    d->operations = d->operations > 0 || cuda ? d->operations : 0.2 * d->flops_f32;
    const Wrong wrong[] = {
        only_of(a, root, d), whole_level(a, root, "host"), whole_level(a, root, "disk"),
        linked(root, d),     placed(a, root, d),           powered(a, root, d),
        evident(d)};
    size_t i = 0;
    while (i + 1 < sizeof wrong / sizeof *wrong && !wrong[i].text)
        i++;
    return wrong[i];
}

/* The line of a key in the file's text, or of a row of its list. The parser does not tell. */
static int line_of(const char *text, const Wrong *w)
{
    int line = 1;
    const size_t n = strlen(w->key);
    const char *at = text;
    while ((at = strchr(at, '"')) && (strncmp(at + 1, w->key, n) || at[n + 1] != '"' ||
                                      at[n + 2 + strspn(at + n + 2, " \t\n")] != ':'))
        at++;
    for (int i = 0; at && i <= w->row; i++) {
        const char *next = strchr(at + 1, '{');
        at = next ? next : at;
    }
    for (; at && at > text; at--)
        line += at[-1] == '\n';
    return line;
}

static Device device_from(const Description *d)
{
    double stream = d->threads * d->thread_bandwidth;
    return (Device){.name = d->name,
                    .target = strcmp(d->target, "cuda") ? TARGET_host : TARGET_cuda,
                    .processor = d->processor,
                    .measured = d->measured,
                    .known = d->known,
                    .known_by = d->known_by,
                    .architecture = (int)d->architecture,
                    .warpgroups = d->warpgroups > 0,
                    .memory = (int64_t)d->memory,
                    .flops_f32 = d->threads * d->flops_f32,
                    .flops_f64 = d->threads * d->flops_f64,
                    .flops_tf32 = d->threads * d->flops_tf32,
                    .flops_bf16 = d->threads * d->flops_bf16,
                    .flops_f16 = d->threads * d->flops_f16,
                    .flops_fp8 = d->threads * d->flops_fp8,
                    .product_share = d->product_share,
                    .product_share_f32 = d->product_share_f32,
                    .product_share_f64 = d->product_share_f64,
                    .product_share_tf32 = d->product_share_tf32,
                    .product_share_fp8 = d->product_share_fp8,
                    .attention_share = d->attention_share,
                    .attention_grad_share = d->attention_grad_share,
                    .attention = d->attention,
                    .nattention = d->nattention,
                    .exponentials = d->threads * d->exponentials,
                    .operations = d->threads * d->operations,
                    .bandwidth = fmin(stream, d->bandwidth),
                    .launch = d->launch,
                    .link_bandwidth = d->link_bandwidth,
                    .link_seconds = d->link_seconds,
                    .link_slowdown = d->link_slowdown,
                    .switch_bandwidth = d->switch_bandwidth,
                    .through_host = d->link && !strcmp(d->link, "host"),
                    .host_all = d->host_all,
                    .product_rows = (int)d->product_rows,
                    .product_columns = (int)d->product_columns,
                    .node_ranks = (int)d->node_ranks,
                    .node_bandwidth = d->node_bandwidth,
                    .node_seconds = d->node_seconds,
                    .pod_ranks = (int)d->pod.ranks,
                    .pod_bandwidth = d->pod.bandwidth,
                    .pod_seconds = d->pod.seconds,
                    .rank_spread = d->rank_spread,
                    .watts = d->watts,
                    .idle_watts = d->idle_watts,
                    .machine_ranks = (int)d->machine_ranks,
                    .weights_share = d->weights_share > 0 ? d->weights_share : 1,
                    .level = {[LEVEL_host] = {(int64_t)d->host.memory, d->host.in, d->host.out,
                                              d->host.both, d->host.seconds},
                              [LEVEL_disk] = {(int64_t)d->disk.memory, d->disk.in, d->disk.out,
                                              d->disk.both, d->disk.seconds}},
                    .host_bandwidth = d->host_bandwidth,
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

/* Of a file; a zero byte follows its last one. */
static const char *read_text(Arena *a, FILE *in, size_t *length)
{
    size_t size = 1 << 14, n = 0, got;
    char *text = arena_alloc(a, size);
    while ((got = fread(text + n, 1, size - n - 1, in)) > 0) {
        n += got;
        if (n + 1 == size) {
            char *larger = arena_alloc(a, 2 * size);
            memcpy(larger, text, n);
            text = larger;
            size *= 2;
        }
    }
    text[n] = 0;
    *length = n;
    return text;
}

static const char *path_of(Arena *a, const char *name)
{
    return is_file(name) ? name : arena_printf(a, "%s/%s.json", devices_dir(a), name);
}

/* The description as JSON, and its text. */
static Exit read_description(Session *s, const char *name, json_t **root, const char **text)
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
    size_t length;
    *text = read_text(s->arena, in, &length);
    fclose(in);
    *root = json_loadb(*text, length, JSON_REJECT_DUPLICATES, &error);
    if (*root)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 563, "%s:%d: %s", path, error.line, error.text);
    return EXIT_usage;
}

Exit description_read(Session *s, const char *name, json_t **root)
{
    const char *text;
    return read_description(s, name, root, &text);
}

const char *description_wrong(Arena *a, json_t *root)
{
    Description description = {0};
    const Wrong wrong = read_all(a, root, &description);
    return wrong.text && wrong.key ? arena_printf(a, "'%s' %s", wrong.key, wrong.text) : wrong.text;
}

Exit device_load(Session *s, const char *name, Device *d)
{
    json_t *root;
    const char *text;
    Description description = {0};
    Exit status = read_description(s, name, &root, &text);
    if (status)
        return status;
    const char *path = path_of(s->arena, name);
    const Wrong wrong = read_all(s->arena, root, &description);
    json_decref(root);
    if (wrong.text && wrong.key)
        diag_error(s->diag, (Span){0}, 563, "%s:%d: '%s' %s", path, line_of(text, &wrong),
                   wrong.key, wrong.text);
    else if (wrong.text)
        diag_error(s->diag, (Span){0}, 563, "%s: %s", path, wrong.text);
    if (wrong.text)
        return EXIT_usage;
    *d = device_from(&description);
    return EXIT_done;
}
