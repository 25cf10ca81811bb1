/* record.c - the CUDA runtime and cuBLASLt as functions that only write down what a program
 * launches.
 *
 * It is linked with an emitted program and the runtime of CUDA programs in place of a GPU's
 * libraries, and runs one step of the program:
 *   record SIZES OUT     SIZES: a line for each kernel, its name and the bytes of its parameters
 *                        OUT: a line for each different launch (see put_launches)
 * Device memory is address space that nobody may touch. What the host reads is 0. Environment:
 * RECORD_SM, the compute capability (90); RECORD_APART=1: the library has no algorithm with an
 * epilogue, so that kernels compute all of them. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "runtime/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PARAMS = 4096, ARGUMENTS = 256, MEMORIES = 256 };

typedef struct ShimKernel {
    char name[128];
    int bytes[ARGUMENTS], n;
} Kernel;

/* Launches that differ in their pointers alone are one. */
typedef struct Launch {
    int action;
    const Kernel *kernel; /* NULL: a product, or memory is set or copied */
    const char *what;
    dim3 grid, block;
    size_t shared;
    double bytes; /* set or copied */
    long times;
    unsigned char params[PARAMS]; /* of the first of them, one after another */
} Launch;

static struct {
    Kernel *kernel;
    size_t kernels;
    Launch *launch;
    size_t launches;
    struct {
        char *at;
        size_t bytes;
    } memory[MEMORIES];
    size_t memories;
} all;
static mg_run run;

static Launch *launch_of(const Launch *like)
{
    for (size_t i = all.launches; i-- > 0;) {
        Launch *l = &all.launch[i];
        if (l->action == like->action && l->kernel == like->kernel && l->shared == like->shared &&
            l->bytes == like->bytes && !memcmp(&l->grid, &like->grid, sizeof l->grid) &&
            !memcmp(&l->block, &like->block, sizeof l->block) &&
            (l->kernel || !strcmp(l->what, like->what)))
            return l;
    }
    all.launch = rt_grow(all.launch, all.launches + 1, sizeof *all.launch);
    all.launch[all.launches] = *like;
    return &all.launch[all.launches++];
}

static void note(const char *what, double bytes)
{
    const Launch l = {.action = run.action, .what = what, .bytes = bytes};
    launch_of(&l)->times++;
}

/* ---- memory and launches -------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    const size_t page = 2 << 20;
    char *at =
        mmap(NULL, bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || all.memories == MEMORIES)
        return cudaErrorMemoryAllocation;
    at = (char *)(((uintptr_t)at + page - 1) / page * page);
    all.memory[all.memories].at = at;
    all.memory[all.memories++].bytes = bytes;
    *p = at;
    return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t s)
{
    (void)s;
    const Kernel *k = kernel;
    Launch l = {.action = run.action, .kernel = k, .grid = grid, .block = block, .shared = shared};
    size_t at = 0;
    for (int i = 0; i < k->n; i++) {
        if (at + (size_t)k->bytes[i] > PARAMS)
            rt_die(RT_FAILED, "%s has more than %d bytes of parameters", k->name, PARAMS);
        memcpy(l.params + at, args[i], (size_t)k->bytes[i]);
        at += (size_t)k->bytes[i];
    }
    launch_of(&l)->times++;
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    (void)p, (void)value, (void)s;
    note("set", (double)bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    (void)from, (void)s;
    if (kind == cudaMemcpyDeviceToHost)
        memset(to, 0, bytes);
    if (kind == cudaMemcpyDeviceToDevice)
        note("copy", 2 * (double)bytes);
    return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t *k, cudaLibrary_t l, const char *name)
{
    (void)l;
    for (size_t i = 0; i < all.kernels; i++)
        if (!strcmp(all.kernel[i].name, name)) {
            *k = &all.kernel[i];
            return cudaSuccess;
        }
    return cudaErrorSymbolNotFound;
}

/* ---- what the runtime asks for besides ------------------------------------------------------- */

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    (void)device;
    const char *sm = getenv("RECORD_SM");
    memset(p, 0, sizeof *p);
    p->major = sm ? atoi(sm) / 10 : 9;
    p->minor = sm ? atoi(sm) % 10 : 0;
    p->multiProcessorCount = 1;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = (size_t)1 << 46;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    *p = rt_alloc(1, bytes);
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorSymbolNotFound ? "the cubin has no such kernel" : "error";
}
const char *cudaGetErrorName(cudaError_t e)
{
    return e == cudaErrorSymbolNotFound ? "cudaErrorSymbolNotFound" : "error";
}
size_t cublasLtGetVersion(void)
{
    return 0;
}

#define NOTHING(type, name, ok, ...)                                                               \
    type name(__VA_ARGS__)                                                                         \
    {                                                                                              \
        return ok;                                                                                 \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define CUDA(name, ...) NOTHING(cudaError_t, name, cudaSuccess, __VA_ARGS__)
#define LT(name, ...)   NOTHING(cublasStatus_t, name, CUBLAS_STATUS_SUCCESS, __VA_ARGS__)
CUDA(cudaSetDevice, int device)
CUDA(cudaFree, void *p)
CUDA(cudaFreeHost, void *p)
CUDA(cudaStreamCreateWithFlags, cudaStream_t *s, unsigned flags)
CUDA(cudaStreamSynchronize, cudaStream_t s)
CUDA(cudaStreamDestroy, cudaStream_t s)
CUDA(cudaEventDestroy, cudaEvent_t e)
CUDA(cudaEventSynchronize, cudaEvent_t e)
CUDA(cudaEventElapsedTime, float *ms, cudaEvent_t begin, cudaEvent_t end)
CUDA(cudaEventRecord, cudaEvent_t e, cudaStream_t s)
CUDA(cudaStreamWaitEvent, cudaStream_t s, cudaEvent_t e, unsigned flags)
CUDA(cudaStreamBeginCapture, cudaStream_t s, enum cudaStreamCaptureMode mode)
CUDA(cudaStreamEndCapture, cudaStream_t s, cudaGraph_t *g)
CUDA(cudaGraphInstantiate, cudaGraphExec_t *e, cudaGraph_t g, unsigned long long flags)
CUDA(cudaGraphLaunch, cudaGraphExec_t e, cudaStream_t s)
CUDA(cudaGraphDestroy, cudaGraph_t g)
CUDA(cudaGraphExecDestroy, cudaGraphExec_t e)
CUDA(cudaLibraryLoadData, cudaLibrary_t *l, const void *image, enum cudaJitOption *jit,
     void **jit_values, unsigned njit, enum cudaLibraryOption *option, void **values, unsigned n)
CUDA(cudaLibraryUnload, cudaLibrary_t l)
CUDA(cudaFuncSetAttribute, const void *kernel, enum cudaFuncAttribute attribute, int value)
LT(cublasLtCreate, cublasLtHandle_t *h)
LT(cublasLtDestroy, cublasLtHandle_t h)
LT(cublasLtMatmulDescCreate, cublasLtMatmulDesc_t *d, cublasComputeType_t compute,
   cudaDataType_t scale)
LT(cublasLtMatmulDescDestroy, cublasLtMatmulDesc_t d)
LT(cublasLtMatrixLayoutCreate, cublasLtMatrixLayout_t *l, cudaDataType_t t, uint64_t rows,
   uint64_t columns, int64_t ld)
LT(cublasLtMatrixLayoutDestroy, cublasLtMatrixLayout_t l)
LT(cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t a,
   const void *v, size_t n)
LT(cublasLtMatmulPreferenceCreate, cublasLtMatmulPreference_t *p)
LT(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t p)
LT(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t p,
   cublasLtMatmulPreferenceAttributes_t a, const void *v, size_t n)

/* An event is what is not NULL. */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    (void)flags;
    *e = (cudaEvent_t)&all;
    return cudaSuccess;
}

/* ---- products -------------------------------------------------------------------------------- */

static cublasLtEpilogue_t epilogue;

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, const void *v,
                                              size_t n)
{
    (void)d, (void)n;
    if (a == CUBLASLT_MATMUL_DESC_EPILOGUE)
        epilogue = *(const cublasLtEpilogue_t *)v;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to,
                                              cublasLtMatmulPreference_t p, int max,
                                              cublasLtMatmulHeuristicResult_t *r, int *found)
{
    memset(r, 0, sizeof *r);
    *found = !getenv("RECORD_APART") || epilogue == CUBLASLT_EPILOGUE_DEFAULT;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *to, cublasLtMatrixLayout_t lto,
                              const cublasLtMatmulAlgo_t *algo, void *work, size_t work_bytes,
                              cudaStream_t s)
{
    note("product", 0);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the recording --------------------------------------------------------------------------- */

static void read_sizes(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[4096];
    if (!f)
        rt_die(RT_USAGE, "cannot read %s", path);
    while (fgets(line, sizeof line, f)) {
        all.kernel = rt_grow(all.kernel, all.kernels + 1, sizeof *all.kernel);
        Kernel *k = &all.kernel[all.kernels++];
        memset(k, 0, sizeof *k);
        const char *word = strtok(line, " \n");
        snprintf(k->name, sizeof k->name, "%s", word ? word : "");
        while ((word = strtok(NULL, " \n")) && k->n < ARGUMENTS)
            k->bytes[k->n++] = atoi(word);
    }
    fclose(f);
}

/* memory ADDRESS BYTES
 * action NUMBER KIND NAME
 * launch ACTION KERNEL TIMES GRID_X GRID_Y GRID_Z BLOCK SHARED PARAMETERS, in hexadecimal
 * other ACTION WHAT TIMES BYTES */
static void put_launches(FILE *f)
{
    for (size_t i = 0; i < all.memories; i++)
        fprintf(f, "memory %llu %zu\n", (unsigned long long)(uintptr_t)all.memory[i].at,
                all.memory[i].bytes);
    for (int i = 0; i < mg_main.nactions; i++)
        fprintf(f, "action %d %s %s\n", i, mg_main.actions[i].kind, mg_main.actions[i].name);
    for (size_t i = 0; i < all.launches; i++) {
        const Launch *l = &all.launch[i];
        if (!l->kernel) {
            fprintf(f, "other %d %s %ld %.0f\n", l->action, l->what, l->times, l->bytes);
            continue;
        }
        fprintf(f, "launch %d %s %ld %u %u %u %u %zu ", l->action, l->kernel->name, l->times,
                l->grid.x, l->grid.y, l->grid.z, l->block.x * l->block.y * l->block.z, l->shared);
        size_t bytes = 0;
        for (int k = 0; k < l->kernel->n; k++)
            bytes += (size_t)l->kernel->bytes[k];
        for (size_t b = 0; b < bytes; b++)
            fprintf(f, "%02x", l->params[b]);
        fprintf(f, "%s\n", bytes ? "" : "-");
    }
}

const unsigned char mg_cuda_image[1];

int main(int argc, char **argv)
{
    if (argc != 3)
        rt_die(RT_USAGE, "usage: record SIZES OUT");
    read_sizes(argv[1]);
    static const rt_options options; /* the guard asks what to do about spikes: nothing */
    run = (mg_run){.program = &mg_main, .threads = 1, .options = &options};
    rt_device_open(&run);
    rt_arena_map(&run);
    all.launches = 0; /* those of the start do not count */
    mg_step(&run);
    FILE *f = fopen(argv[2], "w");
    if (!f)
        rt_die(RT_FAILED, "cannot write %s", argv[2]);
    put_launches(f);
    return fclose(f) != 0;
}
