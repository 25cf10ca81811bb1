/* source.c - the emitted program as a directory that can be built on a machine without mgc. */
#include "codegen/link/link.h"
#include "codegen/processor.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char host_rules[] =
    "CC ?= cc\nCFLAGS ?= -std=c17 -O1 -Wall -Wextra\n\n"
    "train: program.c abi.h kernels.s libmgrt.a\n"
    "\t$(CC) $(CFLAGS) -I. program.c kernels.s libmgrt.a -lm -lpthread -ldl -o $@\n\n"
    "clean:\n\trm -f train\n.PHONY: clean\n";

static const char cuda_rules[] =
    "CC ?= cc\nCFLAGS ?= -std=c17 -O1 -Wall -Wextra\nCUDA_HOME ?= /usr/local/cuda\n"
    "NVCC ?= $(CUDA_HOME)/bin/nvcc\n"
    "LIBS = -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 $(NCCL) -lcublasLt -lcudart_static "
    "-lrt -lm -lpthread -ldl\n\n"
    "train: program.c abi.h image.S kernels.fatbin $(HOST) libmgrt_cuda.a\n"
    "\t$(CC) $(CFLAGS) -I. program.c image.S $(HOST) libmgrt_cuda.a $(LIBS) -o $@\n\n"
    "kernels.fatbin: kernels.cu library.h device.h abi.h abi_types.h launches.h dynamic8.h nf4.h\n"
    "\t$(NVCC) -fatbin -O3 -std=c++17 -t 0 $(CODE) -I. kernels.cu -o $@\n\n"
    "clean:\n\trm -f train kernels.fatbin\n.PHONY: clean\n";

static const char nccl_library[] =
    "NCCL_HOME ?= $(CUDA_HOME)\nNCCL = -L$(NCCL_HOME)/lib -Wl,-rpath,$(NCCL_HOME)/lib -lnccl\n";

static bool write_makefile(const Plan *p, const char *path)
{
    bool cuda = p->device->target == TARGET_cuda;
    FILE *f = fopen(path, "we");
    if (!f)
        return false;
    bool nccl = cuda && p->module->layout.mesh.n;
    const char *arch = processor_foreign(p);
    fprintf(f, "# %s, compiled by mgc %s. Needs a C compiler%s%s%s%s.\n",
            name_str(p->module->names, p->module->name), MGC_VERSION, arch ? " for " : "",
            arch ? arch : "", cuda ? " and the CUDA Toolkit" : "", nccl ? " and NCCL" : "");
    const char *code[CUDA_CODES];
    if (cuda) {
        cuda_codes(p, code);
        fprintf(f, "CODE ?= %s %s\n", code[0], code[1]);
        if (plan_host_kernels(p))
            fprintf(f, "HOST = %s\n", cuda_host_file(KERNEL_assembly));
    }
    fprintf(f, "%s%s", nccl ? nccl_library : "", cuda ? cuda_rules : host_rules);
    bool ok = !ferror(f);
    return fclose(f) == 0 && ok;
}

static bool copy_into(Arena *a, const char *dir, const char *from)
{
    return copy_file(from, arena_printf(a, "%s/%s", dir, strrchr(from, '/') + 1));
}

/* All files of a folder without folders. */
static bool copy_all(Arena *a, const char *dir, const char *folder)
{
    DIR *d = opendir(folder);
    bool good = d;
    for (struct dirent *e; good && (e = readdir(d));)
        if (e->d_name[0] != '.')
            good = copy_into(a, dir, arena_printf(a, "%s/%s", folder, e->d_name));
    if (d)
        closedir(d);
    return good;
}

static bool fill_cuda(const Plan *p, KernelsFn *kernels, const char *lib_dir, const char *dir)
{
    Arena *a = p->module->arena;
    const char *runtime = cuda_runtime(p, lib_dir);
    if (!runtime)
        return false;
    errno = 0;
    bool good = cuda_write_texts(p, kernels, KERNEL_assembly, dir, "kernels.fatbin") &&
                copy_into(a, dir, runtime) &&
                copy_into(a, dir, arena_printf(a, "%s/include/abi.h", lib_dir)) &&
                copy_into(a, dir, arena_printf(a, "%s/include/abi_types.h", lib_dir)) &&
                copy_into(a, dir, arena_printf(a, "%s/include/launches.h", lib_dir)) &&
                copy_into(a, dir, arena_printf(a, "%s/include/dynamic8.h", lib_dir)) &&
                copy_into(a, dir, arena_printf(a, "%s/include/nf4.h", lib_dir)) &&
                write_makefile(p, arena_printf(a, "%s/Makefile", dir)) &&
                copy_all(a, dir, arena_printf(a, "%s/cuda", lib_dir));
    if (!good && errno)
        diag_error(p->module->diag, (Span){0}, 543, "cannot write in '%s': %s", dir,
                   strerror(errno));
    return good;
}

static bool fill(const Plan *p, KernelsFn *kernels, const char *lib_dir, const char *dir)
{
    Arena *a = p->module->arena;
    const char *features = "", *runtime = processor_library(p, lib_dir, "libmgrt.a");
    if (p->device->target == TARGET_cuda)
        return fill_cuda(p, kernels, lib_dir, dir);
    if (!library_is_there(p, runtime) || !runtime_is_ours(p, lib_dir, runtime) ||
        !kernels(p, KERNEL_assembly, arena_printf(a, "%s/kernels.s", dir), &features))
        return false;
    errno = 0;
    if (emit_to_file(p, features, arena_printf(a, "%s/program.c", dir)) &&
        copy_file(arena_printf(a, "%s/include/abi.h", lib_dir), arena_printf(a, "%s/abi.h", dir)) &&
        copy_into(a, dir, arena_printf(a, "%s/include/abi_types.h", lib_dir)) &&
        copy_into(a, dir, runtime) && write_makefile(p, arena_printf(a, "%s/Makefile", dir)))
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
