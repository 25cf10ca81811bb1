/* link.h - from a plan to files: the executable, or a source tree that makes it. */
#ifndef MGC_LINK_H
#define MGC_LINK_H

#include "plan/plan.h"
#include "codegen/llvm/llvm.h"

/* The type of codegen_kernels. It is passed in, so that only callers that make kernels load LLVM.
 */
typedef bool KernelsFn(const Plan *p, KernelOutput form, const char *path, const char **features);

/* Writes the executable `out`: kernels, emitted C, the runtime of lib_dir (libmgrt.a and
 * include/abi.h), put together by the C compiler of processor.h in a private directory, then
 * renamed into place. A program for another architecture has the runtime of lib_dir/ARCH.
 * For a GPU nvcc ($MGC_NVCC, that of $CUDA_HOME or /usr/local/cuda, or the one in PATH) makes the
 * kernels, and libmgrt_cuda.a is the runtime. False: told on the module's diag, and no file is
 * left. */
bool codegen_build(const Plan *p, KernelsFn *kernels, const char *lib_dir, const char *out);

/* codegen/link/variants.c: one executable `out` of those at `path`, of one model, the first of the
 * most ranks, each after it of fewer. False: told, and no file is left. */
enum { VARIANTS_MAX = 256 };
typedef struct Variant {
    int64_t ranks;
    const char *path;
} Variant;
bool codegen_join(Diag *d, Arena *a, const Variant *of, int n, const char *out);

/* codegen/link/link_cuda.c: kernels.cu, program.c and image.S, which takes in the file `fatbin`,
 * and, where kernels run on the host, those in a form; false: errno, or 0: it was told. The name of
 * their file. The runtime's path, or NULL after telling that it is missing. */
bool cuda_build(const Plan *p, KernelsFn *kernels, const char *lib_dir, const char *dir,
                const char *to);
bool cuda_write_texts(const Plan *p, KernelsFn *kernels, KernelOutput form, const char *dir,
                      const char *fatbin);
const char *cuda_host_file(KernelOutput form);
const char *cuda_runtime(const Plan *p, const char *lib_dir);
/* nvcc's options that say for which GPUs: those of the device's description, or all. */
enum { CUDA_CODES = 2 };
void cuda_codes(const Plan *p, const char *code[CUDA_CODES]);

/* codegen/link/nvcc.c: the folder of the CUDA Toolkit, its nvcc, and false after telling that this
 * nvcc is too old for programs, or for the architecture of the plan's device. */
const char *cuda_toolkit(Arena *a);
const char *cuda_nvcc(Arena *a);
bool cuda_nvcc_suffices(const Plan *p);

/* Writes the directory `dir` (which must not exist): the emitted program and its kernels, abi.h,
 * the runtime and a Makefile that needs a C compiler only, for a GPU the CUDA Toolkit too. False:
 * told, and nothing is left. `kernels` is for plans of the processor. */
bool codegen_source(const Plan *p, KernelsFn *kernels, const char *lib_dir, const char *dir);

/* codegen/link/link.c: the library that programs are linked with; false: told that it is missing.
 */
bool library_is_there(const Plan *p, const char *path);
/* codegen/link/abi.c: whether a library and the header in lib_dir are of the ABI that programs are
 * emitted for; false: told whose is not. */
bool runtime_is_ours(const Plan *p, const char *lib_dir, const char *library);
/* codegen/link/cc.c: runs the C compiler, argv[0]; false: told what failed, or what it lacks. */
bool run_cc(const Plan *p, const char *const *argv);
/* codegen/link/link.c: runs a program found in PATH and waits. quiet: without its standard output.
 * Returns its exit status, 128 plus the signal that killed it, or -1 with errno. */
int run_program(const char *const *argv, bool quiet);
/* The same; *text is what it wrote to standard output, in `a`. */
int run_for_text(Arena *a, const char *const *argv, const char **text);
/* codegen/link/link.c: runs a program found in PATH and waits. If it fails, reports this with the
 * given help and returns false. */
bool run_tool(const Plan *p, const char *const *argv, const char *help);

/* codegen/link/files.c: a fresh private directory (in $TMPDIR, or beside `beside`), its removal,
 * and copies. Paths are in `a`. NULL or false: errno says why. */
const char *temp_dir(Arena *a, const char *beside);
void remove_dir(const char *dir); /* the plain files in it, and itself */
bool copy_file(const char *from, const char *to);
/* Emits the program's C to a file. */
bool emit_to_file(const Plan *p, const char *features, const char *path);

#endif
