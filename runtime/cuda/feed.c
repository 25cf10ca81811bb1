/* feed.c - bytes on their way to the GPU: tokens, scalars, tensors of checkpoints.
 *
 * A copy from pageable memory may hold up the host until all earlier work of the stream is done. So
 * the bytes go into one of two halves of pinned memory, and from there to the GPU without the host.
 * A half is filled again only when its event says that its copies are done. */
#include "runtime/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { HALF = 256 << 10 /* bytes */ };

struct rt_feed {
    char *half[2];
    cudaEvent_t copied[2];
    bool flies[2]; /* its event was recorded */
    int at;        /* the half that is filled, and how far */
    int64_t used;
};

rt_feed *rt_feed_new(void)
{
    rt_feed *f = rt_alloc(1, sizeof *f);
    for (int i = 0; i < 2; i++) {
        void *p;
        rt_cuda_must(cudaMallocHost(&p, HALF), "memory to feed the GPU");
        f->half[i] = p;
        rt_cuda_must(cudaEventCreateWithFlags(&f->copied[i], cudaEventDisableTiming),
                     "making an event");
    }
    return f;
}

void rt_feed_free(rt_feed *f)
{
    for (int i = 0; f && i < 2; i++) {
        cudaEventDestroy(f->copied[i]);
        cudaFreeHost(f->half[i]);
    }
    free(f);
}

/* Goes on with the other half, once what it had is with the GPU. */
static void turn(rt_feed *f, cudaStream_t stream)
{
    rt_cuda_must(cudaEventRecord(f->copied[f->at], stream), "recording an event");
    f->flies[f->at] = true;
    f->at = 1 - f->at;
    f->used = 0;
    if (f->flies[f->at])
        rt_cuda_must(cudaEventSynchronize(f->copied[f->at]), "a copy to the GPU");
}

void rt_feed_put(rt_feed *f, cudaStream_t stream, char *to, const char *from, int64_t bytes)
{
    for (int64_t done = 0, n; done < bytes; done += n) {
        if (f->used == HALF)
            turn(f, stream);
        n = bytes - done < HALF - f->used ? bytes - done : HALF - f->used;
        char *place = f->half[f->at] + f->used;
        memcpy(place, from + done, (size_t)n);
        rt_cuda_must(cudaMemcpyAsync(to + done, place, (size_t)n, cudaMemcpyHostToDevice, stream),
                     "a copy to the GPU");
        f->used += n;
    }
}
