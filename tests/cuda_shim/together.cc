/* together.cc - ranks for tests. */
#include "tests/cuda_shim/together.h"

#include <atomic>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SECONDS = 60, RANKS_MAX = 16 };

int rank, ranks;
uint64_t seed;
ncclComm_t world;
uint64_t *told;

/* Memory that the processes of a test share. */
struct Meeting {
    std::atomic<bool> ready;
    ncclUniqueId id;
    uint64_t told[TOLD];
};
static Meeting *meeting;

ncclUniqueId common_id()
{
    if (rank == 0) {
        OK(ncclGetUniqueId(&meeting->id));
        meeting->ready = true;
    }
    while (!meeting->ready)
        sched_yield();
    return meeting->id;
}

ncclResult_t init(ncclComm_t *c, const ncclUniqueId &id, int blocking)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    config.commName = "world";
    return ncclCommInitRankConfig(c, ranks, id, rank, &config);
}

cudaStream_t new_stream()
{
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

cudaEvent_t new_event()
{
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

static void be(int mine, FILE *err, const std::function<void()> &body)
{
    rank = mine;
    alarm(SECONDS);
    dup2(fileno(err), STDERR_FILENO);
    setenv("SHIM_SEED", std::to_string(seed).c_str(), 1);
    setenv("SHIM_GPUS", std::to_string(ranks).c_str(), 1);
    OK(cudaSetDevice(rank));
    body();
    _exit(0);
}

/* The first bad end is that of all. */
static int wait_for_all(pid_t *child)
{
    int worst = 0, status;
    for (pid_t ended; (ended = wait(&status)) > 0;) {
        for (int i = 0; i < ranks; i++)
            if (child[i] == ended)
                child[i] = 0;
        if (worst || !status)
            continue;
        worst = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        for (int i = 0; i < ranks; i++)
            if (child[i])
                kill(child[i], SIGKILL);
    }
    return worst;
}

int together(int how_many, uint64_t its_seed, const std::function<void()> &body, std::string *said)
{
    pid_t child[RANKS_MAX];
    FILE *err = tmpfile();
    ranks = how_many;
    seed = its_seed;
    meeting = (Meeting *)mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!err || meeting == MAP_FAILED || ranks > RANKS_MAX)
        abort();
    told = meeting->told;
    fflush(NULL);
    for (int i = 0; i < ranks; i++)
        if ((child[i] = fork()) == 0)
            be(i, err, body);
    const int worst = wait_for_all(child);
    std::string text(1 << 16, 0);
    rewind(err);
    text.resize(fread(&text[0], 1, text.size(), err));
    fclose(err);
    if (said)
        *said = text;
    else
        fputs(text.c_str(), stderr);
    return worst;
}

int with_world(int how_many, uint64_t its_seed, const std::function<void()> &body,
               std::string *said)
{
    return together(
        how_many, its_seed,
        [body] {
            OK(init(&world, common_id(), 1));
            body();
            OK(ncclCommDestroy(world));
        },
        said);
}
