/* cuda.c - the calls of the CUDA runtime, written down. Environment: RECORD_SM, the compute
 * capability (90). */
#include "tests/record/record.h"

#include <cuda.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

typedef struct ShimKernel {
    char name[128];
    int bytes[RECORD_ARGUMENTS], n;
} Kernel;

mg_run *record_run;
static FILE *to;

void record_to(FILE *f)
{
    to = f;
}

void record_line(const char *word, const char *fmt, ...)
{
    if (!to)
        return;
    va_list ap;
    fprintf(to, "%s %d ", word, record_run ? record_run->action : -1);
    va_start(ap, fmt);
    vfprintf(to, fmt, ap);
    va_end(ap);
    fputc('\n', to);
}

uintptr_t record_number(void)
{
    static uintptr_t last;
    return ++last;
}

/* Writes what has just been made, and its number. */
static void *made(const char *word)
{
    const uintptr_t number = record_number();
    record_line(word, "%" PRIuPTR, number);
    return (void *)number;
}

static cudaError_t gone(const char *word, const void *what)
{
    record_line(word, "%" PRIuPTR, (uintptr_t)what);
    return cudaSuccess;
}

static cudaError_t both(const char *word, const void *one, const void *other)
{
    record_line(word, "%" PRIuPTR " %" PRIuPTR, (uintptr_t)one, (uintptr_t)other);
    return cudaSuccess;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Addresses are those of no memory. They are given only once, and are multiples of 256 bytes but of
 * no more, as CUDA promises it. */
cudaError_t cudaMalloc(void **p, size_t bytes)
{
    enum { WHOLE = 2 << 20, PROMISED = 256 };
    static uintptr_t next = (uintptr_t)1 << 45;
    *p = (void *)(next + PROMISED);
    next += (bytes + 2 * WHOLE) / WHOLE * WHOLE;
    record_line("malloc", "%" PRIuPTR " %zu", (uintptr_t)*p, bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    return gone("free", p);
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    *p = rt_alloc(1, bytes);
    record_line("pin", "%" PRIuPTR " %zu", (uintptr_t)*p, bytes);
    return cudaSuccess;
}

/* The memory stays, so that no other has its address. */
cudaError_t cudaFreeHost(void *p)
{
    return gone("unpin", p);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    /* Memory that is mapped is that through which ranks exchange. */
    if (flags & cudaHostRegisterMapped)
        record_line("shared_pin", "%" PRIuPTR, (uintptr_t)p);
    record_line("pin", "%" PRIuPTR " %zu", (uintptr_t)p, bytes);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    return gone("unpin", p);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    record_line("set", "%" PRIuPTR " %" PRIuPTR " %zu", (uintptr_t)s, (uintptr_t)p, bytes);
    return cudaSuccess;
}

/* The host reads 0. */
cudaError_t cudaMemcpyAsync(void *into, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    if (kind == cudaMemcpyDeviceToHost)
        memset(into, 0, bytes);
    record_line("copy", "%" PRIuPTR " %" PRIuPTR " %" PRIuPTR " %zu %d", (uintptr_t)s,
                (uintptr_t)into, (uintptr_t)from, bytes, (int)kind);
    return cudaSuccess;
}

/* Rows, of `width` bytes. */
cudaError_t cudaMemcpy2DAsync(void *into, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t s)
{
    for (size_t i = 0; i < height && kind == cudaMemcpyDeviceToHost; i++)
        memset((char *)into + i * to_pitch, 0, width);
    record_line("rows", "%" PRIuPTR " %" PRIuPTR " %zu %" PRIuPTR " %zu %zu %zu %d", (uintptr_t)s,
                (uintptr_t)into, to_pitch, (uintptr_t)from, from_pitch, width, height, (int)kind);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    *device = host;
    return cudaSuccess;
}

/* No other rank is there, and none is waited for. */
static CUresult words(CUstream s, unsigned count, CUstreamBatchMemOpParams *all, unsigned flags)
{
    enum { LONG = 48 }; /* more than a word's text */
    char *text = rt_alloc(count + 1, LONG), *at = text;
    for (unsigned i = 0; i < count; i++) {
        const bool writes = all[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_32;
        const CUdeviceptr word = writes ? all[i].writeValue.address : all[i].waitValue.address;
        at += snprintf(at, LONG, " %d %llu", writes, word);
    }
    record_line("words", "%" PRIuPTR " %u%s", (uintptr_t)s, count, text);
    free(text);
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    *found = cudaDriverEntryPointSuccess;
    *function = !strcmp(name, "cuStreamBatchMemOp") ? (void *)words : NULL;
    return cudaSuccess;
}

/* The host does nothing. */
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t what, void *with)
{
    record_line("host", "%" PRIuPTR " %" PRIuPTR " %" PRIuPTR, (uintptr_t)s, (uintptr_t)what,
                (uintptr_t)with);
    return cudaSuccess;
}

/* The recorder captures nothing. */
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

/* ---- streams, events, graphs ----------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    *s = made("stream");
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    return gone("streamend", s);
}
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    return gone("sync", s);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    *e = made("event");
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    return gone("eventend", e);
}
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    return gone("eventsync", e);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    *ms = 1;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    return both("record", e, s);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    return both("wait", s, e);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    return gone("begin", s);
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    *g = (cudaGraph_t)record_number();
    return both("end", s, *g);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long flags)
{
    *e = (cudaGraphExec_t)record_number();
    return both("instantiate", *e, g);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s)
{
    return both("graph", e, s);
}
cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    return gone("graphend", g);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e)
{
    return gone("execend", e);
}

/* ---- kernels --------------------------------------------------------------------------------- */

cudaError_t cudaLibraryLoadData(cudaLibrary_t *l, const void *image, enum cudaJitOption *jit,
                                void **jit_values, unsigned njit, enum cudaLibraryOption *option,
                                void **values, unsigned n)
{
    *l = made("library");
    return cudaSuccess;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t l)
{
    return gone("libraryend", l);
}
/* Generated kernels take pointers alone. */
static int parameters_of(const mg_program *p, const char *kernel, int bytes[RECORD_ARGUMENTS])
{
    for (int i = 0; i < p->ncuda_kernels; i++)
        if (!strcmp(p->cuda_kernels[i].name, kernel)) {
            for (int k = 0; k < p->cuda_kernels[i].npointers; k++)
                bytes[k] = sizeof(void *);
            return p->cuda_kernels[i].npointers;
        }
    return record_kernel_parameters(kernel, bytes);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *k, cudaLibrary_t l, const char *name)
{
    Kernel *of = rt_alloc(1, sizeof *of);
    snprintf(of->name, sizeof of->name, "%s", name);
    of->n = parameters_of(record_run->program, name, of->bytes);
    *k = of;
    record_line("kernel", "%s", name);
    return of->n < 0 ? cudaErrorSymbolNotFound : cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    record_line("shared", "%s %d", ((const Kernel *)kernel)->name, value);
    return cudaSuccess;
}

/* The parameters one after another, in hexadecimal; "-": none. */
static void put_parameters(const Kernel *k, void **args, char *text)
{
    size_t at = 0;
    for (int i = 0; i < k->n; i++)
        for (int b = 0; b < k->bytes[i]; b++) {
            const unsigned char byte = ((const unsigned char *)args[i])[b];
            text[at++] = "0123456789abcdef"[byte >> 4];
            text[at++] = "0123456789abcdef"[byte & 15];
        }
    if (!at)
        text[at++] = '-';
    text[at] = 0;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t s)
{
    enum { PARAMETERS = 4096 }; /* bytes that CUDA passes */
    static char text[2 * PARAMETERS + 1];
    const Kernel *k = kernel;
    int bytes = 0;
    for (int i = 0; i < k->n; i++)
        bytes += k->bytes[i];
    if (bytes > PARAMETERS)
        rt_die(RT_FAILED, "%s has more than %d bytes of parameters", k->name, PARAMETERS);
    put_parameters(k, args, text);
    record_line("launch", "%" PRIuPTR " %s %u %u %u %u %u %u %zu %s", (uintptr_t)s, k->name, grid.x,
                grid.y, grid.z, block.x, block.y, block.z, shared, text);
    return cudaSuccess;
}

/* ---- what the runtime asks for besides ------------------------------------------------------- */

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
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
cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorSymbolNotFound ? "tests/record/parameters.c has no such kernel" : "error";
}
const char *cudaGetErrorName(cudaError_t e)
{
    return e == cudaErrorSymbolNotFound ? "cudaErrorSymbolNotFound" : "error";
}
