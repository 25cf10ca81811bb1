/* world.c - reads from the environment how this process was started; see world.h. Each launcher
 * has its own variables. If variables of several launchers are set, their values must agree,
 * because nothing tells which launcher started this process. */
#include "runtime/net/world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/run.h"

typedef struct source {
    rt_launcher launcher;
    const char *rank, *size, *local_rank, *local_size;
} source;

static const source sources[] = {
    {RT_OPENMPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {RT_HYDRA, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {RT_TORCHRUN, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
};
enum { SOURCES = sizeof sources / sizeof *sources, LIMIT = 1 << 24 };

const char *rt_launcher_name(rt_launcher l)
{
    static const char *const names[] = {"itself", "mpirun (Open MPI)", "mpirun (MPICH)", "srun",
                                        "torchrun"};
    return names[l];
}

/* ---- variables ------------------------------------------------------------------------------- */

static const char *var(const char *name)
{
    const char *s = getenv(name);
    return s && *s ? s : NULL;
}

/* NULL, or why the variable is not a number in [least, LIMIT]. */
static char *number(const char *name, int least, int *n)
{
    const char *s = var(name);
    char *end;
    if (!s)
        return rt_printf("the variable %s is not set", name);
    long x = strtol(s, &end, 10);
    if (*s < '0' || *s > '9' || *end || x < least || x > LIMIT)
        return rt_printf("the variable %s is '%.40s': a whole number from %d is wanted", name, s,
                         least);
    *n = (int)x;
    return NULL;
}

/* Reads a pair of rank and size; both variables must be set. NULL, or why not. */
static char *place(const char *rank, const char *size, int *r, int *n)
{
    char *why = number(size, 1, n);
    if (!why)
        why = number(rank, 0, r);
    if (!why && *r >= *n)
        why = rt_printf("the variable %s is %d, and %s is %d: ranks count from 0 to %d", rank, *r,
                        size, *n, *n - 1);
    return why;
}

static char *read_source(rt_world *w, const source *s)
{
    w->launcher = s->launcher;
    char *why = place(s->rank, s->size, &w->rank, &w->size);
    w->local_size = 1;
    if (!why && (var(s->local_rank) || var(s->local_size)))
        why = place(s->local_rank, s->local_size, &w->local_rank, &w->local_size);
    if (!why && w->local_size > w->size)
        why = rt_printf("the variable %s is %d, and %s is %d: one machine has more than all",
                        s->local_size, w->local_size, s->size, w->size);
    return why;
}

/* ---- SLURM ----------------------------------------------------------------------------------- */

/* True if this process is a task of srun. The shell of sbatch, of salloc and of an interactive
 * step also has SLURM's variables, although it started no rank: it has no step, or a reserved
 * step number, or a terminal for its only task. */
static bool in_step(void)
{
    const char *step = var("SLURM_STEP_ID"), *tasks = var("SLURM_STEP_NUM_TASKS");
    enum { RESERVED_DIGITS = 10 }; /* batch, interactive and extern steps: 2^32 less a few */
    if (!step || !var("SLURM_PROCID") || strlen(step) >= RESERVED_DIGITS)
        return false;
    return !(var("SLURM_PTY_PORT") && tasks && strcmp(tasks, "1") == 0);
}

/* The number of tasks on a node: "2(x3),1" stands for nodes of 2, 2, 2 and 1 tasks. */
static char *tasks_of_node(const char *text, int node, int *tasks)
{
    for (const char *s = text; *s;) {
        char *end;
        long n = strtol(s, &end, 10), times = 1;
        if (end == s || n < 1 || n > LIMIT)
            break;
        if (end[0] == '(' && end[1] == 'x') {
            times = strtol(end + 2, &end, 10);
            if (*end++ != ')' || times < 1)
                break;
        }
        if (node < times) {
            *tasks = (int)n;
            return NULL;
        }
        node -= (int)times;
        if (*end != ',')
            break;
        s = end + 1;
    }
    return rt_printf("the variable SLURM_STEP_TASKS_PER_NODE is '%.60s', which does not say how "
                     "many tasks are on this node",
                     text);
}

static char *read_slurm(rt_world *w)
{
    const char *size = var("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    const char *tasks = var("SLURM_STEP_TASKS_PER_NODE");
    int node = 0;
    w->launcher = RT_SLURM;
    w->local_size = 1;
    char *why = place("SLURM_PROCID", size, &w->rank, &w->size);
    if (!why && tasks && var("SLURM_LOCALID")) {
        why = number("SLURM_NODEID", 0, &node);
        why = why ? why : tasks_of_node(tasks, node, &w->local_size);
        why = why ? why : number("SLURM_LOCALID", 0, &w->local_rank);
        if (!why && (w->local_rank >= w->local_size || w->local_size > w->size))
            why = rt_printf("the variable SLURM_LOCALID is %d, of %d tasks on this node and %d of "
                            "the step",
                            w->local_rank, w->local_size, w->size);
    }
    return why;
}

/* ---- the job --------------------------------------------------------------------------------- */

static void join(char **text, const char *name)
{
    const char *value = var(name);
    if (!value)
        return;
    char *longer = rt_printf("%s %s=%s", *text, name, value);
    free(*text);
    *text = longer;
}

/* Hydra gives its processes no common name, but a socket to its one daemon on the machine: the
 * process id of the daemon is the name. */
static void join_daemon(char **text)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    int fd;
    char *why = number("PMI_FD", 0, &fd);
    free(why);
    if (why || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.pid <= 0)
        return;
    char *longer = rt_printf("%s daemon=%d", *text, (int)peer.pid);
    free(*text);
    *text = longer;
}

static char *job_of(const rt_world *w)
{
    static const char *const names[][6] = {
        [RT_OPENMPI] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                        "OMPI_MCA_orte_precondition_transports", "PMIX_SERVER_TMPDIR"},
        [RT_HYDRA] = {"PMI_PORT"},
        [RT_SLURM] = {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_STEP_ID"},
        [RT_TORCHRUN] = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                         "TORCHELASTIC_RESTART_COUNT", "MGC_GENERATION"},
    };
    char *text = rt_printf("%s of %d", rt_launcher_name(w->launcher), w->size);
    for (int i = 0; i < 6 && names[w->launcher][i]; i++)
        join(&text, names[w->launcher][i]);
    if (w->launcher == RT_HYDRA)
        join_daemon(&text);
    return text;
}

/* ---- the world ------------------------------------------------------------------------------- */

static char *read_launcher(rt_world *w)
{
    const source *from = NULL;
    for (int i = 0; i < SOURCES; i++) {
        const source *s = &sources[i];
        rt_world found = {0};
        if (!var(s->rank) && !var(s->size))
            continue;
        if (s->launcher == RT_HYDRA && in_step() && !var(s->local_rank))
            continue; /* srun speaks PMI too; its own variables say more */
        char *why = read_source(&found, s);
        if (why)
            return why;
        if (from && (found.rank != w->rank || found.size != w->size))
            return rt_printf("%s and %s say that this is rank %d of %d, %s and %s rank %d of %d: "
                             "unset those of the launcher that did not start it",
                             from->rank, from->size, w->rank, w->size, s->rank, s->size, found.rank,
                             found.size);
        if (!from)
            *w = found, from = s;
    }
    return from || !in_step() ? NULL : read_slurm(w);
}

char *rt_world_read(rt_world *w)
{
    *w = (rt_world){.size = 1, .local_size = 1};
    char *why = read_launcher(w);
    if (!why && w->launcher == RT_TORCHRUN && w->size > 1 &&
        (!var("MASTER_ADDR") || !var("MASTER_PORT")))
        why = rt_printf("RANK and WORLD_SIZE are set, and %s is not: torchrun sets all of them",
                        var("MASTER_ADDR") ? "MASTER_PORT" : "MASTER_ADDR");
    if (!why && w->launcher != RT_BARE && var("MGC_FAKE_HOSTS"))
        why = number("MGC_FAKE_HOSTS", 1, &w->fake_hosts);
    if (!why && w->launcher == RT_TORCHRUN && var("MGC_GENERATION"))
        why = number("MGC_GENERATION", 1, &w->generation);
    if (!why && w->launcher != RT_BARE)
        w->job = job_of(w);
    return why;
}

void rt_world_free(rt_world *w)
{
    free(w->job);
    w->job = NULL;
}

char *rt_world_command(const rt_world *w, int ranks, const char *command)
{
    if (ranks == 1 || w->launcher == RT_BARE)
        return rt_printf("%s", command);
    if (w->launcher == RT_SLURM)
        return rt_printf("srun -n %d %s", ranks, command);
    if (w->launcher == RT_TORCHRUN && w->local_size < w->size && ranks % w->local_size == 0)
        return rt_printf("torchrun --nnodes %d --nproc-per-node %d --no-python %s (and what says "
                         "where they meet) on each machine",
                         ranks / w->local_size, w->local_size, command);
    if (w->launcher == RT_TORCHRUN)
        return rt_printf("torchrun --nproc-per-node %d --no-python %s", ranks, command);
    return rt_printf("mpirun -n %d %s", ranks, command);
}

char *rt_world_misfit(const rt_world *w, int ranks, const char *command)
{
    if (w->launcher == RT_BARE)
        return NULL;
    if (w->size != ranks) {
        char *right = rt_world_command(w, ranks, command);
        char *why = rt_printf("this program has %d rank%s, and %s started %d process%s of it; "
                              "start it by: %s",
                              ranks, ranks == 1 ? "" : "s", rt_launcher_name(w->launcher), w->size,
                              w->size == 1 ? "" : "es", right);
        free(right);
        return why;
    }
    if (w->fake_hosts && ranks % w->fake_hosts)
        return rt_printf("MGC_FAKE_HOSTS is %d, which does not divide %d ranks", w->fake_hosts,
                         ranks);
    return NULL;
}
