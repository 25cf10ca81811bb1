/* world.h - how this process was started: by itself, or as one of several by a launcher, which says
 * so by variables of the environment. Nothing else is known at this point: no rank was met. */
#ifndef MG_WORLD_H
#define MG_WORLD_H

typedef enum rt_launcher {
    RT_BARE,     /* no launcher: the program starts its ranks itself */
    RT_OPENMPI,  /* mpirun of Open MPI */
    RT_HYDRA,    /* mpirun of MPICH, and of what descends from it */
    RT_SLURM,    /* srun */
    RT_TORCHRUN, /* torchrun, or whoever sets its variables */
} rt_launcher;

typedef struct rt_world {
    rt_launcher launcher;
    int rank, size;             /* bare: 0 of 1 */
    int local_rank, local_size; /* of those on this machine, as the launcher counts; a process whose
                                   launcher does not say is alone on its machine */
    char *job; /* a text that the processes of this job on this machine have in common, and those of
                  no other job; owned; NULL: bare */
    int fake_hosts; /* for tests: MGC_FAKE_HOSTS=N has the ranks, in N equal blocks, behave as if
                       each block were on a machine of its own; else 0 */
} rt_world;

/* Reads the environment. NULL, or why it makes no sense (to be freed). */
char *rt_world_read(rt_world *w);
void rt_world_free(rt_world *w);
/* NULL, or why a program of `ranks` ranks, started as `command`, cannot run in this world, with the
 * command that starts it rightly (to be freed). */
char *rt_world_misfit(const rt_world *w, int ranks, const char *command);
/* Is it one of several processes? */
static inline _Bool rt_world_shared(const rt_world *w)
{
    return w->size > 1;
}
/* Are some of them on another machine, as far as the launcher says? */
static inline _Bool rt_world_spread(const rt_world *w)
{
    return w->fake_hosts > 1 || w->local_size != w->size;
}
const char *rt_launcher_name(rt_launcher l); /* "mpirun (Open MPI)" */

#endif
