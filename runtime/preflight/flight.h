/* flight.h - the parts of a preflight; private to this folder. See preflight.h. */
#ifndef MG_PREFLIGHT_FLIGHT_H
#define MG_PREFLIGHT_FLIGHT_H

#include "runtime/machine.h"
#include "runtime/preflight/preflight.h"

/* ---- facts ---------------------------------------------------------------------------------- */

enum { RT_SHORT = 64, RT_LONG = 256 };

/* A rank's knowledge of itself and its host. Sent as it is: every member has a fixed size. */
typedef struct rt_about {
    char host[RT_SHORT]; /* its name */
    uint64_t machine;    /* rt_host_id */
    uint64_t program;    /* rt_program_key */
    char file[65];       /* SHA-256 of the executable */
    char compiler[RT_SHORT], system[RT_LONG], libc[RT_SHORT], processor[RT_LONG];
    char products[RT_SHORT]; /* the library of products */
    char gpu[RT_LONG];       /* "" for a program of the processor */
    char versions[RT_SHORT]; /* of the libraries of its collectives, or "" */
    char settings[RT_LONG];  /* variables of NCCL and of MPI, or "" */
    char lacks[RT_LONG];     /* features of the processor */
    bool gpu_there, opened;  /* opened: its device */
    bool knows_itself;       /* its host's name has an address */
    bool by_cores;           /* the processor is the device */
    int32_t cores, threads, here;
    int64_t planned, available; /* bytes of memory: of all ranks of the host, of a GPU its own */
    char limit[RT_SHORT];
    int64_t shm, shm_needed;     /* bytes of /dev/shm */
    int64_t files, files_needed; /* that it may open (the hard limit) */
    int64_t locked;              /* bytes that it may lock (the hard limit) */
    bool infiniband;
    int64_t longest; /* bytes of a file that it may write */
    int32_t level_code;
    char level[RT_LONG]; /* room for what is offloaded, or "" */
} rt_about;

void rt_about_fill(mg_run *r, rt_about *a);

/* ---- what was found -------------------------------------------------------------------------- */

typedef enum rt_mark { RT_GOOD, RT_DOUBT, RT_FAULT, RT_LEFT_OUT } rt_mark;
typedef struct rt_finding {
    rt_mark mark;
    const char *check; /* "clock" */
    char *text;
    char *again; /* the command that shows it again, or NULL */
} rt_finding;

/* Of two hosts: seconds of a message, and bytes/s from a to b and back, of all ranks together. */
typedef struct rt_link {
    int a, b, width; /* width: ranks of each that sent at once */
    double seconds, rate[2];
} rt_link;
/* Of two ranks: bytes/s. */
typedef struct rt_pair {
    int a, b;
    double rate;
} rt_pair;
/* A collective of the step, on the group of ranks that took longest, and on the median group. */
typedef struct rt_group {
    const mg_planned *planned;
    int slowest, groups; /* its first rank; how many groups there are */
    double seconds, median;
} rt_group;

typedef struct rt_flight {
    mg_run *run;
    int n, nhosts;
    int host[MG_RANKS_MAX];  /* of each rank */
    int first[MG_RANKS_MAX]; /* of each host: its first rank, */
    int ranks[MG_RANKS_MAX]; /* and how many it has */
    int place[MG_RANKS_MAX]; /* of each rank: its number on its host */
    /* Rank 0's alone: */
    bool silent;           /* nothing but JSON on standard output */
    rt_about *about;       /* by rank */
    double *ahead, *bound; /* by host: seconds that its clock is ahead of rank 0's, at most so much
                            * more or less */
    rt_link *link;
    int nlinks;
    rt_pair *pair;
    int npairs;
    int64_t exchanged; /* bytes of each of these */
    double step;       /* seconds of a step of a collective on a machine, or 0 */
    rt_group *group;
    int ngroups;
    rt_finding *finding;
    int nfindings;
    int64_t checkpoint; /* bytes of one */
    rt_exit code;       /* of the first fault */
} rt_flight;

/* Adds a finding and prints it. `again` is the caller's; NULL: none. */
void rt_found(rt_flight *f, rt_mark mark, rt_exit code, const char *check, const char *again,
              const char *fmt, ...) __attribute__((format(printf, 6, 7)));
const char *rt_host_name(const rt_flight *f, int host);
/* `command`, run on a host from rank 0's; the caller frees it. */
char *rt_on_host(const rt_flight *f, int host, const char *command);

/* ---- parts: all ranks call them in this order -------------------------------------------------
 */

/* Rank 0 gets `bytes` of each rank, by rank; `all` is NULL on others. */
void rt_gather_to_leader(mg_run *r, const void *mine, void *all, int64_t bytes);
/* In so many rounds each two of n meet once; the partner of i in a round, or -1: it has none. */
int rt_rounds(int n);
int rt_partner(int n, int round, int i);
void rt_clocks(rt_flight *f);
void rt_links(rt_flight *f);
void rt_pairs(rt_flight *f);
void rt_groups(rt_flight *f);

/* ---- rank 0 judges ----------------------------------------------------------------------------
 */

void rt_check_hosts(rt_flight *f); /* true of what rt_about says */
/* A program, a device and enough memory are on each host: there may be an arena. */
bool rt_may_compute(const rt_flight *f);
void rt_judge_clocks(rt_flight *f);
void rt_judge_links(rt_flight *f);
void rt_judge_pairs(rt_flight *f);
void rt_judge_groups(rt_flight *f);
bool rt_is_fault(const rt_flight *f, const rt_group *g);

/* Links that may be slow, worst first: their indices in f->link; the caller frees them. */
int rt_suspects(const rt_flight *f, int **index);
double rt_median(const double *x, int n); /* 0 of none */
/* The links as a device's description has them; 0: not measured. */
mg_network rt_measured(const rt_flight *f);

/* ---- report.c -------------------------------------------------------------------------------- */

void rt_report_head(rt_flight *f);
void rt_report_links(const rt_flight *f);
void rt_report_groups(const rt_flight *f);
void rt_report_end(const rt_flight *f);
void rt_report_json(const rt_flight *f, const char *path); /* "-": standard output */

#endif
