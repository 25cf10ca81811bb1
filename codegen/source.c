/* source.c - the emitted program as a directory that is built where mgc is not. */
#include "codegen/link.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_makefile(const Plan *p, const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return false;
    fprintf(f,
            "# %s, compiled by mgc %s. Needs a C compiler; OpenBLAS when it runs.\n"
            "CC ?= cc\nCFLAGS ?= -std=c17 -O1 -Wall -Wextra\n\n"
            "train: program.c abi.h kernels.s libmgrt.a\n"
            "\t$(CC) $(CFLAGS) -I. program.c kernels.s libmgrt.a -lm -lpthread -ldl -o $@\n\n"
            "clean:\n\trm -f train\n.PHONY: clean\n",
            name_str(p->module->names, p->module->name), MGC_VERSION);
    bool ok = !ferror(f);
    return fclose(f) == 0 && ok;
}

static bool fill(const Plan *p, KernelsFn *kernels, const char *lib_dir, const char *dir)
{
    Arena *a = p->module->arena;
    const char *features = "";
    if (!kernels(p, KERNEL_assembly, arena_printf(a, "%s/kernels.s", dir), &features))
        return false;
    errno = 0;
    if (emit_to_file(p, features, arena_printf(a, "%s/program.c", dir)) &&
        copy_file(arena_printf(a, "%s/include/abi.h", lib_dir), arena_printf(a, "%s/abi.h", dir)) &&
        copy_file(arena_printf(a, "%s/libmgrt.a", lib_dir), arena_printf(a, "%s/libmgrt.a", dir)) &&
        write_makefile(p, arena_printf(a, "%s/Makefile", dir)))
        return true;
    diag_error(p->module->diag, (Span){0}, 543, "cannot write in '%s': %s", dir, strerror(errno));
    return false;
}

bool codegen_source(const Plan *p, KernelsFn *kernels, const char *lib_dir, const char *dir)
{
    Module *m = p->module;
    struct stat st;
    if (lstat(dir, &st) == 0) {
        diag_error(m->diag, (Span){0}, 544, "'%s' exists", dir);
        diag_help(m->diag, "name a directory that does not exist: nothing is overwritten");
        return false;
    }
    const char *temp = temp_dir(m->arena, dir);
    if (!temp) {
        diag_error(m->diag, (Span){0}, 543, "cannot make a directory beside '%s': %s", dir,
                   strerror(errno));
        return false;
    }
    bool ok = fill(p, kernels, lib_dir, temp) && chmod(temp, 0755) == 0;
    if (ok && rename(temp, dir)) {
        diag_error(m->diag, (Span){0}, 543, "cannot write '%s': %s", dir, strerror(errno));
        ok = false;
    }
    if (!ok)
        remove_dir(temp);
    return ok;
}
