/* write.c - the outputs of a compile: texts, the program as C or LLVM, the executable. */
#include "compiler/write.h"

#include <stdlib.h>
#include <unistd.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "codegen/cuda/cuda.h"
#include "codegen/link/link.h"
#include "codegen/emit/emit_c.h"
#include "compiler/diff/plan_file.h"
#include "plan/order/order.h"
#include "plan/show.h"

static Exit emit_c(Session *s, const Plan *p)
{
    Output out;
    const char *features = "";
    const bool made = p->device->target == TARGET_host ? !s->o->with_kernels : plan_host_kernels(p);
    if (made && !llvm_features(p, &features))
        return EXIT_tool;
    Exit wrong = output_open(s, &out, s->o->out);
    if (wrong)
        return wrong;
    codegen_emit_c(p, features, s->o->with_kernels, out.file);
    return output_close(s, &out, true);
}

/* LLVM writes to a file by name: a private one, then a copy to where it is wanted. */
static Exit emit_llvm(Session *s, const Plan *p)
{
    Output out;
    const char *features, *dir = temp_dir(s->arena, NULL);
    if (!dir) {
        diag_error(s->diag, (Span){0}, 543, "cannot make a temporary directory: %s",
                   strerror(errno));
        return EXIT_tool;
    }
    const char *path = arena_printf(s->arena, "%s/kernels.ll", dir);
    Exit wrong = llvm_kernels(p, KERNEL_llvm_ir, path, &features) ? EXIT_done : EXIT_tool;
    if (!wrong)
        wrong = output_open(s, &out, s->o->out);
    if (!wrong) {
        FILE *in = fopen(path, "re");
        for (int c; in && (c = getc(in)) != EOF;)
            putc(c, out.file);
        bool whole = in && !ferror(in);
        wrong = output_close(s, &out, whole);
        if (!whole) {
            diag_error(s->diag, (Span){0}, 560, "cannot read '%s'", path);
            wrong = EXIT_tool;
        }
        if (in)
            fclose(in);
    }
    remove_dir(dir);
    return wrong;
}

static Exit emit_cuda(Session *s, const Plan *p)
{
    Output out;
    Exit wrong = output_open(s, &out, s->o->out);
    if (wrong)
        return wrong;
    codegen_cuda_kernels(p, "library.h", out.file);
    return output_close(s, &out, true);
}

static Exit unfit(Session *s, const Plan *p)
{
    diag_error(s->diag, (Span){0}, 0, "--emit=%s is not for device %s", s->o->emit,
               p->device->name);
    diag_help(s->diag, p->device->target == TARGET_cuda ? "--emit=c, --emit=cuda, --emit=source"
                                                        : "--device h200 --emit=cuda");
    return EXIT_usage;
}

static Exit write_code(Session *s, const Plan *p)
{
    const Options *o = s->o;
    const char *home = home_dir(s->arena);
    bool cuda = p->device->target == TARGET_cuda;
    if (!o->emit && !o->out)
        return EXIT_done;
    if (!o->emit)
        return codegen_build(p, llvm_kernels, home, o->out) ? EXIT_done : EXIT_tool;
    if (!strcmp(o->emit, "source"))
        return codegen_source(p, llvm_kernels, home, o->out) ? EXIT_done : EXIT_tool;
    if (!strcmp(o->emit, "c"))
        return emit_c(s, p);
    if (!strcmp(o->emit, cuda ? "llvm" : "cuda"))
        return unfit(s, p);
    return cuda ? emit_cuda(s, p) : emit_llvm(s, p);
}

/* A view of the plan goes to a file, if one is named. */
static Exit write_view(Session *s, const Plan *p, const char *path,
                       void print(const Plan *p, FILE *out))
{
    Output out;
    Exit wrong = path ? output_open(s, &out, path) : EXIT_done;
    if (wrong || !path)
        return wrong;
    print(p, out.file);
    return output_close(s, &out, true);
}

/* "m.host.csv", where the device's is "m.csv". */
static const char *of_level(Arena *a, const char *path, Level l)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name)
        return arena_printf(a, "%s.%s", path, level_names[l]);
    return arena_printf(a, "%.*s.%s%s", (int)(dot - path), path, level_names[l], dot);
}

static bool is_file(const char *path)
{
    struct stat st;
    return strcmp(path, "-") && (stat(path, &st) || S_ISREG(st.st_mode));
}

/* A file for each arena: MiniMalloc places the buffers of one. What is no file takes the device's
 * alone. */
static Exit write_memory(Session *s, const Plan *p)
{
    Exit wrong = EXIT_done;
    for (int l = LEVEL_device; !wrong && s->o->memory && l < LEVEL_count; l++) {
        Output out;
        if (l && !(p->level_bytes[l] && is_file(s->o->memory)))
            continue;
        wrong = output_open(s, &out, l ? of_level(s->arena, s->o->memory, (Level)l) : s->o->memory);
        if (wrong)
            return wrong;
        plan_print_memory(p, (Level)l, out.file);
        wrong = output_close(s, &out, true);
    }
    return wrong;
}

Exit write_outputs(Session *s, const Compiled *c)
{
    const Options *o = s->o;
    if (o->plan && *o->plan) {
        json_t *plan = plan_file_json(s, c);
        plan_file_write(plan, stdout);
        json_decref(plan);
    } else if (o->plan) {
        if (c->module->adapter)
            c->plan->unfrozen_bytes = unfrozen_bytes(s, c->plan);
        plan_print(c->plan, stdout);
    }
    if (o->schedule)
        plan_print_schedule(c->plan, stdout);
    if (o->schedule)
        plan_print_grid(c->plan, isatty(STDOUT_FILENO) && !getenv("NO_COLOR"), stdout);
    Exit wrong = write_view(s, c->plan, o->trace, trace_print);
    if (!wrong)
        wrong = write_memory(s, c->plan);
    if (!wrong && o->report)
        wrong = page_write(s, c, o->report);
    if (!wrong)
        wrong = write_code(s, c->plan);
    /* A summary line would disturb a text on standard output. */
    bool text = o->plan || o->schedule || o->print_after.n || (o->emit && !o->out);
    if (!wrong && !text)
        print_summary(s, c, stdout);
    return wrong;
}
