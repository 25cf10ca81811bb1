/* info.c - prints --info, the table for a bug report, and --dry-run, the checks before a start. */
#include "runtime/checkpoint/base.h"
#include "runtime/data/pack.h"
#include "runtime/levels.h"
#include "runtime/net/ranks.h"
#include "runtime/rollout/rollout.h"
#include "runtime/room.h"
#include "runtime/save.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

static void cpu_name(char *name, size_t size)
{
    char line[512];
    snprintf(name, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            snprintf(name, size, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"),
                     strchr(line, ':') + 2);
            break;
        }
    if (f)
        fclose(f);
}

static void row(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void row(const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("| %s | ", name);
    vprintf(fmt, ap);
    puts(" |");
    va_end(ap);
}

/* Rows of what each level has, and of the way of transfers. */
static void info_levels(const mg_run *r)
{
    for (int l = MG_LEVEL_HOST; l < MG_LEVELS; l++) {
        char *way = rt_levels_way(r, l);
        if (r->program->level_bytes[l])
            row("offloaded", "%" PRId64 " bytes (%s) of a rank, to %s", r->program->level_bytes[l],
                rt_bytes_text((double)r->program->level_bytes[l]).text,
                l == MG_LEVEL_HOST ? "the memory of the host" : "a file");
        if (way)
            row("transfers", "%s", way);
        free(way);
    }
}

void rt_info(const mg_run *r)
{
    const mg_program *p = r->program;
    rt_memory m = rt_memory_plan(r);
    struct utsname u;
    char cpu[256];
    int64_t parameters = 0;
    int tensors = 0;
    for (int i = 0; i < r->params.n; i++) {
        const rt_external *x = &r->params.item[i];
        tensors += !rt_base_beside(x);
        parameters += rt_base_beside(x) ? 0 : x->form->elements * rt_base_each(x);
    }
    cpu_name(cpu, sizeof cpu);
    uname(&u);
    puts("| | |\n|---|---|");
    row("program", "%s from %s", p->name, p->source);
    row("compiler", "%s, ABI %u (runtime: %d)", p->compiler, p->abi, MG_ABI);
    row("layout", "%s", p->layout);
    row("settings", "%s", p->config);
    row("fingerprint", "%016" PRIx64, p->fingerprint);
    row("parameters", "%" PRId64 " in %d tensors, %s", parameters, tensors,
        r->params.n && r->params.item[0].form->tensor->dtype == MG_BF16 ? "bf16"
        : p->fp8 == MG_E4M3 && p->fp8_gradients == MG_E4M3
            ? "f32, products in bf16, of layers in e4m3"
        : p->fp8 == MG_E4M3    ? "f32, products in bf16, of layers in e4m3 and e5m2"
        : p->half == MG_BF16   ? "f32, products in bf16"
        : p->half == MG_F16    ? "f32, products in f16"
        : p->compute == MG_F64 ? "f64"
                               : "f32");
    row("optimizer", "%s, %s of state", p->optimizer, rt_bytes_text((double)r->slots.bytes).text);
    row("step",
        "%" PRId64 " x %" PRId64 " tokens, vocabulary %" PRId64 ", %d actions, %s, predicted %s",
        p->batch, p->seq, p->vocab, p->nactions, rt_rate_text(p->step.flops, "FLOP").text,
        rt_ms_text(p->step.predicted_ms).text);
    row("entries", "step%s%s", p->eval.present ? ", eval" : "",
        p->sample.present ? ", sample" : "");
    char *metrics = rt_metrics_text(p);
    row("evaluates", "%s", metrics);
    free(metrics);
    row("ranks", "%d, started by %s", rt_ranks_of(p, ~(uint32_t)0),
        rt_launcher_name(r->world.launcher));
    if (p->piece)
        row("collectives", "by NCCL, and by copies through the host, in pieces of at most %s",
            rt_bytes_text((double)p->piece).text);
    else if (p->ngroups)
        row("collectives", "by NCCL");
    row("memory",
        "arena %" PRId64 " bytes (%s), of them persistent %" PRId64 "; scratch %" PRId64 " x %d",
        m.arena, rt_bytes_text((double)m.arena).text, p->persistent_bytes, p->scratch_bytes,
        r->threads);
    row("available", "%" PRId64 " bytes (%s): %s", m.available,
        rt_bytes_text((double)m.available).text, m.limit);
    info_levels(r);
    row("products", "%s", mg_products_name());
    bool there;
    char *gpu = rt_device_text(&there);
    if (gpu)
        row("GPU", "%s", gpu);
    free(gpu);
    row("processor", "%s, %d threads", cpu, r->threads);
    char *lacks = rt_cpu_lacks(p->cpu_features);
    row("processor lacks", "%s", lacks ? lacks : "nothing that is needed");
    row("system", "%s %s %s, glibc %s", u.sysname, u.release, u.machine, gnu_get_libc_version());
    free(lacks);
}

/* ---- --dry-run ---------------------------------------------------------------------------- */

static void line(const char *mark, const char *fmt, va_list ap)
{
    char *text = rt_shown_lines(fmt, ap);
    printf("[%s] %s", mark, text ? text : "");
    free(text);
    putchar('\n');
    fflush(stdout); /* before the message of a check that ends the program */
}

__attribute__((format(printf, 1, 2))) static void ok(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line("ok", fmt, ap);
    va_end(ap);
}

__attribute__((format(printf, 1, 2))) static void warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line("warn", fmt, ap);
    va_end(ap);
}

/* The first failure decides the exit code; the later checks still run. */
__attribute__((format(printf, 3, 4))) static void fail(rt_exit *code, rt_exit reason,
                                                       const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line("FAIL", fmt, ap);
    va_end(ap);
    if (*code == RT_DONE)
        *code = reason;
}

static void check_machine(const mg_run *r, rt_exit *code)
{
    const mg_program *p = r->program;
    ok("ABI %u, made by %s", p->abi, p->compiler);
    bool there;
    char *gpu = rt_device_text(&there);
    if (gpu && there)
        ok("GPU: %s", gpu);
    else if (gpu)
        fail(code, RT_NO_DEVICE, "GPU: %s", gpu);
    free(gpu);
    char *lacks = rt_cpu_lacks(p->cpu_features), *unknown = rt_cpu_unknown(p->cpu_features);
    if (lacks)
        fail(code, RT_MISFIT, "this processor lacks %s", lacks);
    else
        ok("this processor has what the kernels need");
    if (unknown)
        warn("features that cannot be asked for: %s", unknown);
    free(lacks);
    free(unknown);
    int cores = rt_default_threads();
    if (r->threads > cores)
        warn("%d threads on %d cores", r->threads, cores);
    else
        ok("%d threads on %d cores", r->threads, cores);
}

static void check_memory(const mg_run *r, rt_exit *code)
{
    rt_memory m = rt_memory_plan(r);
    rt_words planned = rt_bytes_text((double)m.total), there = rt_bytes_text((double)m.available);
    if (m.available >= 0 && m.total > m.available)
        fail(code, RT_FAILED,
             "memory: %" PRId64 " bytes (%s) are planned, %" PRId64 " (%s) available: %s", m.total,
             planned.text, m.available, there.text, m.limit);
    else
        ok("memory: %" PRId64 " bytes (%s) planned of %" PRId64 " (%s) available", m.total,
           planned.text, m.available, there.text);
}

/* The copy that checkpoints are written from is in the memory of the host. */
static void check_saving(const mg_run *r)
{
    const char *limit;
    const int64_t copy = rt_saving_wants(r), room = rt_room_memory(&limit);
    const int64_t taken = rt_arenas_are_shared ? rt_memory_plan(r).total : 0;
    rt_words wants = rt_bytes_text((double)copy), left = rt_bytes_text((double)(room - taken));
    if (!copy)
        return;
    if (room >= 0 && room < taken + copy)
        warn("checkpoints: a copy of the state takes %" PRId64 " bytes (%s) more, and %" PRId64
             " (%s) are left: steps will wait until they are written",
             copy, wants.text, room > taken ? room - taken : 0,
             room > taken ? left.text : "0 bytes");
    else
        ok("checkpoints: %s more, for the copy that they are written from beside the steps",
           wants.text);
}

static void check_levels(const mg_run *r, rt_exit *code)
{
    for (int l = MG_LEVEL_HOST; l < MG_LEVELS; l++) {
        rt_exit reason;
        char *text = rt_levels_room(r, l, rt_ranks_here(r), &reason);
        if (text && reason == RT_DONE)
            ok("%s", text);
        else if (text)
            fail(code, reason, "%s", text);
        free(text);
    }
}

char *rt_existing_part(const char *out)
{
    char *path = rt_printf("%s", out);
    struct stat s;
    while (stat(path, &s)) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            free(path);
            return rt_printf("%s", out[0] == '/' ? "/" : ".");
        }
        *slash = 0;
    }
    return path;
}

static void check_out(const mg_run *r, rt_exit *code)
{
    char *path = rt_existing_part(r->options->out), *why = NULL;
    struct statvfs v;
    struct stat s;
    if (stat(path, &s) || !S_ISDIR(s.st_mode))
        fail(code, RT_IO, "--out %s: %s is not a directory", r->options->out, path);
    else if (access(path, W_OK | X_OK))
        fail(code, RT_IO, "--out %s: %s cannot be written: %s", r->options->out, path,
             strerror(errno));
    else if ((why = rt_checkpoints_wrong(r->options->out)))
        fail(code, RT_IO, "%s", why);
    else if (statvfs(path, &v))
        fail(code, RT_IO, "--out %s: %s", r->options->out, strerror(errno));
    else {
        int64_t room = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
        int64_t count = r->options->keep ? r->options->keep + 1 : 1;
        int64_t need = rt_checkpoint_bytes(r) * count;
        rt_words has = rt_bytes_text((double)room), wants = rt_bytes_text((double)need);
        if (need > room)
            warn("--out %s: %s free; %" PRId64 " checkpoints take %s", r->options->out, has.text,
                 count, wants.text);
        else
            ok("--out %s: %s free; %" PRId64 " checkpoints take %s", r->options->out, has.text,
               count, wants.text);
    }
    free(why);
    free(path);
}

static void check_resume(const mg_run *r, rt_exit *code)
{
    rt_state s;
    if (!r->options->resume)
        return;
    if (strcmp(r->options->resume, "auto")) {
        char *why = rt_checkpoint_verify(r, r->options->resume, &s);
        if (why)
            fail(code, RT_BAD_DATA, "%s", why);
        else
            ok("%s: step %" PRId64 ", whole", r->options->resume, s.step);
        free(why);
        return;
    }
    int64_t *step = rt_checkpoint_list(r->options->out);
    bool found = false;
    for (int i = 0; step[i] >= 0 && !found; i++) {
        char *dir = rt_printf("%s/ckpt/%s", r->options->out, rt_checkpoint_name(step[i]).text);
        char *why = rt_checkpoint_verify(r, dir, &s);
        found = !why;
        if (why)
            warn("%s", why);
        else
            ok("%s: step %" PRId64 ", whole", dir, s.step);
        free(why);
        free(dir);
    }
    if (!found && step[0] >= 0)
        fail(code, RT_BAD_DATA, "no checkpoint in %s/ckpt can be used", r->options->out);
    else if (!found)
        ok("no checkpoint in %s/ckpt: the run starts afresh", r->options->out);
    free(step);
}

static void say_packing(const char *what, const rt_data *d)
{
    if (!d || !d->packs)
        return;
    char *text = rt_packing_text(d);
    ok("%s: %s", what, text);
    free(text);
}

/* The data check is last: bad data ends the program with its own message. */
static void check_data(mg_run *r)
{
    if (!r->options->data.n) {
        warn("data: no --data given");
        return;
    }
    rt_open_data(r);
    if (r->rollout) {
        ok("data: %" PRId64 " prompts", rt_rollout_prompts(r->rollout));
        return;
    }
    if (r->data->table)
        ok("data: %" PRId64 " rows in %d files", r->data->windows, r->data->nfiles);
    else
        ok("data: %" PRId64 " tokens in %d files, %" PRId64 " windows of %" PRId64, r->data->tokens,
           r->data->nfiles, r->data->windows, r->data->window);
    say_packing("data", r->data);
    say_packing("evaluation", r->val);
    if (r->val)
        ok("evaluation: %" PRId64 " tokens, %" PRId64 " windows", r->val->tokens, r->val->windows);
}

void rt_check_start(mg_run *r, rt_exit *code)
{
    check_resume(r, code);
    check_data(r);
}

rt_exit rt_dry_run(mg_run *r)
{
    rt_exit code = RT_DONE;
    check_machine(r, &code);
    check_memory(r, &code);
    check_saving(r);
    check_levels(r, &code);
    check_out(r, &code);
    rt_check_start(r, &code);
    return code;
}
