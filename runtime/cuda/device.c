/* device.c - opens the GPU, manages its memory, and copies between host and GPU. */
#include "runtime/cuda/cuda.h"
#include "runtime/levels.h"
#include "runtime/machine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- kernels ------------------------------------------------------------------------------ */

static const void *kernel_of(rt_cuda *c, const char *name)
{
    cudaKernel_t k;
    rt_cuda_must(cudaLibraryGetKernel(&k, c->library, name), name);
    return (const void *)k;
}

/* A kernel with so much shared memory. */
static const void *sized_kernel(rt_cuda *c, const char *name, int shared)
{
    const void *k = kernel_of(c, name);
    if (shared)
        rt_cuda_must(cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
                     name);
    return k;
}

/* Finds a kernel of the library at its first launch, which no graph captures: a program's library
 * has only kernels of the types that the program uses. */
static const void *fixed_kernel(rt_cuda *c, int which, int shared)
{
#define FOUR(name) name "_f32", name "_f64", name "_bf16", name "_f16"
    static const char *const names[] = {"mg_gather_1",
                                        "mg_gather_2",
                                        "mg_gather_4",
                                        "mg_gather_8",
                                        "mg_gather_16",
                                        "mg_put_1",
                                        "mg_put_2",
                                        "mg_put_4",
                                        "mg_put_8",
                                        "mg_put_16",
                                        "mg_sort_count",
                                        "mg_sort_scan",
                                        "mg_sort_place",
                                        "mg_scatter_add_f32",
                                        "mg_scatter_add_f64",
                                        "mg_slots_i32",
                                        "mg_ends_i32",
                                        "mg_top_f32",
                                        "mg_top_f64",
                                        FOUR("mg_dispatch"),
                                        FOUR("mg_combine"),
                                        FOUR("mg_combine_weight"),
                                        "mg_random_f32",
                                        "mg_random_f64",
                                        FOUR("mg_xent"),
                                        FOUR("mg_xent_grad"),
                                        FOUR("mg_head_rows"),
                                        "mg_fill_rows_bf16",
                                        "mg_fill_rows_f16",
                                        "mg_sum_rows_bf16",
                                        "mg_sum_rows_f16",
                                        "mg_sum_parts",
                                        "mg_gelu_bf16",
                                        "mg_gelu_f16",
                                        "mg_gelu_grad_bf16",
                                        "mg_gelu_grad_f16",
                                        "mg_round_rows_e4m3",
                                        "mg_round_squares_e4m3",
                                        "mg_round_mx_e4m3",
                                        "mg_round_rows_e5m2",
                                        "mg_round_squares_e5m2",
                                        "mg_round_mx_e5m2",
                                        "mg_lay_16",
                                        "mg_lay_8",
                                        "mg_lay_4",
                                        "mg_lay_2",
                                        "mg_lay_1",
                                        "mg_sum_shares_f32",
                                        "mg_sum_shares_f64",
                                        FOUR("mg_add_shares"),
                                        "mg_mark"};
    _Static_assert(sizeof names / sizeof *names == FIXED_count, "one name for each");
    if (c->fixed[which])
        return c->fixed[which];
    return c->fixed[which] = sized_kernel(c, names[which], shared);
}

struct rt_named {
    rt_named *next;
    const void *kernel;
    char name[];
};

/* Finds it at its first launch, too. */
const void *rt_cuda_named(rt_cuda *c, const char *name, int shared)
{
    for (const rt_named *n = c->named; n; n = n->next)
        if (strcmp(n->name, name) == 0)
            return n->kernel;
    rt_named *n = rt_alloc(1, sizeof *n + strlen(name) + 1);
    n->next = c->named;
    n->kernel = sized_kernel(c, name, shared);
    memcpy(n->name, name, strlen(name) + 1);
    c->named = n;
    return n->kernel;
}

void rt_cuda_call_shared(mg_run *r, int fixed, int64_t x, int64_t y, int block, int shared,
                         void **args)
{
    rt_cuda_launch(r, fixed_kernel(r->cuda, fixed, shared), x, y, block, shared, args);
}

void rt_cuda_call(mg_run *r, int fixed, int64_t x, int64_t y, int block, void **args)
{
    rt_cuda_call_shared(r, fixed, x, y, block, 0, args);
}

static void load_kernels(mg_run *r)
{
    const mg_program *p = r->program;
    rt_cuda *c = r->cuda;
    rt_cuda_must(cudaLibraryLoadData(&c->library, p->cuda_image, NULL, NULL, 0, NULL, NULL, 0),
                 "loading the kernels");
    c->kernel = rt_alloc((size_t)p->ncuda_kernels + 1, sizeof *c->kernel);
    c->fixed = rt_alloc(FIXED_count, sizeof *c->fixed);
    for (int i = 0; i < p->ncuda_kernels; i++)
        c->kernel[i] = kernel_of(c, p->cuda_kernels[i].name);
}

/* ---- opening ------------------------------------------------------------------------------ */

void rt_device_open(mg_run *r)
{
    rt_cpu_must(r);        /* of kernels that run on the host */
    rt_ranks_start(r);     /* a process that has used a GPU cannot fork */
    if (r->program->piece) /* a stream that waits for a word holds up none that shares its queue */
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    const char *why = rt_cuda_missing();
    struct cudaDeviceProp p;
    void *marks;
    int devices;
    while (why && r->rank && !r->ranks->launched)
        pause(); /* rank 0 finds the same error, prints it, and ends this process */
    if (why)
        rt_die(RT_NO_DEVICE, "%s was compiled for a GPU: %s", r->program->name, why);
    rt_cuda_same_runtime(r);
    rt_cuda *c = r->cuda = rt_alloc(1, sizeof *c);
    rt_cuda_must(cudaGetDeviceCount(&devices), "counting GPUs");
    int mine = rt_cuda_choose(r, devices);
    rt_cuda_settle_turns(r);
    rt_cuda_must(cudaSetDevice(mine), "choosing a GPU");
    rt_cuda_must(cudaGetDeviceProperties(&p, mine), "asking what it is");
    if ((why = rt_cuda_incapable(&p, r->program)))
        rt_die(RT_NO_DEVICE, "%s was compiled for a GPU: %s", r->program->name, why);
    snprintf(c->name, sizeof c->name, "%s", p.name);
    c->multiprocessors = p.multiProcessorCount;
    c->warpgroups = p.major == 9 && p.minor == 0 && !getenv("MGC_NO_WGMMA");
    if (r->ranks) {
        rt_cuda_sign(r, &p);
        rt_cuda_must(cudaMallocHost(&marks, 2 * RT_STREAMS * sizeof(uint32_t)), "memory to tell");
        c->marks = memset(marks, 0, 2 * RT_STREAMS * sizeof(uint32_t));
    }
    rt_streams_open(c);
    load_kernels(r);
    c->products = rt_products_new(r);
    c->graphs = rt_graphs_new();
    c->feed = rt_feed_new();
}

void rt_device_fill(mg_run *r, int64_t offset, int byte, int64_t bytes)
{
    rt_cuda_must(cudaMemsetAsync(r->arena + offset, byte, (size_t)bytes, r->cuda->stream),
                 "filling");
}

void rt_device_wait(mg_run *r)
{
    rt_streams_wait(r->cuda);
}

void rt_device_close(mg_run *r)
{
    rt_cuda *c = r->cuda;
    rt_ranks_end(r); /* also ends the thread that reads marks */
    if (!c)
        return;
    rt_outside_warn(r);
    rt_graphs_free(c->graphs); /* before the communicators that they use */
    if (c->comms)
        r->program->collectives->close(r);
    rt_streams_close(c); /* before the memory that they read and write */
    rt_host_close(c);
    rt_levels_close(r);
    rt_feed_free(c->feed);
    if (c->marks)
        cudaFreeHost(c->marks);
    rt_products_free(c->products);
    if (r->arena)
        cudaFree(r->arena);
    if (c->staging)
        cudaFreeHost(c->staging);
    cudaLibraryUnload(c->library);
    free(c->kernel);
    free(c->fixed);
    for (rt_named *n = c->named, *next; n; n = next) {
        next = n->next;
        free(n);
    }
    free(c);
}

/* ---- memory ------------------------------------------------------------------------------- */

rt_memory rt_memory_plan(const mg_run *r)
{
    const mg_program *p = r->program;
    rt_memory m = {.arena = p->arena_bytes,
                   .other = rt_outside_bytes(p, false),
                   .held = rt_outside_bytes(p, true),
                   .available = -1};
    size_t available, total;
    m.total = m.arena + m.other;
    m.limit = "unknown";
    if (!rt_cuda_missing() && cudaMemGetInfo(&available, &total) == cudaSuccess) {
        m.available = (int64_t)available;
        m.limit = "free memory of the GPU";
    }
    return m;
}

int64_t rt_memory_used(const mg_run *r, int *processes)
{
    (void)r;
    *processes = 1;
    size_t available, total;
    bool known = !rt_cuda_missing() && cudaMemGetInfo(&available, &total) == cudaSuccess;
    return known ? (int64_t)(total - available) : -1;
}

void rt_arena_map(mg_run *r)
{
    rt_memory m = rt_memory_plan(r);
    void *p;
    if (m.available >= 0 && m.total > m.available)
        rt_die(RT_FAILED,
               "this program needs %" PRId64 " bytes (%s) of the memory of %s, where %" PRId64
               " (%s) are free: %" PRId64 " for the arena, %" PRId64 " beside it (%s)",
               m.total, rt_bytes_text((double)m.total).text, r->cuda->name, m.available,
               rt_bytes_text((double)m.available).text, m.arena, m.other,
               rt_outside_items(r->program));
    r->cuda->free_before = m.available > 0 ? m.available : 0;
    rt_cuda_must(cudaMalloc(&p, (size_t)m.arena), "the arena");
    r->arena = p;
    rt_cuda_must(cudaMemsetAsync(p, 0, (size_t)r->program->persistent_bytes, r->cuda->stream),
                 "clearing parameters and state");
    rt_levels_open(r);
    if (!r->ranks)
        return;
    rt_places_tell(r, r->rank);
    rt_cuda_apart(r);
    r->program->collectives->open(r);
}

const bool rt_arenas_are_shared = false;

void rt_device_ranks(mg_run *r)
{
    (void)r; /* rt_device_open started the ranks */
}

rt_progress rt_device_progress(const mg_run *r)
{
    rt_progress p = {.action = -1};
    const volatile uint32_t *mark = r->cuda ? r->cuda->marks : NULL;
    for (int s = 0; mark && s < RT_STREAMS; s++) {
        p.passed += mark[2 * s + 1];
        p.action = mark[2 * s] ? (int)mark[2 * s] - 1 : p.action;
    }
    return p;
}

void rt_put_own(mg_run *r, int64_t offset, const void *from, int64_t bytes)
{
    if (MG_LEVEL(offset))
        rt_level_put(r, offset, from, bytes);
    else
        rt_feed_put(r->cuda->feed, r->cuda->stream, r->arena + offset, from, bytes);
}

void rt_get(const mg_run *r, int64_t offset, void *to, int64_t bytes)
{
    if (MG_LEVEL(offset)) {
        rt_level_get(r, offset, to, bytes);
        return;
    }
    rt_cuda_must(cudaMemcpyAsync(to, r->arena + offset, (size_t)bytes, cudaMemcpyDeviceToHost,
                                 r->cuda->stream),
                 "a copy from the GPU");
    rt_cuda_must(cudaStreamSynchronize(r->cuda->stream), "a copy from the GPU");
}

double rt_get_f64(const mg_run *r, int64_t offset)
{
    double x;
    rt_get(r, offset, &x, sizeof x);
    return x;
}

/* Bytes for the first n parts of the tensor of which x is a part: they are staged side by side. */
static int64_t staged_before(const rt_external *x, int n)
{
    int64_t offset, bytes = 0;
    for (int k = 0; k < n; k++)
        bytes += rt_stored_bytes(x - x->part + k, &offset);
    return bytes;
}

/* Parts are opened in their order: memory for all of them comes with the first. */
char *rt_stored_open(mg_run *r, const rt_external *x, bool read)
{
    rt_cuda *c = r->cuda;
    int64_t offset, bytes = rt_stored_bytes(x, &offset), all = staged_before(x, x->parts);
    void *p;
    if (r->ranks)
        return rt_images_open(r, x, read);
    if (all > c->staging_bytes) {
        if (c->staging)
            cudaFreeHost(c->staging);
        rt_cuda_must(cudaMallocHost(&p, (size_t)all), "memory to stage a tensor");
        c->staging = p;
        c->staging_bytes = all;
    }
    char *staged = (char *)c->staging + staged_before(x, x->part);
    if (read)
        rt_get(r, offset, staged, bytes);
    else
        memset(staged, 0, (size_t)bytes); /* zeroes the padding */
    return staged;
}

void rt_stored_close(mg_run *r, const rt_external *x, bool changed)
{
    int64_t offset, bytes = rt_stored_bytes(x, &offset);
    if (r->ranks)
        rt_images_close(r, x, changed);
    if (r->ranks || !changed)
        return;
    rt_put(r, offset, (char *)r->cuda->staging + staged_before(x, x->part), bytes);
    rt_device_wait(r); /* the next tensor uses the same memory */
}
