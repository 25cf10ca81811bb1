/* together.h - for tests: a function as the ranks of a communicator, each a process. */
#ifndef SHIM_TOGETHER_H
#define SHIM_TOGETHER_H

#include <functional>
#include <stdint.h>
#include <stdio.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/cuda_shim/include/nccl.h"

extern int rank, ranks; /* of this process */
extern uint64_t seed;
extern ncclComm_t world;

/* Numbers that ranks report to the test. */
enum { TOLD = 64 };
extern uint64_t *told; /* [rank] */

/* Ends a rank. */
#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "rank %d of %d, seed %d, line %d: %s\n", rank, ranks, (int)seed,       \
                    __LINE__, #what);                                                              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define OK(call) CHECK((call) == 0)

/* Forks so many processes, of which each calls `body`, and ends those that are left when one ended
 * with something else than 0. Returns that, or 0; `said` is what they wrote to stderr. */
int together(int how_many, uint64_t its_seed, const std::function<void()> &body, std::string *said);
/* The same with a communicator of them all, `world`, one GPU for each. */
int with_world(int how_many, uint64_t its_seed, const std::function<void()> &body,
               std::string *said = NULL);

/* An id that rank 0 made, for all; once in a process. */
ncclUniqueId common_id();
ncclResult_t init(ncclComm_t *c, const ncclUniqueId &id, int blocking);

cudaStream_t new_stream();
cudaEvent_t new_event();

/* Memory of the device. */
template <class T> struct Device {
    T *at;
    size_t n;
    explicit Device(size_t count) : n(count)
    {
        void *p;
        OK(cudaMalloc(&p, n * sizeof(T)));
        at = (T *)p;
    }
    Device(const Device &) = delete;
    ~Device()
    {
        cudaFree(at);
    }
    void put(const std::vector<T> &x, cudaStream_t s)
    {
        OK(cudaMemcpyAsync(at, x.data(), n * sizeof(T), cudaMemcpyHostToDevice, s));
    }
    std::vector<T> get(cudaStream_t s) const
    {
        std::vector<T> x(n);
        OK(cudaMemcpyAsync(x.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost, s));
        OK(cudaStreamSynchronize(s));
        return x;
    }
};

#endif
