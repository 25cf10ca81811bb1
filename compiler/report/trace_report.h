/* trace_report.h - a measured timeline, added up; see report.c and calibrate.c. */
#ifndef MGC_REPORT_H
#define MGC_REPORT_H

#include "base/measured.h"
#include "compiler/session.h"

typedef struct ReportLine {
    const char *name, *kind, *where;   /* name NULL: an action that never ran */
    const char *class_;                /* base/classes.def; NULL: it has none */
    double calls, measured, predicted; /* microseconds of all steps */
    double flops, bytes;
} ReportLine;

/* Of one rank; milliseconds of all steps. */
typedef struct ReportRank {
    int rank;
    int place;                       /* along the axis of stages, or -1 */
    double measured;                 /* its steps */
    double phases, predicted_phases; /* of a pipeline */
    double messages;                 /* waited for or sent, between phases */
    double clock_error;              /* at most */
    double left_out;                 /* events */
} ReportRank;

/* The GPU that rank 0 ran on; name NULL: a processor. */
typedef struct ReportGpu {
    const char *name;
    double capability, multiprocessors, memory, free, gpus, driver; /* rt_device_facts */
} ReportGpu;

/* Bytes of a level of memory, of what the program says: on processors of all ranks of rank 0's
 * machine, on a GPU of rank 0. */
typedef struct ReportLevel {
    const char *name;
    double planned, measured; /* measured -1: unknown */
} ReportLevel;

typedef struct Report {
    Arena *a;
    ReportGpu gpu;
    VEC(ReportLevel) levels;
    VEC(ReportLine) actions, kinds; /* of all ranks together */
    VEC(ReportRank) ranks;
    int steps;                  /* of a rank */
    double measured, predicted; /* of rank 0; milliseconds of all steps */
} Report;

/* Reads a trace of ./train; what is wrong with it is told. */
Exit report_read(Session *s, const char *path, Report *r);
/* Its line of a kind of action; a new one where it has none. */
ReportLine *report_kind(Report *r, const char *kind);
/* Adds its actions to the sums by class, in `m`; false: a class is not in the table. */
bool report_classes(const Report *r, Measured *m);

#endif
