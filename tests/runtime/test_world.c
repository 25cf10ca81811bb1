/* How a process was started, out of the variables of each launcher. */
#include "unit.h"

static const char *const all[] = {"OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                                  "PMIX_NAMESPACE",
                                  "PMI_RANK",
                                  "PMI_SIZE",
                                  "MPI_LOCALRANKID",
                                  "MPI_LOCALNRANKS",
                                  "RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "LOCAL_WORLD_SIZE",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "SLURM_JOB_ID",
                                  "SLURM_STEP_ID",
                                  "SLURM_PROCID",
                                  "SLURM_NTASKS",
                                  "SLURM_STEP_NUM_TASKS",
                                  "SLURM_LOCALID",
                                  "SLURM_NODEID",
                                  "SLURM_STEP_TASKS_PER_NODE",
                                  "SLURM_PTY_PORT",
                                  "MGC_FAKE_HOSTS"};

/* The environment: only these, name and value in turn, up to NULL. */
static void set(const char *name, ...)
{
    va_list ap;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        unsetenv(all[i]);
    va_start(ap, name);
    for (; name; name = va_arg(ap, const char *))
        setenv(name, va_arg(ap, const char *), 1);
    va_end(ap);
}

static rt_world world(void)
{
    rt_world w;
    char *why = rt_world_read(&w);
    if (why)
        fail_msg("%s", why);
    return w;
}

static void is(rt_launcher l, int rank, int size, int local_rank, int local_size)
{
    rt_world w = world();
    assert_int_equal(w.launcher, l);
    assert_int_equal(w.rank, rank);
    assert_int_equal(w.size, size);
    assert_int_equal(w.local_rank, local_rank);
    assert_int_equal(w.local_size, local_size);
    rt_world_free(&w);
}

static void refused(const char *words)
{
    rt_world w;
    char *why = rt_world_read(&w);
    assert_non_null(why);
    if (!strstr(why, words))
        fail_msg("'%s' does not say '%s'", why, words);
    free(why);
    rt_world_free(&w);
}

#define SLURM_JOB "SLURM_JOB_ID", "17", "SLURM_PROCID", "3", "SLURM_LOCALID", "1"

static void launchers(void **state)
{
    (void)state;
    set(NULL);
    is(RT_BARE, 0, 1, 0, 1);
    set("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "8", "OMPI_COMM_WORLD_LOCAL_RANK", "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE", "2", NULL);
    is(RT_OPENMPI, 3, 8, 1, 2);
    set("PMI_RANK", "1", "PMI_SIZE", "2", "MPI_LOCALRANKID", "1", "MPI_LOCALNRANKS", "2", NULL);
    is(RT_HYDRA, 1, 2, 1, 2);
    set("RANK", "5", "WORLD_SIZE", "8", "LOCAL_RANK", "5", "LOCAL_WORLD_SIZE", "8", "MASTER_ADDR",
        "h", "MASTER_PORT", "1", NULL);
    is(RT_TORCHRUN, 5, 8, 5, 8);
    /* A process that is not told of its machine is alone on it. */
    set("RANK", "5", "WORLD_SIZE", "8", "MASTER_ADDR", "h", "MASTER_PORT", "1", NULL);
    is(RT_TORCHRUN, 5, 8, 0, 1);
    /* Inside of a job of SLURM mpirun's words count. */
    set(SLURM_JOB, "SLURM_NTASKS", "1", "OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "8",
        NULL);
    is(RT_OPENMPI, 3, 8, 0, 1);
}

static void slurm(void **state)
{
    (void)state;
    set(SLURM_JOB, "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "5", "SLURM_NODEID", "1",
        "SLURM_STEP_TASKS_PER_NODE", "2(x2),1", NULL);
    is(RT_SLURM, 3, 5, 1, 2);
    set("SLURM_PROCID", "4", "SLURM_LOCALID", "0", "SLURM_STEP_ID", "12", "SLURM_NTASKS", "5",
        "SLURM_NODEID", "2", "SLURM_STEP_TASKS_PER_NODE", "2(x2),1", NULL);
    is(RT_SLURM, 4, 5, 0, 1);
    /* srun --mpi=pmi2 speaks PMI too. */
    set(SLURM_JOB, "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "4", "SLURM_NODEID", "0",
        "SLURM_STEP_TASKS_PER_NODE", "4", "PMI_RANK", "3", "PMI_SIZE", "4", NULL);
    is(RT_SLURM, 3, 4, 1, 4);
    /* Shells: no step, the steps of sbatch and salloc, a terminal. */
    set(SLURM_JOB, "SLURM_NTASKS", "8", NULL);
    is(RT_BARE, 0, 1, 0, 1);
    set(SLURM_JOB, "SLURM_STEP_ID", "4294967291", "SLURM_STEP_NUM_TASKS", "1", NULL);
    is(RT_BARE, 0, 1, 0, 1);
    set("SLURM_PROCID", "0", "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "1", "SLURM_PTY_PORT",
        "9", NULL);
    is(RT_BARE, 0, 1, 0, 1);
    static const char *const bad[] = {"2(x", "2(x0),1", "x", "2,,1", "2", "2(x1)3", "0", "-1,4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set(SLURM_JOB, "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "5", "SLURM_NODEID", "1",
            "SLURM_STEP_TASKS_PER_NODE", bad[i], NULL);
        refused("does not say how many tasks");
    }
}

static void contradictions(void **state)
{
    (void)state;
    static const char *const bad[] = {"-1", "+1", " 1", "1 ", "0x1", "1e3", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set("RANK", bad[i], "WORLD_SIZE", "4", NULL);
        refused("RANK is '");
    }
    set("RANK", "0", "WORLD_SIZE", "0", NULL);
    refused("WORLD_SIZE is '0': a whole number from 1 is wanted");
    set("WORLD_SIZE", "4", NULL);
    refused("RANK is not set");
    set("RANK", "0", "WORLD_SIZE", "4", "LOCAL_RANK", "0", NULL);
    refused("LOCAL_WORLD_SIZE is not set");
    set("RANK", "0", "WORLD_SIZE", "4", "MASTER_ADDR", "h", NULL);
    refused("MASTER_PORT is not");
    set("PMI_RANK", "0", "PMI_SIZE", "4", "OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "2",
        NULL);
    refused("rank 0 of 2");
    set("PMI_RANK", "0", "PMI_SIZE", "4", "OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "4",
        NULL);
    is(RT_OPENMPI, 0, 4, 0, 1);
}

static void names_of_jobs(void **state)
{
    char *first = NULL;
    (void)state;
    for (int i = 0; i < 3; i++) { /* ranks of one job, then another job */
        set("RANK", i == 1 ? "1" : "0", "WORLD_SIZE", "4", "MASTER_ADDR", "h", "MASTER_PORT",
            i == 2 ? "2" : "1", NULL);
        rt_world w = world();
        assert_non_null(w.job);
        if (i)
            assert_int_equal(strcmp(first, w.job) == 0, i == 1);
        else
            first = strdup(w.job);
        rt_world_free(&w);
    }
    free(first);
}

static void misfits(void **state)
{
    (void)state;
    static const struct {
        rt_world w;
        int ranks;
        const char *words; /* NULL: it fits */
    } cases[] = {
        {{RT_BARE, 0, 1, 0, 1, NULL, 0, 0}, 8, NULL},
        {{RT_OPENMPI, 0, 8, 0, 8, NULL, 0, 0}, 8, NULL},
        {{RT_OPENMPI, 0, 8, 0, 2, NULL, 0, 0}, 8, NULL},
        {{RT_OPENMPI, 0, 4, 0, 4, NULL, 0, 0},
         8,
         "has 8 ranks, and mpirun (Open MPI) started 4 "
         "processes of it; start it by: mpirun -n 8 ./t"},
        {{RT_HYDRA, 0, 1, 0, 1, NULL, 0, 0}, 2, "1 process of it; start it by: mpirun -n 2 ./t"},
        {{RT_SLURM, 0, 2, 0, 2, NULL, 0, 0}, 4, "srun -n 4 ./t"},
        {{RT_TORCHRUN, 0, 2, 0, 2, NULL, 0, 0}, 4, "torchrun --nproc-per-node 4 --no-python ./t"},
        {{RT_TORCHRUN, 0, 2, 0, 2, NULL, 0, 0}, 1, "has 1 rank, and torchrun started 2"},
        {{RT_TORCHRUN, 0, 4, 0, 2, NULL, 0, 0}, 4, NULL},
        {{RT_TORCHRUN, 0, 4, 0, 2, NULL, 0, 0},
         8,
         "torchrun --nnodes 4 --nproc-per-node 2 --no-python ./t"},
        {{RT_TORCHRUN, 0, 4, 0, 2, NULL, 0, 0}, 3, "torchrun --nproc-per-node 3 --no-python ./t"},
        {{RT_HYDRA, 0, 4, 0, 4, NULL, 0, 3}, 4, "does not divide 4 ranks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *why = rt_world_misfit(&cases[i].w, cases[i].ranks, "./t");
        assert_int_equal(why == NULL, cases[i].words == NULL);
        if (why && !strstr(why, cases[i].words))
            fail_msg("'%s' does not say '%s'", why, cases[i].words);
        free(why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(launchers), cmocka_unit_test(slurm),
                                       cmocka_unit_test(contradictions),
                                       cmocka_unit_test(names_of_jobs), cmocka_unit_test(misfits)};
    return cmocka_run_group_tests_name("world", tests, NULL, NULL);
}
