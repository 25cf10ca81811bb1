/* device.h - what the planner knows of a device. The numbers come from a data file
 * (compiler/devices/NAME.json, read by compiler/device.c); nothing here is measured. */
#ifndef MGC_DEVICE_H
#define MGC_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/level.h"

/* The maker of a GPU's collectives: what is faster, NCCL, or, where they may be, copies through the
 * host; unordered: NCCL, by whatever algorithm it finds the fastest, though that adds up in an
 * order of its own in each run (--collectives). */
typedef enum Collectives {
    COLLECTIVES_auto,
    COLLECTIVES_nccl,
    COLLECTIVES_copies,
    COLLECTIVES_unordered
} Collectives;

typedef enum Target { TARGET_host, TARGET_cuda } Target;

/* Classes of a GPU's kernels of attention (runtime/attend.h), of which a description tells apart.
 */
typedef enum AttentionKernels {
    ATTENTION_flash,      /* halves, by mma.sync */
    ATTENTION_flash_sm90, /* halves, by wgmma */
    ATTENTION_flash_tf32,
    ATTENTION_flash_f32,
    ATTENTION_KERNELS
} AttentionKernels;
/* Shares of the peak of their numbers that the products inside attention reach, and inside its
 * gradient. keys: twice those that a query sees on average, so under a causal mask all. */
typedef struct AttentionShare {
    AttentionKernels kernels;
    double head, keys;
    double forward, gradient;
} AttentionShare;

/* A level of memory below the device's: what it holds, and how fast bytes come to the device (in),
 * and go there (out); both ways at once no more than `both`. memory 0: there is none. Its bytes are
 * of a machine, whose ranks share them; so are a disk's rates, where a host's are of one rank. */
typedef struct DeviceLevel {
    int64_t memory;
    double in, out, both; /* bytes/s */
    double seconds;       /* a transfer costs at least */
} DeviceLevel;

typedef struct Device {
    const char *name;
    Target target;
    const char
        *processor; /* of the program, by --cpu's name; NULL: the machine's that compiles it */
    const char *measured; /* the GPU on which its numbers were measured, and when; NULL: no note */
    const char *known; /* how its numbers are: "measured", "calibrated", "guessed"; and by which */
    const char *known_by; /* evidence; NULL: the description does not say */
    int architecture;     /* cuda: compute capability, 89 for 8.9; 0: a program for all of them */
    bool warpgroups;      /* cuda: it has the tensor cores of sm_90 */
    int64_t memory;       /* bytes a rank may plan for */
    double flops_f32;     /* peak of matrix products, FLOP/s */
    double flops_f64, flops_tf32, flops_bf16, flops_f16;
    double flops_fp8;     /* cuda: 0: it multiplies no fp8 */
    double product_share; /* share of the peak that products reach */
    double product_share_f32, product_share_f64, product_share_tf32,
        product_share_fp8;           /* of these; 0: that one */
    double attention_share;          /* host: ... the products inside attention */
    double attention_grad_share;     /* host: ... inside its gradient */
    const AttentionShare *attention; /* cuda: the same; at least one row of each class it asks of */
    int nattention;
    double exponentials; /* a second, of attention and cross-entropy */
    double operations;   /* host: additions a second in generated kernels, of numbers of 32 bits */
    /* Rows and columns of its result that a multiprocessor computes at a time; 0: in any shape. */
    int product_rows, product_columns;
    double bandwidth; /* bytes/s of streaming kernels */
    /* host: times bandwidth, at which a product of few rows reads the matrix that it multiplies
     * while it reads it; weights of a recurrence may stay in a cache from step to step. */
    double weights_share;
    double launch;         /* seconds an action costs at least */
    double link_bandwidth; /* bytes/s a rank sends another of its node */
    double link_seconds;   /* a step of communication costs at least */
    double link_slowdown;  /* times as long as other actions take while a collective runs */
    int node_ranks;        /* neighbours that those links join; the others are behind a network */
    double node_bandwidth; /* bytes/s a rank sends into the network */
    double node_seconds;   /* a step over the network costs at least */
    int pod_ranks;         /* neighbours that have this network to themselves; 0: all ranks */
    double pod_bandwidth;  /* bytes/s each of them sends to other pods while all do */
    double pod_seconds;    /* a step to another pod costs at least */
    double rank_spread;    /* deviation of ranks' times for what they compute; 0: unknown */
    double watts, idle_watts; /* of a rank: while it computes, while it waits; 0: unknown */
    int machine_ranks;        /* neighbours that share a host; 0: node_ranks */
    /* cuda: bytes/s of a ring that an all-reduce in the links' switch is as fast as; 0: the links
     * have none that adds up. */
    double switch_bandwidth;
    bool through_host; /* cuda: those links go through the host: no peer access */
    Collectives collectives;
    double host_all; /* bytes/s of the copies of all GPUs of a host together; 0: of each its own */
    DeviceLevel level[LEVEL_count]; /* [LEVEL_device] is not used */
    /* cuda: bytes/s that all cores of the host stream through its memory, for all ranks of the
     * machine; 0: unknown, and no kernel runs there. */
    double host_bandwidth;
    int streams; /* in which actions may run side by side */
    /* Of those: products have none of their own (hosts: what computes is one thread, which carries
     * collectives on as a queue), nor have collectives (--overlap=none). */
    bool products_wait, collectives_wait;
    int threads; /* host: threads the numbers above are for, and scratch is counted for */
} Device;

/* Ranks that share a host, its memory and its disk, at most. */
static inline int64_t device_machine(const Device *d)
{
    return d->machine_ranks ? d->machine_ranks : d->node_ranks;
}

/* Buffers of the arena lie at multiples of so many bytes and are as long: on a host of a cache
 * line; on a GPU of what cuBLASLt takes operands of products to be at (256,
 * CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) and cudaMalloc gives. Its fastest algorithms need it.
 */
static inline int64_t device_align(const Device *d)
{
    return d->target == TARGET_cuda ? 256 : 64;
}
static inline int64_t device_round(const Device *d, int64_t bytes)
{
    const int64_t to = device_align(d);
    return (bytes + to - 1) / to * to;
}

#endif
