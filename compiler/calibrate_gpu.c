/* calibrate_gpu.c - a GPU's numbers, from programs that mgc made and ran on it.
 *
 * Every program traces a few steps; base/measured.c makes numbers of the times of each class of
 * action. A description is given (--device), by which the programs are planned and predicted. What
 * was not measured keeps its number, and the note says so. */
#include "compiler/calibrate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/open.h"
#include "codegen/link/link.h"
#include "compiler/description.h"

#define LINK                                                                                       \
    "layout link {\n    device h100\n    mesh dp = 2\n    batch -> dp\n    microbatch 1\n}\n"
#define HOST(at)                                                                                   \
    "layout host {\n    device h100\n    microbatch 1\n    offload state, masters -> host\n"       \
    "    optimizer " at "\n}\n"

/* The first program has 32 layers of next to nothing: a step is its launches. The others take some
 * 0.1 ms an action on an h100, and fit a card of 12 GB. One is for descriptions that have fp8; one
 * does little but fetch and offload, for those that have a host, and one updates there what is
 * there; the last one needs two GPUs. */
static const Way ways[] = {
    {"launches",
     "bf16",
     {"layers=32", "hidden=64", "kv_heads=1", "group=1", "ffn=64", "vocab=256", "seq=64",
      "batch=1"},
     "10",
     "9:10",
     NULL,
     NULL},
    {"bf16",
     "bf16",
     {"hidden=2048", "kv_heads=8", "group=4", "ffn=8192", "vocab=16384", "seq=1024", "batch=8"},
     "10",
     "7:10",
     NULL,
     NULL},
    {"bf16_long",
     "bf16",
     {"hidden=2048", "kv_heads=4", "group=4", "head=128", "ffn=4096", "vocab=16384", "seq=4096",
      "batch=2"},
     "10",
     "7:10",
     NULL,
     NULL},
    {"f16",
     "f16",
     {"hidden=2048", "kv_heads=8", "group=4", "ffn=8192", "vocab=16384", "seq=1024", "batch=4"},
     "10",
     "7:10",
     NULL,
     NULL},
    {"fp8",
     "fp8",
     {"hidden=2048", "kv_heads=8", "group=4", "ffn=8192", "vocab=8192", "seq=1024", "batch=8"},
     "10",
     "7:10",
     NULL,
     NULL},
    {"tf32",
     "tf32",
     {"hidden=2048", "kv_heads=8", "group=4", "ffn=8192", "vocab=8192", "seq=1024", "batch=2"},
     "10",
     "7:10",
     NULL,
     NULL},
    {"f32",
     "f32",
     {"hidden=2048", "kv_heads=8", "group=4", "ffn=8192", "vocab=8192", "seq=1024", "batch=2"},
     "10",
     "7:10",
     NULL,
     NULL},
    {"f64",
     "f64",
     {"hidden=1024", "kv_heads=2", "group=8", "ffn=4096", "vocab=4096", "batch=4"},
     "10",
     "7:10",
     NULL,
     NULL},
    {"host",
     "bf16",
     {"hidden=4096", "kv_heads=16", "group=1", "ffn=16384", "vocab=1024", "seq=64", "batch=1"},
     "10",
     "7:10",
     HOST("device"),
     NULL},
    {"host_updates",
     "bf16",
     {"hidden=4096", "kv_heads=16", "group=1", "ffn=16384", "vocab=1024", "seq=64", "batch=1"},
     "10",
     "7:10",
     HOST("host"),
     NULL},
    {"link",
     "bf16",
     {"hidden=2048", "kv_heads=8", "group=4", "ffn=8192", "vocab=16384", "seq=1024", "batch=2"},
     "10",
     "7:10",
     LINK,
     NULL},
};
enum {
    WAYS = sizeof ways / sizeof *ways,
    LAUNCHES = 0,
    EIGHTS = 4,
    HOSTED = WAYS - 3,
    HOST_UPDATES = WAYS - 2,
    LINKED = WAYS - 1
};

/* ---- measuring ------------------------------------------------------------------------------- */

static int by_size(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The median time of the steps before `last` and after the second, which is captured; 0: there are
 * none. Milliseconds. */
static double median_step(const char *path, int last)
{
    double ms[64];
    char line[4096];
    int n = 0;
    FILE *f = open_file(path);
    while (f && n < 64 && fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, 0, NULL);
        const json_t *took = json_object_get(o, "step_ms"), *step = json_object_get(o, "step");
        if (json_is_number(took) && json_integer_value(step) > 2 && json_integer_value(step) < last)
            ms[n++] = json_number_value(took);
        json_decref(o);
    }
    if (f)
        fclose(f);
    qsort(ms, (size_t)n, sizeof *ms, by_size);
    return n ? ms[n / 2] : 0;
}

/* Seconds of a step that was not traced. */
static double untraced(const Calibration *c, const Way *w)
{
    return 1e-3 * median_step(arena_printf(c->s->arena, "%s/metrics.jsonl", calibrate_out(c, w)),
                              atoi(w->trace));
}

static bool add_launches(const Calibration *c, const Way *w, const Report *r, Measured *m)
{
    double calls = 0;
    const double seconds = untraced(c, w);
    for (size_t i = 0; i < r->kinds.n; i++)
        calls += r->kinds.data[i].calls / r->steps;
    if (seconds > 0)
        measured_launches(m, seconds, calls);
    return seconds > 0;
}

static bool add_transfers(const Calibration *c, const Way *w, const Report *r, Measured *m)
{
    const double seconds = untraced(c, w);
    if (seconds > 0)
        measured_transfers(m, seconds, r->predicted * 1e-3 / r->steps);
    return seconds > 0 && report_classes(r, m);
}

static Exit no_gpu(const Calibration *c)
{
    diag_error(c->s->diag, (Span){0}, 546,
               "there is no GPU to measure: a program made for '%s' found none that it can use",
               c->s->o->device);
    diag_help(c->s->diag, "it looked for an NVIDIA driver and a GPU of compute capability 8.0 or "
                          "later, and said above what it found; nvidia-smi lists them");
    return EXIT_tool;
}

static Exit measure(Calibration *c, const Way *w, Measured *m, ReportGpu *gpu)
{
    Report r;
    int status;
    const Exit wrong = calibrate_way(c, w, &r, &status);
    if (status == CALIBRATE_NO_GPU)
        return no_gpu(c);
    if (wrong)
        return wrong;
    *gpu = r.gpu;
    if (w == &ways[LAUNCHES] ? add_launches(c, w, &r, m)
        : w == &ways[HOSTED] ? add_transfers(c, w, &r, m)
                             : report_classes(&r, m))
        return EXIT_done;
    diag_error(c->s->diag, (Span){0}, 547,
               "the run of '%s' has a step or an action that cannot be "
               "measured",
               w->name);
    return EXIT_tool;
}

/* ---- the description ------------------------------------------------------------------------- */

static double base_number(void *ctx, const char *key)
{
    return json_number_value(json_object_get(ctx, key));
}

static void set_facts(json_t *o, const ReportGpu *g)
{
    json_object_set_new(o, "memory", json_integer((json_int_t)g->memory));
    json_object_set_new(o, "threads", json_integer((json_int_t)g->multiprocessors));
    if (json_object_get(o, "architecture"))
        json_object_set_new(o, "architecture", json_integer((json_int_t)g->capability));
    if (g->capability == 90)
        json_object_set_new(o, "warpgroups", json_integer(1));
    else
        json_object_del(o, "warpgroups");
}

/* "NVIDIA H100 80GB HBM3 ..., 2026-01-31; as h100: link_bandwidth, ..." */
static const char *note(const Calibration *c, const ReportGpu *g, const json_t *o,
                        const MeasuredNumber *k, int n, bool disk)
{
    Arena *a = c->s->arena;
    const char *kept = "", *key;
    json_t *value;
    char day[16];
    const time_t now = time(NULL);
    struct tm at;
    strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&now, &at));
    json_object_foreach((json_t *)o, key, value) {
        bool known = !json_is_number(value) || !strcmp(key, "memory") || !strcmp(key, "threads") ||
                     !strcmp(key, "architecture") || !strcmp(key, "warpgroups") ||
                     (disk && !strncmp(key, "disk_", 5));
        for (int i = 0; i < n; i++)
            known |= k[i].value > 0 && !strcmp(k[i].key, key);
        if (!known)
            kept = arena_printf(a, "%s%s %s", kept, *kept ? "," : "", key);
    }
    return arena_printf(a,
                        "%s, %.4g of %.4g GB free, driver for CUDA %d.%d, by mgc %s on %s; not "
                        "measured, as %s:%s",
                        g->name, g->free * 1e-9, g->memory * 1e-9, (int)g->driver / 1000,
                        (int)g->driver % 1000 / 10, MGC_VERSION, day, c->s->o->device, kept);
}

/* Is there a link to measure, and NCCL for it? */
static bool has_link(const Calibration *c, const ReportGpu *gpu)
{
    const bool nccl =
        access(arena_printf(c->s->arena, "%s/nccl", home_dir(c->s->arena)), R_OK) == 0;
    if (gpu->gpus > 1 && !nccl)
        fputs("mgc calibrate: the link between GPUs is not measured: this mgc was built without "
              "NCCL\n",
              stderr);
    return gpu->gpus > 1 && nccl;
}

/* Does the description have a host to offload to? */
static bool has_host(const json_t *o)
{
    return json_number_value(json_object_get(o, "host_memory")) > 0;
}

static bool has_host_bandwidth(const json_t *o)
{
    return json_number_value(json_object_get(o, "host_bandwidth")) > 0;
}

static bool has_fp8(const json_t *o)
{
    return json_number_value(json_object_get(o, "flops_fp8_per_thread")) > 0;
}

/* Is a program for what the description has? */
static bool is_wanted(int way, const json_t *o)
{
    return way == HOSTED         ? has_host(o)
           : way == HOST_UPDATES ? has_host_bandwidth(o)
           : way == EIGHTS       ? has_fp8(o)
                                 : true;
}

/* A factor of the rows of attention for halves: "attention.forward", "attention.gradient". */
static void scale_attention(json_t *o, const char *key, double factor)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(o, "attention"), i, row) {
        const char *kernels = json_string_value(json_object_get(row, "kernels"));
        const double was = json_number_value(json_object_get(row, key));
        if (!strcmp(kernels, "flash") || !strcmp(kernels, "flash_sm90"))
            json_object_set_new(row, key, json_real(was * factor));
    }
}

static void set_number(json_t *o, const MeasuredNumber *k)
{
    static const char list[] = "attention.";
    if (!strncmp(k->key, list, sizeof list - 1))
        scale_attention(o, k->key + sizeof list - 1, k->value);
    else
        json_object_set_new(o, k->key, json_real(k->value));
}

static Exit write_gpu(const Calibration *c, const Measured *m, const ReportGpu *gpu, bool linked,
                      json_t *o)
{
    Session *s = c->s;
    MeasuredNumber k[MEASURED_NUMBERS];
    const int n = measured_numbers(m, base_number, o, gpu->multiprocessors, k);
    measured_table(m, base_number, o, stderr);
    for (int i = 0; i < n; i++) {
        if (k[i].value > 0 || (!linked && !strcmp(k[i].key, "link_bandwidth")) ||
            (!has_host(o) && !strncmp(k[i].key, "host_", 5)) ||
            (!has_host_bandwidth(o) && !strcmp(k[i].key, "host_bandwidth")) ||
            (!has_fp8(o) && strstr(k[i].key, "_fp8")))
            continue;
        diag_error(s->diag, (Span){0}, 547,
                   "%s was not measured: no action of class '%s' took as long as four launches",
                   k[i].key, k[i].class_);
        diag_help(s->diag, "larger sizes: -D hidden=, ffn=, seq=, batch= (lib/mgc/calibrate.mg)");
        return EXIT_tool;
    }
    const bool disk = has_host(o) && calibrate_disk(o);
    const char *text = note(c, gpu, o, k, n, disk);
    for (int i = 0; i < n; i++)
        if (k[i].value > 0)
            set_number(o, &k[i]);
    set_facts(o, gpu);
    json_object_set_new(o, "measured", json_string(text));
    json_object_set_new(o, "known", json_string("measured"));
    json_object_set_new(o, "known_by", json_string("mgc calibrate, on this GPU"));
    const char *wrong = description_wrong(s->arena, o);
    if (wrong) {
        diag_error(s->diag, (Span){0}, 547, "what was measured makes no description: %s", wrong);
        diag_help(s->diag, "the table above has the times; was the GPU at work for others?");
        return EXIT_tool;
    }
    Output out;
    Exit status = output_open(s, &out, s->o->out);
    if (status)
        return status;
    json_dumpf(o, out.file, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    fputc('\n', out.file);
    return output_close(s, &out, true);
}

Exit calibrate_gpu(Calibration *c)
{
    json_t *o = NULL;
    ReportGpu gpu = {0};
    Measured *m = NEW_ARRAY(c->s->arena, Measured, 1);
    Exit wrong = description_read(c->s, c->s->o->device, &o);
    for (int k = 0; k < LINKED && !wrong; k++)
        if (is_wanted(k, o))
            wrong = measure(c, &ways[k], m, &gpu);
    const bool linked = !wrong && has_link(c, &gpu);
    if (linked)
        wrong = measure(c, &ways[LINKED], m, &gpu);
    if (!wrong)
        wrong = write_gpu(c, m, &gpu, linked, o);
    json_decref(o);
    return wrong;
}

/* ---- as sources ------------------------------------------------------------------------------ */

/* A folder for each program, and a line in `runs`: its name, and its arguments there. */
static Exit emit_way(Calibration *c, const Way *w, const char *to, FILE *runs)
{
    Arena *a = c->s->arena;
    const char *dir = arena_printf(a, "%s/%s", to, w->name), *argv[CALIBRATE_ARGUMENTS];
    Exit wrong;
    const Plan *p = calibrate_plan(c, w, &wrong);
    if (wrong)
        return wrong;
    if (mkdir(dir, 0755) ||
        !cuda_write_texts(p, llvm_kernels, KERNEL_assembly, dir, "kernels.fatbin"))
        return calibrate_broken(c->s, dir);
    calibrate_arguments(a, w, ".", argv);
    fputs(w->name, runs);
    for (int i = 0; argv[i]; i++)
        fprintf(runs, " %s", argv[i]);
    fputc('\n', runs);
    return EXIT_done;
}

static bool write_description(const char *path, const json_t *o)
{
    return json_dump_file(o, path, JSON_INDENT(2) | JSON_PRESERVE_ORDER) == 0;
}

Exit calibrate_gpu_emit(Calibration *c, const char *to)
{
    Arena *a = c->s->arena;
    json_t *o = NULL;
    Exit wrong = description_read(c->s, c->s->o->device, &o);
    if (wrong)
        return wrong;
    FILE *runs = mkdir(to, 0755) ? NULL : fopen(arena_printf(a, "%s/runs", to), "w");
    if (!runs || !calibrate_tokens(arena_printf(a, "%s/tokens", to)) ||
        !write_description(arena_printf(a, "%s/device.json", to), o))
        wrong = calibrate_broken(c->s, to);
    for (int k = 0; k < WAYS && !wrong; k++)
        if (is_wanted(k, o))
            wrong = emit_way(c, &ways[k], to, runs);
    if (runs && fclose(runs) && !wrong)
        wrong = calibrate_broken(c->s, to);
    json_decref(o);
    return wrong;
}
