/* ranks.c - chooses the GPU of each rank: the GPU with the rank's place among the ranks of its
 * machine, or the only GPU that the launcher lets the rank see. */
#include "runtime/net/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"
#include "runtime/machine.h"
#include "runtime/net/pipe.h"

/* True if the user lets several ranks take turns on one GPU, to test a layout with fewer GPUs. */
static bool share(void)
{
    const char *s = getenv("MGC_SHARE_GPU");
    return s && strcmp(s, "1") == 0;
}

int rt_cuda_choose(const mg_run *r, int devices)
{
    int place = 0;
    for (int i = 0; r->ranks && i < r->ranks->nhere; i++)
        if (r->ranks->here[i] == r->rank)
            place = i;
    return place % devices;
}

void rt_cuda_sign(mg_run *r, const struct cudaDeviceProp *p)
{
    uint64_t id = 0;
    for (size_t i = 0; i < sizeof p->uuid.bytes; i++)
        id = rt_mix64(id ^ (unsigned char)p->uuid.bytes[i]);
    r->ranks->shared->slot[r->rank].device = id ? id : 1;
}

/* NCCL refuses two ranks of one machine on the same GPU. Each rank therefore pretends to be on its
 * own machine, and they communicate over the loopback interface. */
static void look_apart(const mg_run *r)
{
    char *name = rt_printf("mgc-%d", r->rank);
    const char *const set[][2] = {{"NCCL_HOSTID", name},      {"NCCL_SOCKET_IFNAME", "lo"},
                                  {"NCCL_IB_DISABLE", "1"},   {"NCCL_NET", "Socket"},
                                  {"NCCL_MNNVL_ENABLE", "0"}, {"NCCL_NVLS_ENABLE", "0"},
                                  {"NCCL_MAX_CTAS", "2"},     {"NCCL_BUFFSIZE", "1048576"}};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        setenv(set[i][0], set[i][1], i == 0);
    free(name);
}

void rt_cuda_apart(mg_run *r)
{
    const struct rt_ranks *k = r->ranks;
    rt_meet(r, RT_ALL_AXES); /* all ranks of this machine have published their GPUs */
    for (int i = 0; i < k->nhere && !share() && rt_is_first_here(r); i++)
        for (int j = 0; j < i; j++)
            if (k->shared->slot[k->here[i]].device == k->shared->slot[k->here[j]].device)
                rt_die(RT_MISFIT,
                       "ranks %d and %d have the same GPU: %d ranks on this machine want %d GPUs; "
                       "have more machines take part, or compile with a smaller mesh "
                       "(MGC_SHARE_GPU=1 lets ranks take turns on one, which is slow)",
                       k->here[j], k->here[i], k->nhere, k->nhere);
}

void rt_cuda_settle_turns(const mg_run *r)
{
    if (r->ranks && share())
        look_apart(r);
}

/* Messages between stages use NCCL (pipe.c), and need no shared memory. */
int64_t rt_pipe_shared_bytes(const mg_program *p)
{
    (void)p;
    return 0;
}

struct rt_pipe *rt_pipe_new(const mg_program *p, void *shared)
{
    (void)p;
    (void)shared;
    return NULL;
}

void rt_pipe_free(struct rt_pipe *p)
{
    (void)p;
}
