/* nvcc.c - which nvcc makes the kernels, and whether it can: a toolkit that is too old is told of
 * before anything is compiled. */
#include "codegen/link/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cudaLibraryLoadData, which libmgrt_cuda.a calls, came with the runtime of 12.8. */
enum { MAJOR = 12, MINOR = 8 };

const char *cuda_toolkit(Arena *a)
{
    const char *home = getenv("CUDA_HOME");
    return home && *home ? home : arena_strdup(a, "/usr/local/cuda");
}

const char *cuda_nvcc(Arena *a)
{
    const char *given = getenv("MGC_NVCC"),
               *usual = arena_printf(a, "%s/bin/nvcc", cuda_toolkit(a));
    return given && *given ? given : access(usual, X_OK) == 0 ? usual : "nvcc";
}

/* The text that `nvcc OPTION` prints, or NULL after telling that it failed. */
static const char *answer(const Plan *p, const char *nvcc, const char *option)
{
    const char *argv[] = {nvcc, option, NULL}, *text;
    const int status = run_for_text(p->module->arena, argv, &text);
    if (!status)
        return text;
    if (status < 0)
        diag_error(p->module->diag, (Span){0}, 542, "cannot run '%s': %s", nvcc, strerror(errno));
    else
        diag_error(p->module->diag, (Span){0}, 542, "'%s %s' failed with status %d", nvcc, option,
                   status);
    diag_help(p->module->diag, "set MGC_NVCC to the nvcc of a CUDA Toolkit of %d.%d or later",
              MAJOR, MINOR);
    return NULL;
}

/* The last line but one of `nvcc --version`: "Cuda compilation tools, release 13.0, V13.0.88". */
static bool version_suffices(const Plan *p, const char *nvcc, const char *said, int *major,
                             int *minor)
{
    const char *release = strstr(said, "release ");
    if (!release || sscanf(release, "release %d.%d", major, minor) != 2) {
        diag_error(p->module->diag, (Span){0}, 545, "'%s --version' names no release", nvcc);
        diag_help(p->module->diag, "set MGC_NVCC to the nvcc of a CUDA Toolkit of %d.%d or later",
                  MAJOR, MINOR);
        return false;
    }
    if (*major > MAJOR || (*major == MAJOR && *minor >= MINOR))
        return true;
    diag_error(p->module->diag, (Span){0}, 545, "'%s' is of CUDA %d.%d; programs need %d.%d", nvcc,
               *major, *minor, MAJOR, MINOR);
    diag_help(p->module->diag,
              "install a CUDA Toolkit of %d.%d or later and set CUDA_HOME to its folder, or "
              "--emit=source -o DIR and run make where there is one",
              MAJOR, MINOR);
    return false;
}

/* True if `list`, a name a line, has sm_`which`. */
static bool has_architecture(const char *list, int which)
{
    int number;
    for (const char *at = list; (at = strstr(at, "sm_")); at += 3)
        if (sscanf(at, "sm_%d", &number) == 1 && number == which)
            return true;
    return false;
}

bool cuda_nvcc_suffices(const Plan *p)
{
    Arena *a = p->module->arena;
    const char *nvcc = cuda_nvcc(a), *said = answer(p, nvcc, "--version"), *list;
    const int which = p->device->architecture;
    int major, minor;
    if (!said || !version_suffices(p, nvcc, said, &major, &minor))
        return false;
    if (!which)
        return true;
    if (!(list = answer(p, nvcc, "--list-gpu-code")))
        return false;
    if (has_architecture(list, which))
        return true;
    diag_error(p->module->diag, (Span){0}, 545,
               "'%s' of CUDA %d.%d makes no code for compute capability %d.%d, the architecture of "
               "device %s",
               nvcc, major, minor, which / 10, which % 10, p->device->name);
    diag_help(p->module->diag,
              "install a later CUDA Toolkit; or leave `architecture` out of the description: the "
              "driver then compiles the kernels' PTX when the program first starts");
    return false;
}
