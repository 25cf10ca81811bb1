/* link_cuda.c - makes the executable of a program for GPUs. nvcc compiles the kernels into a fat
 * binary, and the emitted C contains it. Then the C compiler links the runtime of CUDA programs. */
#include "codegen/cuda/cuda.h"
#include "codegen/link/link.h"
#include "codegen/processor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of CUDA's libraries for the plan's host. A toolkit for several architectures has a
 * folder for each; NVIDIA calls servers of aarch64 sbsa. */
static const char *libraries(const Plan *p)
{
    const char *arch = processor_foreign(p);
    return arena_printf(p->module->arena,
                        !arch                      ? "%s/lib64"
                        : !strcmp(arch, "aarch64") ? "%s/targets/sbsa-linux/lib"
                                                   : "%s/targets/x86_64-linux/lib",
                        cuda_toolkit(p->module->arena));
}

static bool libraries_are_there(const Plan *p)
{
    const char *arch = processor_foreign(p), *folder = libraries(p);
    if (!arch || access(arena_printf(p->module->arena, "%s/libcublasLt.so", folder), R_OK) == 0)
        return true;
    diag_error(p->module->diag, (Span){0}, 542, "no CUDA libraries for %s in '%s'", arch, folder);
    diag_help(
        p->module->diag,
        "install the toolkit's cross libraries there; or --emit=source -o DIR, and run make on "
        "the machine with the GPU; or --cpu for another host than the device's");
    return false;
}

/* The folder of NCCL, if it is neither beside the toolkit nor where linkers look. */
static const char *nccl(const Plan *p)
{
    Arena *a = p->module->arena;
    const char *home = getenv("NCCL_HOME");
    return home && *home ? arena_printf(a, "%s/lib", home) : libraries(p);
}

bool cuda_write_texts(const Plan *p, KernelsFn *kernels, KernelOutput form, const char *dir,
                      const char *fatbin)
{
    Arena *a = p->module->arena;
    const char *features = "";
    if (plan_host_kernels(p) &&
        !kernels(p, form, arena_printf(a, "%s/%s", dir, cuda_host_file(form)), &features))
        return false;
    errno = 0;
    FILE *f = fopen(arena_printf(a, "%s/kernels.cu", dir), "we");
    if (!f)
        return false;
    codegen_cuda_kernels(p, "library.h", f);
    bool good = !ferror(f);
    good &= fclose(f) == 0;
    if (!(f = fopen(arena_printf(a, "%s/image.S", dir), "we")))
        return false;
    fprintf(f,
            ".section .rodata\n.balign 64\n.globl mg_cuda_image\nmg_cuda_image:\n"
            ".incbin \"%s\"\n.section .note.GNU-stack,\"\",@progbits\n",
            fatbin);
    good &= !ferror(f);
    good &= fclose(f) == 0;
    return good && emit_to_file(p, features, arena_printf(a, "%s/program.c", dir));
}

/* The machine code of the card that the description names by its architecture. If it names none,
 * that of sm_80, which all of 8.x runs, and of sm_90. Besides PTX for other processors, which the
 * driver compiles at the first start: that of sm_80, because that of sm_90a does not run on later
 * ones. Only the code of sm_90a has sm_90's tensor cores. A program of fp8 has sm_89 in place of
 * sm_80, which cannot round to it. */
void cuda_codes(const Plan *p, const char *code[CUDA_CODES])
{
    Arena *a = p->module->arena;
    const int which = p->device->architecture, first = p->module->train.fp8 ? 89 : 80;
    const char *exact = which == 90 ? "a" : "";
    code[0] = which ? arena_printf(a, "-gencode=arch=compute_%d,code=compute_%d", first, first)
                    : arena_printf(a, "-gencode=arch=compute_%d,code=[sm_%d,compute_%d]", first,
                                   first, first);
    code[1] = which ? arena_printf(a, "-gencode=arch=compute_%d%s,code=sm_%d%s", which, exact,
                                   which, exact)
                    : "-gencode=arch=compute_90a,code=sm_90a";
}

static bool compile_kernels(const Plan *p, const char *dir, const char *lib_dir)
{
    Arena *a = p->module->arena;
    const char *code[CUDA_CODES];
    cuda_codes(p, code);
    const char *argv[] = {cuda_nvcc(a),
                          "-fatbin",
                          "-O3",
                          "-std=c++17",
                          "-t",
                          "0",
                          arena_printf(a, "-I%s/cuda", lib_dir),
                          arena_printf(a, "-I%s/include", lib_dir),
                          arena_printf(a, "%s/kernels.cu", dir),
                          "-o",
                          arena_printf(a, "%s/kernels.fatbin", dir),
                          code[0],
                          code[1],
                          NULL};
    return run_tool(p, argv, "what nvcc said is above");
}

const char *cuda_runtime(const Plan *p, const char *lib_dir)
{
    const char *runtime = processor_library(p, lib_dir, "libmgrt_cuda.a");
    const char *collectives = processor_library(p, lib_dir, "nccl");
    if (access(runtime, R_OK) == 0 && p->module->layout.mesh.n && access(collectives, R_OK)) {
        diag_error(p->module->diag, (Span){0}, 542, "%s was built without NCCL", runtime);
        diag_help(p->module->diag,
                  "programs of several ranks need it: build mgc where nccl.h is (NCCL_HOME); "
                  "--emit=c and --emit=cuda need none");
        return NULL;
    }
    if (access(runtime, R_OK) == 0)
        return runtime_is_ours(p, lib_dir, runtime) ? runtime : NULL;
    const char *arch = processor_foreign(p);
    diag_error(p->module->diag, (Span){0}, 542, "%s is missing", runtime);
    diag_help(p->module->diag,
              "build mgc where there is a CUDA Toolkit%s%s%s; --emit=c and --emit=cuda need none",
              arch ? " and " : "", arch ? arch : "", arch ? "-linux-gnu-gcc" : "");
    return NULL;
}

const char *cuda_host_file(KernelOutput form)
{
    return form == KERNEL_object ? "kernels.o" : "kernels.s";
}

static bool link_program(const Plan *p, const char *dir, const char *lib_dir, const char *to)
{
    Arena *a = p->module->arena;
    const char *lib = libraries(p), *runtime = cuda_runtime(p, lib_dir);
    if (!runtime)
        return false;
    const char *argv[] = {processor_cc(p),
                          "-std=c17",
                          "-O1",
                          "-Wall",
                          "-Wextra",
                          "-Werror",
                          arena_printf(a, "-I%s/include", lib_dir),
                          arena_printf(a, "%s/program.c", dir),
                          arena_printf(a, "%s/image.S", dir),
                          plan_host_kernels(p)
                              ? arena_printf(a, "%s/%s", dir, cuda_host_file(KERNEL_object))
                              : "-pthread",
                          runtime,
                          arena_printf(a, "-L%s", lib),
                          arena_printf(a, "-Wl,-rpath,%s", lib),
                          arena_printf(a, "-L%s", nccl(p)),
                          arena_printf(a, "-Wl,-rpath,%s", nccl(p)),
                          p->module->layout.mesh.n ? "-lnccl" : "-lm",
                          "-lcublasLt",
                          "-lcudart_static",
                          "-lrt",
                          "-lm",
                          "-lpthread",
                          "-ldl",
                          "-o",
                          to,
                          NULL};
    return run_cc(p, argv);
}

bool cuda_build(const Plan *p, KernelsFn *kernels, const char *lib_dir, const char *dir,
                const char *to)
{
    if (!cuda_runtime(p, lib_dir) || !libraries_are_there(p) || !cuda_nvcc_suffices(p))
        return false;
    if (cuda_write_texts(p, kernels, KERNEL_object, dir,
                         arena_printf(p->module->arena, "%s/kernels.fatbin", dir)))
        return compile_kernels(p, dir, lib_dir) && link_program(p, dir, lib_dir, to);
    if (errno)
        diag_error(p->module->diag, (Span){0}, 543, "cannot write in '%s': %s", dir,
                   strerror(errno));
    return false;
}
