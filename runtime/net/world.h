/* world.h - how this process was started: by itself, or by a launcher as one of several
 * processes. The launcher says so in environment variables. At this point no other rank was met. */
#ifndef MG_WORLD_H
#define MG_WORLD_H

typedef enum rt_launcher {
    RT_BARE,     /* no launcher: the program starts its ranks itself */
    RT_OPENMPI,  /* mpirun of Open MPI */
    RT_HYDRA,    /* mpirun of MPICH and its descendants */
    RT_SLURM,    /* srun */
    RT_TORCHRUN, /* torchrun, or any process that sets its variables */
} rt_launcher;

typedef struct rt_world {
    rt_launcher launcher;
    int rank, size;             /* a bare start: rank 0 of 1 */
    int local_rank, local_size; /* ranks on this machine, as the launcher counts; 0 of 1 if the
                                 * launcher does not say */
    char *job;      /* text that the processes of this job on this machine have in common, and no
                     * other job has; owned; NULL: bare */
    int generation; /* MGC_GENERATION: so many times supervisors have let the ranks of this job meet
                     * (elastic/coordinator.c); 0: they have none */
    int fake_hosts; /* for tests: MGC_FAKE_HOSTS=N makes the ranks, in N equal blocks, behave as
                     * if each block were on its own machine; else 0 */
} rt_world;

/* Reads the environment. NULL, or why it makes no sense (the caller frees it). */
char *rt_world_read(rt_world *w);
void rt_world_free(rt_world *w);
/* NULL, or why a program of `ranks` ranks, started as `command`, cannot run in this world, with
 * the right command (the caller frees it). */
char *rt_world_misfit(const rt_world *w, int ranks, const char *command);
/* The command that starts `ranks` processes of `command` by this launcher; the caller frees it. */
char *rt_world_command(const rt_world *w, int ranks, const char *command);
/* True if this process is one of several. */
static inline _Bool rt_world_shared(const rt_world *w)
{
    return w->size > 1;
}
/* True if some of the processes are on another machine, as far as the launcher says. */
static inline _Bool rt_world_spread(const rt_world *w)
{
    return w->fake_hosts > 1 || w->local_size != w->size;
}
const char *rt_launcher_name(rt_launcher l); /* "mpirun (Open MPI)" */

#endif
