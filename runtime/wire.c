/* wire.c - see wire.h: which MPI, and that it is the launcher's. */
#include "runtime/wire.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/run.h"

struct rt_wire {
    const rt_carrier *carrier;
    void *state;
    const char *name;
    bool speaks;
    int code; /* of the process, while it ends */
};
enum { FAREWELL = 30 }; /* seconds */

/* srun speaks PMIx to Open MPI and PMI to MPICH. */
static const rt_carrier *carrier_of(const rt_world *w)
{
    if (w->launcher == RT_OPENMPI || (w->launcher == RT_SLURM && getenv("PMIX_NAMESPACE")))
        return &rt_carrier_openmpi;
    if (w->launcher == RT_HYDRA || (w->launcher == RT_SLURM && getenv("PMI_RANK")))
        return &rt_carrier_mpich;
    rt_die(
        RT_MISFIT,
        "%s started ranks on several machines, which talk by MPI, and said nothing for it; start "
        "them by: srun --mpi=pmix (Open MPI) or srun --mpi=pmi2 (MPICH)",
        rt_launcher_name(w->launcher));
}

rt_wire *rt_wire_open(const rt_world *w)
{
    rt_wire *wire = rt_alloc(1, sizeof *wire);
    const rt_carrier *carrier = wire->carrier = carrier_of(w);
    void *library = NULL;
    int rank = -1, size = -1;
    for (int i = 0; i < 3 && carrier->library[i] && !library; i++)
        library = dlopen(wire->name = carrier->library[i], RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        rt_die(RT_MISFIT,
               "%s started ranks on several machines, which talk by MPI, and %s cannot be loaded "
               "(%s): install it, or have LD_LIBRARY_PATH lead to it",
               rt_launcher_name(w->launcher), carrier->library[0], dlerror());
    wire->state = rt_alloc(1, (size_t)carrier->state_bytes);
    const char *lacks = carrier->find(wire->state, library);
    if (lacks)
        rt_die(RT_MISFIT, "%s is not the MPI of %s: it lacks %s", wire->name,
               rt_launcher_name(w->launcher), lacks);
    wire->speaks = carrier->start(wire->state, &rank, &size);
    if (rank != w->rank || size != w->size)
        rt_die(RT_MISFIT,
               "%s says that this is rank %d of %d, and %s rank %d of %d: it is another MPI",
               wire->name, rank, size, rt_launcher_name(w->launcher), w->rank, w->size);
    return wire;
}

/* All is done and saved, and MPI does not end. */
static void *leave(void *arg)
{
    const rt_wire *w = arg;
    sleep(FAREWELL);
    _exit(w->code);
}

void rt_wire_close(rt_wire *w, int code)
{
    pthread_t t;
    w->code = code;
    if (pthread_create(&t, NULL, leave, w) == 0)
        pthread_detach(t);
    w->carrier->stop(w->state); /* the process ends soon, and what this is with it */
}

void rt_wire_gather(rt_wire *w, const void *mine, void *all, int bytes)
{
    w->carrier->gather(w->state, mine, all, bytes);
}

void rt_wire_send(rt_wire *w, int rank, const void *from, int64_t bytes)
{
    w->carrier->send(w->state, rank, from, (int)bytes);
}

void rt_wire_take(rt_wire *w, int rank, void *to, int64_t bytes)
{
    w->carrier->take(w->state, rank, to, (int)bytes);
}

bool rt_wire_done(rt_wire *w, int *peer)
{
    return w->carrier->done(w->state, peer);
}

bool rt_wire_speaks(const rt_wire *w)
{
    return w->speaks;
}

void rt_wire_say(rt_wire *w, int rank, const rt_word *word)
{
    w->carrier->say(w->state, rank, word);
}

bool rt_wire_hears(rt_wire *w, int rank, rt_word *word)
{
    return w->carrier->hears(w->state, rank, word);
}

void rt_wire_silence(rt_wire *w)
{
    w->carrier->silence(w->state);
}

void rt_wire_abort(rt_wire *w, int code)
{
    w->carrier->abort(w->state, code);
    _exit(code);
}
