/* blas.c - loads OpenBLAS. Its constructor reads the environment, so the core type has to be set
 * before dlopen: version 0.3.21 takes processors newer than itself for a Prescott, at a quarter of
 * the speed.
 *
 * Its findings are kept in mutable globals, written once, before any thread asks. */
#include "bench/blas.h"
#include "kernels/isa.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mgk_blas blas;
static char name[128], error[512];
static bool is_open;

/* NULL where OpenBLAS's own choice is as good as any. */
static const char *core_type(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("x86-64-v4"))
        return __builtin_cpu_supports("avx512bf16") ? "Cooperlake" : "SkylakeX";
    if (__builtin_cpu_supports("x86-64-v3"))
        return __builtin_cpu_is("amd") ? "Zen" : "Haswell";
#endif
    return NULL;
}

static void set_environment(void)
{
    const char *core = core_type();
    if (core)
        setenv("OPENBLAS_CORETYPE", core, 0); /* the user's own choice stands */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

/* dlsym gives an object pointer; POSIX lets it be taken for a function's. */
static bool find(void *library, const char *symbol, void *to)
{
    void *p = dlsym(library, symbol);
    memcpy(to, &p, sizeof p);
    return p != NULL;
}

/* "OpenBLAS 0.3.21 Cooperlake": the first two words of its configuration, and the core in use. */
static void describe(void *library)
{
    char *(*config)(void) = NULL, *(*core)(void) = NULL;
    char product[24] = "OpenBLAS", version[24] = "";
    if (find(library, "openblas_get_config", &config))
        sscanf(config(), "%23s %23s", product, version);
    snprintf(name, sizeof name, "%s %s %s", product, version,
             find(library, "openblas_get_corename", &core) ? core() : "");
}

const char *mg_blas_open(void)
{
    if (is_open)
        return NULL;
    set_environment();
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(error, sizeof error, "cannot load the matrix library: %s", dlerror());
        return error;
    }
    void (*set_threads)(int) = NULL;
    if (!find(library, "cblas_sgemm", &blas.sgemm) || !find(library, "cblas_dgemm", &blas.dgemm) ||
        !find(library, "cblas_sgemv", &blas.sgemv) || !find(library, "cblas_dgemv", &blas.dgemv) ||
        !find(library, "openblas_set_num_threads", &set_threads)) {
        dlclose(library);
        return "libopenblas.so.0 lacks a function that is needed: is it OpenBLAS with cblas?";
    }
    set_threads(1);
    describe(library);
    is_open = true;
    return NULL;
}

const char *mg_blas_name(void)
{
    return is_open ? name : "no matrix library";
}

const mgk_blas *mgk_blas_get(void)
{
    if (!is_open)
        mgk_fatal("mg_gemm", "the matrix library is not open");
    return &blas;
}
