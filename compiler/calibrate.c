/* calibrate.c - mgc calibrate: this machine's numbers, or its GPU's, from programs that mgc makes
 * and runs. */
#include "compiler/calibrate.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/link/link.h"

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

Exit calibrate_broken(Session *s, const char *what)
{
    diag_error(s->diag, (Span){0}, 542, "%s: %s", what, strerror(errno));
    return EXIT_tool;
}

bool calibrate_tokens(const char *path)
{
    FILE *f = fopen(path, "wb");
    uint32_t state = 1;
    for (int i = 0; f && i < 200000; i++) {
        state = state * 1664525u + 1013904223u;
        putc((int)(state >> 24), f);
        putc(0, f);
    }
    bool ok = f && !ferror(f);
    return f && fclose(f) == 0 && ok;
}

/* ---- compiling ------------------------------------------------------------------------------- */

/* Does the command line define the same name? */
static bool replaced(const Options *o, const char *define)
{
    const size_t n = strcspn(define, "=");
    for (size_t i = 0; i < o->define.n; i++)
        if (strcspn(o->define.data[i], "=") == n && !strncmp(o->define.data[i], define, n))
            return true;
    return false;
}

static Exit write_layout(Session *s, const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    bool ok = f && fputs(text, f) >= 0;
    ok = f && fclose(f) == 0 && ok;
    return ok ? EXIT_done : calibrate_broken(s, path);
}

Plan *calibrate_plan(Calibration *c, const Way *w, Exit *wrong)
{
    Session *s = c->s;
    Options *o = NEW_ARRAY(s->arena, Options, 1);
    Compiled *all = NEW_ARRAY(s->arena, Compiled, 1); /* the plan refers to its device */
    Session one = {.arena = s->arena, .names = s->names, .diag = s->diag, .o = o};
    *o = *s->o;
    o->precision = w->precision;
    o->out = o->emit = NULL;
    o->define = (Words){0};
    for (size_t i = 0; i < s->o->define.n; i++)
        vec_push(s->arena, &o->define, s->o->define.data[i]);
    for (int i = 0; i < CALIBRATE_DEFINES && w->define[i]; i++)
        if (!replaced(s->o, w->define[i]))
            vec_push(s->arena, &o->define, w->define[i]);
    *wrong = EXIT_done;
    if (w->layout) {
        o->layout = arena_printf(s->arena, "%s/%s.mg", c->dir, w->name);
        *wrong = write_layout(s, o->layout, w->layout);
    }
    if (s->o->device) /* of GPUs the links are measured, by NCCL */
        o->collectives = "nccl";
    if (!*wrong)
        *wrong = compile_front(&one,
                               arena_printf(s->arena, "%s/%s", home_dir(s->arena),
                                            w->model ? w->model : "calibrate.mg"),
                               all);
    if (!*wrong)
        *wrong = compile_middle(&one, all, NULL, NULL);
    c->threads = all->device.threads;
    c->operations = all->device.operations;
    return *wrong ? NULL : all->plan;
}

/* ---- running --------------------------------------------------------------------------------- */

Exit calibrate_make(Calibration *c, const Way *w)
{
    Arena *a = c->s->arena;
    Exit wrong;
    fprintf(stderr, "mgc calibrate: %s\n", w->name);
    const Plan *p = calibrate_plan(c, w, &wrong);
    if (wrong)
        return wrong;
    return codegen_build(p, llvm_kernels, home_dir(a), arena_printf(a, "%s/%s", c->dir, w->name))
               ? EXIT_done
               : EXIT_tool;
}

const char *calibrate_out(const Calibration *c, const Way *w)
{
    return arena_printf(c->s->arena, "%s/%s-run", c->dir, w->name);
}

void calibrate_arguments(Arena *a, const Way *w, const char *dir,
                         const char *argv[CALIBRATE_ARGUMENTS])
{
    const char *const all[CALIBRATE_ARGUMENTS] = {"--data",
                                                  arena_printf(a, "u16:%s/tokens", dir),
                                                  "--steps",
                                                  w->steps,
                                                  "--trace",
                                                  w->trace,
                                                  "--save-every",
                                                  "0",
                                                  NULL};
    memcpy(argv, all, sizeof all);
}

Exit calibrate_run(Calibration *c, const Way *w, const char *out, Report *r, int *status)
{
    Session *s = c->s;
    Arena *a = s->arena;
    const char *program = arena_printf(a, "%s/%s", c->dir, w->name);
    const char *argv[CALIBRATE_ARGUMENTS + 4] = {program, "--out", out};
    calibrate_arguments(a, w, c->dir, argv + 3);
    *status = run_program(argv, true);
    if (!*status)
        return report_read(s, arena_printf(a, "%s/trace.json", out), r);
    if (*status != CALIBRATE_NO_GPU)
        diag_error(s->diag, (Span){0}, 542, "'%s' failed with status %d", program, *status);
    return EXIT_tool;
}

Exit calibrate_way(Calibration *c, const Way *w, Report *r, int *status)
{
    const Exit wrong = calibrate_make(c, w);
    *status = 0;
    return wrong ? wrong : calibrate_run(c, w, calibrate_out(c, w), r, status);
}

Exit command_calibrate(Session *s)
{
    Calibration c = {.s = s};
    Device d = {.target = TARGET_host};
    const bool emits = s->o->emit != NULL;
    Exit wrong = s->o->device ? device_load(s, s->o->device, &d) : EXIT_done;
    if (!wrong && d.target == TARGET_host && (s->o->define.n || emits)) {
        diag_error(s->diag, (Span){0}, 0, "-D and --emit=source are for the programs of a GPU");
        diag_help(s->diag, "--device NAME names one");
        return EXIT_usage;
    }
    if (!wrong && s->o->out)
        wrong = emits ? output_fresh(s, s->o->out) : output_replaceable(s, s->o->out);
    if (wrong)
        return wrong;
    const char *tmp = getenv("TMPDIR");
    char *dir = arena_printf(s->arena, "%s/mgc-calibrate-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return calibrate_broken(s, dir);
    c.dir = dir;
    if (!calibrate_tokens(arena_printf(s->arena, "%s/tokens", dir)))
        wrong = calibrate_broken(s, dir);
    if (!wrong)
        wrong = emits                     ? calibrate_gpu_emit(&c, s->o->out)
                : d.target == TARGET_host ? calibrate_host(&c)
                                          : calibrate_gpu(&c);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return wrong;
}
