/* trace_report.h - a measured timeline, added up; see report.c and calibrate.c. */
#ifndef MGC_REPORT_H
#define MGC_REPORT_H

#include "compiler/session.h"

typedef struct ReportLine {
    const char *name, *kind, *where;   /* name NULL: an action that never ran */
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

typedef struct Report {
    Arena *a;
    VEC(ReportLine) actions, kinds; /* of all ranks together */
    VEC(ReportRank) ranks;
    int steps;                  /* of a rank */
    double measured, predicted; /* of rank 0; milliseconds of all steps */
} Report;

/* Reads a trace of ./train; what is wrong with it is told. */
Exit report_read(Session *s, const char *path, Report *r);

#endif
