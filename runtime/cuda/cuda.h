/* cuda.h - one GPU as the device of a run; private to runtime/cuda.
 *
 * The work of a program goes into the streams that the plan chose; the host waits only where it
 * reads a result. No managed memory is used. */
#ifndef MG_RUNTIME_CUDA_H
#define MG_RUNTIME_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "runtime/run.h"
#include "runtime/sizes.h"

/* The first version with cudaLibraryLoadData in the runtime. */
#define RT_CUDA_LEAST 12080
#if CUDART_VERSION < RT_CUDA_LEAST
#error "this CUDA Toolkit is older than 12.8"
#endif

typedef struct rt_products rt_products; /* products.c */
typedef struct rt_graphs rt_graphs;     /* graph.c */
typedef struct rt_feed rt_feed;         /* feed.c */
typedef struct rt_named rt_named;       /* device.c */
typedef struct rt_host rt_host;         /* host.c */

enum { RT_STREAMS = MG_STREAMS_MAX, RT_POINTS = MG_POINTS_MAX };

typedef struct rt_cuda {
    cudaStream_t stream; /* of the next launch: streams[at] */
    int at;
    cudaStream_t streams[RT_STREAMS]; /* NULL: not created yet */
    cudaEvent_t point[RT_POINTS];
    cudaLibrary_t library;
    const void **kernel; /* generated kernels, by number */
    const void **fixed;  /* of kernels/cuda/library.h, by number */
    rt_named *named;     /* of attention, by name (device.c) */
    rt_products *products;
    rt_graphs *graphs;
    rt_feed *feed;
    rt_host *host;            /* NULL: no kernel of the host was launched */
    struct rt_comms *comms;   /* comm.c; NULL: one rank */
    struct rt_copies *copies; /* copies.c; NULL: no collective is made by copies */
    uint32_t *_Atomic marks;  /* RT_STREAMS pairs that the GPU writes; see rt_cuda_enter */
    char *staging;            /* pinned; holds the open tensor */
    int64_t staging_bytes;
    int64_t free_before; /* bytes free before the arena was allocated; 0: it was not */
    char name[256];
    int multiprocessors;
    bool warpgroups; /* uses the tensor cores of sm_90 */
} rt_cuda;

/* host.c: once the streams are empty. */
void rt_host_close(rt_cuda *c);

/* driver.c. Ends the program with a message that names `what`, unless e is success. */
void rt_cuda_must(cudaError_t e, const char *what);
/* NULL, or why no GPU is available; why a GPU cannot run any program. Until the next call. */
const char *rt_cuda_missing(void);
const char *rt_cuda_incapable(const struct cudaDeviceProp *p, const mg_program *program);
/* Ends the program if it is linked with another major version of CUDA than this runtime was
 * compiled with: structures differ. */
void rt_cuda_same_runtime(const mg_run *r);

/* The kernels of kernels/cuda/library.h. Kernels for several types are consecutive: f32, f64, then,
 * if there are four, bf16, f16. */
typedef enum rt_fixed {
    FIXED_gather_1,
    FIXED_gather_2,
    FIXED_gather_4,
    FIXED_gather_8,
    FIXED_gather_16,
    FIXED_put_1,
    FIXED_put_2,
    FIXED_put_4,
    FIXED_put_8,
    FIXED_put_16,
    FIXED_sort_count,
    FIXED_sort_scan,
    FIXED_sort_place,
    FIXED_scatter_add,
    FIXED_slots = FIXED_scatter_add + 2,
    FIXED_ends,
    FIXED_top,
    FIXED_dispatch = FIXED_top + 2,
    FIXED_combine = FIXED_dispatch + 4,
    FIXED_combine_weight = FIXED_combine + 4,
    FIXED_random = FIXED_combine_weight + 4,
    FIXED_xent = FIXED_random + 2,
    FIXED_xent_grad = FIXED_xent + 4,
    FIXED_head_rows = FIXED_xent_grad + 4,
    FIXED_fill_rows = FIXED_head_rows + 4, /* bf16, f16 */
    FIXED_sum_rows = FIXED_fill_rows + 2,
    FIXED_sum_parts = FIXED_sum_rows + 2,
    FIXED_gelu,
    FIXED_gelu_grad = FIXED_gelu + 2,
    FIXED_round_rows = FIXED_gelu_grad + 2, /* to e4m3, in squares, with powers of two; to e5m2 */
    FIXED_lay = FIXED_round_rows + 6,       /* words of 16, 8, 4, 2, 1 bytes */
    FIXED_sum_shares = FIXED_lay + 5,
    FIXED_add_shares = FIXED_sum_shares + 2,
    FIXED_mark = FIXED_add_shares + 4,
    FIXED_count
} rt_fixed;
/* Launch a kernel in the current stream; rt_cuda_call* launch a kernel of the library (device.c).
 * `shared`: bytes of dynamic shared memory, the same in each call of a kernel. */
void rt_cuda_launch(mg_run *r, const void *kernel, int64_t x, int64_t y, int block, int shared,
                    void **args);
void rt_cuda_call(mg_run *r, int fixed, int64_t grid_x, int64_t grid_y, int block, void **args);
void rt_cuda_call_shared(mg_run *r, int fixed, int64_t grid_x, int64_t grid_y, int block,
                         int shared, void **args);

/* A kernel of the library by its name; `shared` as above. */
const void *rt_cuda_named(rt_cuda *c, const char *name, int shared);

/* stream.c */
void rt_streams_open(rt_cuda *c);
void rt_streams_wait(rt_cuda *c);
void rt_streams_close(rt_cuda *c);

/* feed.c: copies bytes of the host to the GPU, in the stream. `from` may change after the call. All
 * copies of a feed are in one stream. */
rt_feed *rt_feed_new(void);
void rt_feed_free(rt_feed *f); /* NULL: nothing */
void rt_feed_put(rt_feed *f, cudaStream_t stream, char *to, const char *from, int64_t bytes);

/* The collectives of GPU ranks: mg_nccl. All ranks call `open` when their arenas exist. */
struct mg_collectives {
    void (*open)(mg_run *r);
    void (*close)(mg_run *r);
    double (*exchange)(mg_run *r, int rank, int64_t bytes); /* rt_device_exchange */
    int (*version)(void);                                   /* of NCCL: 22703 for 2.27.3 */
};
/* Around a collective: the GPU tells the host that it has entered, and that it has left. A mark has
 * two words per stream: 1 + the action, or 0; and a count of changes. */
void rt_cuda_enter(mg_run *r, int action);
void rt_cuda_leave(mg_run *r);

/* ranks.c: the number of this rank's GPU on this machine. */
int rt_cuda_choose(const mg_run *r, int devices);
/* Before memory is planned: settings of NCCL for ranks that take turns on one GPU, if they do. */
void rt_cuda_settle_turns(const mg_run *r);
/* rt_cuda_sign publishes the GPU of this rank. rt_cuda_apart ends the program (78) if two ranks of
 * this machine have the same GPU, unless the user allowed that. */
void rt_cuda_sign(mg_run *r, const struct cudaDeviceProp *p);
void rt_cuda_apart(mg_run *r);

/* outside.c: bytes planned beside the arena, taken before it (early) or after. */
int64_t rt_outside_bytes(const mg_program *p, bool early);
char *rt_outside_items(const mg_program *p); /* those that come after the arena; the caller frees */
/* Bytes that the GPU has less since before the arena, but for it; -1: unknown. */
int64_t rt_outside_measured(const mg_run *r);
void rt_outside_warn(const mg_run *r); /* if that is more than was planned */

/* calls.c: decides the guard. */
bool rt_cuda_guard(mg_run *r, int action, const double *loss, const double *norm);

/* graph.c */
rt_graphs *rt_graphs_new(void);
void rt_graphs_free(rt_graphs *g);
/* The guard; while a program is captured, it separates two graphs. */
bool rt_graphs_guard(mg_run *r, int action, const double *loss, const double *norm);

/* A product, and where its operands are: the greatest power of two, at most 256, of which the
 * addresses of A, B, C and of the epilogue's matrix (at most 16) are multiples. The library has
 * faster algorithms for operands at greater ones. */
typedef struct rt_product_key {
    mg_gemm_desc d;
    int a, b, c, aux;
} rt_product_key;
bool rt_same_product(const rt_product_key *a, const rt_product_key *b); /* ignores alpha and beta */

/* algos.c: the algorithms of products, pinned in a file. */
typedef struct rt_algo {
    cublasLtMatmulAlgo_t algo;
    bool apart; /* the library has no algorithm with the product's epilogue: kernels compute it */
} rt_algo;
typedef struct rt_algos rt_algos;
/* Reads the file if it exists; ends the program (65) if it is for another device or library. */
rt_algos *rt_algos_open(const char *path, const char *device);
const rt_algo *rt_algos_find(const rt_algos *a, const rt_product_key *k); /* or NULL */
/* In place of what there is for this product, which the library refused. */
void rt_algos_add(rt_algos *a, const rt_product_key *k, const rt_algo *algo);
void rt_algos_save(rt_algos *a); /* if something was added; NULL: nothing */
void rt_algos_free(rt_algos *a);

/* products.c: C = alpha op(A) op(B) + beta C in the stream, as in mg_gemm_desc; extra, aux:
 * operands of its epilogue. */
rt_products *rt_products_new(const mg_run *r);
void rt_products_save(rt_products *p); /* the measured algorithms */
void rt_products_free(rt_products *p);
void rt_product(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c,
                void *extra, void *aux);

#endif
