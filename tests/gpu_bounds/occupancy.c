/* occupancy.c - the answers of the CUDA Toolkit's occupancy calculator, for golden/occupancy.txt. A
 * line: compute capability times ten, threads and registers and bytes of shared memory of a block,
 * blocks of a multiprocessor. make_golden.py compiles and runs it. */
#include <cuda_occupancy.h>
#include <stdio.h>

typedef struct Machine {
    int capability, threads;
    size_t shared, block_shared;
} Machine;

static int blocks_of(const Machine *m, int threads, int registers, size_t shared)
{
    cudaOccDeviceProp p = {0};
    p.computeMajor = m->capability / 10, p.computeMinor = m->capability % 10;
    p.maxThreadsPerBlock = 1024, p.maxThreadsPerMultiprocessor = m->threads;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.sharedMemPerBlock = 48 << 10, p.sharedMemPerMultiprocessor = m->shared;
    p.sharedMemPerBlockOptin = m->block_shared, p.reservedSharedMemPerBlock = 1 << 10;
    p.numSms = 1;
    cudaOccFuncAttributes a = {0};
    a.maxThreadsPerBlock = 1024, a.numRegs = registers, a.numBlockBarriers = 1;
    a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, a.maxDynamicSharedSizeBytes = m->block_shared;
    cudaOccDeviceState state = {0};
    state.carveoutConfig = 100; /* all that there is becomes shared memory */
    cudaOccResult result;
    return cudaOccMaxActiveBlocksPerMultiprocessor(&result, &p, &a, &state, threads, shared) ==
                   CUDA_OCC_SUCCESS
               ? result.activeBlocksPerMultiprocessor
               : -1;
}

int main(void)
{
    /* Threads and shared memory of a multiprocessor are no part of the header: its callers ask the
     * driver. */
    const Machine machines[] = {
        {80, 2048, 164 << 10, 163 << 10},  {86, 1536, 100 << 10, 99 << 10},
        {89, 1536, 100 << 10, 99 << 10},   {90, 2048, 228 << 10, 227 << 10},
        {100, 2048, 228 << 10, 227 << 10}, {120, 1536, 100 << 10, 99 << 10}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        for (int threads = 32; threads <= 1024; threads += 160)
            for (int registers = 16; registers <= 255; registers += 37)
                for (size_t shared = 0; shared <= machines[i].block_shared; shared += 36000)
                    printf("%d %d %d %zu %d\n", machines[i].capability, threads, registers, shared,
                           blocks_of(&machines[i], threads, registers, shared));
    return 0;
}
