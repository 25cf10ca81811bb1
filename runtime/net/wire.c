/* wire.c - chooses the carrier of messages between machines, loads its library, and checks that
 * this MPI is the MPI of the launcher. See wire.h. */
#include "runtime/net/wire.h"

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
    int code; /* exit code of the process, while it ends */
};
enum { FAREWELL = 30 }; /* seconds */

/* srun speaks PMIx to Open MPI and PMI to MPICH. */
const rt_carrier *rt_carrier_of(const rt_world *w, bool gpus)
{
    const char *meets = getenv("MASTER_ADDR");
    bool srun = w->launcher == RT_SLURM;
    if (gpus || w->launcher == RT_TORCHRUN || w->launcher == RT_BARE)
        return &rt_carrier_tcp;
    if (w->launcher == RT_OPENMPI || (srun && getenv("PMIX_NAMESPACE")))
        return &rt_carrier_openmpi;
    if (w->launcher == RT_HYDRA || (srun && getenv("PMI_RANK")))
        return &rt_carrier_mpich;
    if (meets && *meets)
        return &rt_carrier_tcp;
    rt_die(RT_MISFIT,
           "%s started ranks on several machines without variables of MPI, which carries their "
           "messages; start them by srun --mpi=pmix (Open MPI) or srun --mpi=pmi2 (MPICH), or set "
           "MASTER_ADDR, MGC_PORT and MGC_SECRET for messages by TCP",
           rt_launcher_name(w->launcher));
}

/* Loads the MPI library of the launcher, if the carrier needs one. */
static void load(rt_wire *wire, const rt_world *w)
{
    const rt_carrier *carrier = wire->carrier;
    void *library = NULL;
    wire->name = "TCP";
    if (!carrier->library[0])
        return;
    for (int i = 0; i < 3 && carrier->library[i] && !library; i++)
        library = dlopen(wire->name = carrier->library[i], RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        rt_die(RT_MISFIT,
               "%s started ranks on several machines, whose messages go by MPI, and %s cannot be "
               "loaded (%s): install it, or set LD_LIBRARY_PATH to its directory",
               rt_launcher_name(w->launcher), carrier->library[0], dlerror());
    const char *lacks = carrier->find(wire->state, library);
    if (lacks)
        rt_die(RT_MISFIT, "%s is not the MPI of %s: it lacks %s", wire->name,
               rt_launcher_name(w->launcher), lacks);
}

rt_wire *rt_wire_open(const rt_wire_terms *t)
{
    const rt_world *w = t->world;
    rt_wire *wire = rt_alloc(1, sizeof *wire);
    int rank = -1, size = -1;
    wire->carrier = rt_carrier_of(w, t->gpus);
    wire->state = rt_alloc(1, (size_t)wire->carrier->state_bytes);
    load(wire, w);
    wire->speaks = wire->carrier->start(wire->state, t, &rank, &size);
    if (rank != w->rank || size != w->size)
        rt_die(RT_MISFIT,
               "%s says that this is rank %d of %d, and %s rank %d of %d: it is another MPI",
               wire->name, rank, size, rt_launcher_name(w->launcher), w->rank, w->size);
    return wire;
}

/* Ends the process if the carrier's `stop` hangs: everything is done and saved by then. */
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
    w->carrier->stop(w->state); /* the process ends soon and frees `w` */
}

void rt_wire_gather(rt_wire *w, const void *mine, void *all, int bytes)
{
    w->carrier->gather(w->state, mine, all, bytes);
}

void rt_wire_send(rt_wire *w, int rank, const void *from, int64_t bytes, rt_ticket *t)
{
    w->carrier->send(w->state, rank, from, (int)bytes, t);
}

void rt_wire_take(rt_wire *w, int rank, void *to, int64_t bytes, rt_ticket *t)
{
    w->carrier->take(w->state, rank, to, (int)bytes, t);
}

bool rt_wire_done(rt_wire *w, const rt_ticket *t, int *peer)
{
    *peer = -1;
    if (t->left)
        w->carrier->go_on(w->state, t);
    if (t->left)
        *peer = w->carrier->peer(w->state, t);
    return !t->left;
}

bool rt_wire_go_on(rt_wire *w)
{
    return w->carrier->go_on(w->state, NULL);
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

int rt_wire_line(rt_wire *w, int rank)
{
    return w->carrier->line ? w->carrier->line(w->state, rank) : -1;
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
