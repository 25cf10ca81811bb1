/* driver.c - whether there is a GPU that can run the program, and if not, what is missing.
 *
 * A driver is for one version of CUDA. A runtime of the same major version runs with it, an older
 * one too; but it compiles PTX of no later version than its own (CUDA Compatibility, minor version
 * compatibility). PTX is for GPUs whose machine code the program does not have. */
#include "runtime/preflight/preflight.h"
#include "runtime/cuda/cuda.h"

#include <stdlib.h>

/* Of the PTX that every program has, and those of fp8 (codegen/link/link_cuda.c); and of what the
 * library has products of tiles for. */
enum { LEAST_CAPABILITY = 80, LEAST_OF_FP8 = 89, ONLY_OF_TILES = 90, LEAST_OF_MX = 100 };

/* The first driver of a major version of CUDA, or "". */
static const char *branch(int major)
{
    return major == 12 ? " (R525)" : major == 13 ? " (R580)" : "";
}

/* Versions are 1000 * major + 10 * minor. */
static int major_of(int version)
{
    return version / 1000;
}

static int minor_of(int version)
{
    return version % 1000 / 10;
}

static const char *too_old(int driver)
{
    static char text[320];
    const int mine = major_of(CUDART_VERSION), has = major_of(driver);
    int n = snprintf(text, sizeof text,
                     "the driver is for CUDA %d.%d, and the program was made with CUDA %d.%d: "
                     "install a driver for CUDA %d.0%s or later",
                     has, minor_of(driver), mine, minor_of(CUDART_VERSION), mine, branch(mine));
    if (has >= major_of(RT_CUDA_LEAST))
        snprintf(text + n, sizeof text - (size_t)n,
                 ", or make mgc and the program with a CUDA Toolkit of version %d (%d.%d or later)",
                 has, major_of(RT_CUDA_LEAST), minor_of(RT_CUDA_LEAST));
    return text;
}

const char *rt_cuda_missing(void)
{
    int n = 0, driver = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    /* 0: there is no driver */
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver &&
        major_of(driver) < major_of(CUDART_VERSION))
        return too_old(driver);
    if (e == cudaErrorInsufficientDriver)
        return "there is no NVIDIA driver";
    return e != cudaSuccess ? cudaGetErrorString(e) : n > 0 ? NULL : "there is no GPU";
}

void rt_cuda_same_runtime(const mg_run *r)
{
    int linked = 0;
    rt_cuda_must(cudaRuntimeGetVersion(&linked), "asking for the runtime");
    if (major_of(linked) != major_of(CUDART_VERSION))
        rt_die(RT_FAILED,
               "%s was linked with CUDA %d.%d, but mgc's runtime was made with CUDA %d.%d: link it "
               "with "
               "a CUDA Toolkit of version %d, or make mgc with %d.%d",
               r->program->name, major_of(linked), minor_of(linked), major_of(CUDART_VERSION),
               minor_of(CUDART_VERSION), major_of(CUDART_VERSION), major_of(linked),
               minor_of(linked));
}

const char *rt_cuda_incapable(const struct cudaDeviceProp *p, const mg_program *program)
{
    static char text[400];
    const bool fp8 = program && program->fp8;
    const bool tiles = fp8 && program->fp8_tiles == MG_TILES_ROWS;
    const bool mx = fp8 && program->fp8_tiles == MG_TILES_MX;
    const int least = tiles ? ONLY_OF_TILES
                      : mx  ? LEAST_OF_MX
                      : fp8 ? LEAST_OF_FP8
                            : LEAST_CAPABILITY;
    const int has = 10 * p->major + p->minor;
    if (tiles ? has == least : has >= least)
        return NULL;
    snprintf(text, sizeof text, "%s has compute capability %d.%d; its %s need %d.%d%s", p->name,
             p->major, p->minor,
             tiles ? "products of fp8 with scales of tiles"
             : mx  ? "products of fp8 with scales of mx"
             : fp8 ? "products of fp8"
                   : "kernels",
             least / 10, least % 10, tiles ? "" : " or later");
    return text;
}

char *rt_device_text(bool *there)
{
    struct cudaDeviceProp p;
    const char *why = rt_cuda_missing();
    int driver = 0;
    *there = false;
    if (why)
        return rt_printf("none: %s", why);
    rt_cuda_must(cudaGetDeviceProperties(&p, 0), "asking what it is");
    if ((why = rt_cuda_incapable(&p, NULL)))
        return rt_printf("none: %s", why);
    *there = true;
    rt_cuda_must(cudaDriverGetVersion(&driver), "asking for the driver");
    return rt_printf("%s, compute capability %d.%d, %d multiprocessors, driver for CUDA %d.%d",
                     p.name, p.major, p.minor, p.multiProcessorCount, major_of(driver),
                     minor_of(driver));
}

char *rt_device_versions(const mg_run *r)
{
    int driver = 0;
    const int nccl = r->program->collectives ? r->program->collectives->version() : 0;
    rt_cuda_must(cudaDriverGetVersion(&driver), "asking for the driver");
    return rt_printf("NCCL %d.%d.%d, driver for CUDA %d.%d", nccl / 10000, nccl / 100 % 100,
                     nccl % 100, major_of(driver), minor_of(driver));
}

double rt_device_exchange(mg_run *r, int rank, int64_t bytes)
{
    return r->program->collectives->exchange(r, rank, bytes);
}

/* The open GPU as a JSON object: capability is 90 for 9.0, memory and what of it was free before
 * the arena are bytes, gpus those of the machine, driver its CUDA (13000 for 13.0). */
char *rt_device_facts(const mg_run *r)
{
    struct cudaDeviceProp p;
    size_t available = 0, total = 0;
    int device = 0, gpus = 0, driver = 0;
    rt_cuda_must(cudaGetDevice(&device), "asking which GPU it is");
    rt_cuda_must(cudaGetDeviceProperties(&p, device), "asking what it is");
    rt_cuda_must(cudaMemGetInfo(&available, &total), "asking for its memory");
    rt_cuda_must(cudaGetDeviceCount(&gpus), "counting GPUs");
    rt_cuda_must(cudaDriverGetVersion(&driver), "asking for the driver");
    char *name = rt_json_escape(p.name);
    char *text = rt_printf("{\"name\":\"%s\",\"capability\":%d,\"multiprocessors\":%d,"
                           "\"memory\":%zu,\"free\":%lld,\"gpus\":%d,\"driver\":%d}",
                           name, 10 * p.major + p.minor, p.multiProcessorCount, total,
                           (long long)r->cuda->free_before, gpus, driver);
    free(name);
    return text;
}

/* Of kernels that the driver would have to compile. */
static _Noreturn void no_code(const char *what)
{
    int driver = 0;
    cudaDriverGetVersion(&driver);
    rt_die(
        RT_FAILED,
        "CUDA: %s: the program has no machine code for this GPU, and the driver, for CUDA %d.%d, "
        "cannot compile the PTX of CUDA %d.%d: install a driver for CUDA %d.%d or later, or "
        "compile the model for a device whose description names this GPU's `architecture`",
        what, major_of(driver), minor_of(driver), major_of(CUDART_VERSION),
        minor_of(CUDART_VERSION), major_of(CUDART_VERSION), minor_of(CUDART_VERSION));
}

void rt_cuda_must(cudaError_t e, const char *what)
{
    if (e == cudaErrorUnsupportedPtxVersion)
        no_code(what);
    if (e != cudaSuccess)
        rt_die(RT_BROKE, "CUDA: %s: %s (%s)", what, cudaGetErrorString(e), cudaGetErrorName(e));
}
