/* report.h - a measured timeline, added up; see report.c and calibrate.c. */
#ifndef MGC_REPORT_H
#define MGC_REPORT_H

#include "compiler/session.h"

typedef struct ReportLine {
    const char *name, *kind, *where;   /* name NULL: an action that never ran */
    double calls, measured, predicted; /* microseconds of all steps */
    double flops, bytes;
} ReportLine;

typedef struct Report {
    Arena *a;
    VEC(ReportLine) actions, kinds;
    int steps;
    double measured, predicted; /* milliseconds of all steps */
} Report;

/* Reads a trace of ./train; what is wrong with it is told. */
Exit report_read(Session *s, const char *path, Report *r);

#endif
