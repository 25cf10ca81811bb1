/* calibrate.h - the parts of mgc calibrate: calibrate.c compiles and runs lib/mgc/calibrate.mg in
 * several ways, calibrate_host.c and calibrate_gpu.c say in which, and what follows. */
#ifndef MGC_CALIBRATE_H
#define MGC_CALIBRATE_H

#include <jansson.h>

#include "compiler/report/trace_report.h"

enum {
    CALIBRATE_DEFINES = 10,
    CALIBRATE_NO_GPU = 77 /* the exit code of a program that finds no GPU */
};

/* One way to compile the model, and the arguments of its program. */
typedef struct Way {
    const char *name, *precision, *define[CALIBRATE_DEFINES];
    const char *steps, *trace; /* "8", "3:8" */
    const char *layout;        /* text of a file of layouts, or NULL: the model's own */
    const char *model;         /* file of lib/mgc, or NULL: calibrate.mg */
} Way;

typedef struct Calibration {
    Session *s;
    const char *dir;   /* of the programs, their runs and the tokens */
    int threads;       /* of the device, after calibrate_plan */
    double operations; /* ... and by what its kernels were priced */
} Calibration;

/* The plan of a way; definitions of the command line replace the way's. NULL: `*wrong` is why. */
Plan *calibrate_plan(Calibration *c, const Way *w, Exit *wrong);
/* Compiles a way. */
Exit calibrate_make(Calibration *c, const Way *w);
/* Runs what was compiled in the folder `out`, and reads its trace. `*status` is the program's exit
 * code. */
Exit calibrate_run(Calibration *c, const Way *w, const char *out, Report *r, int *status);
/* Both, in calibrate_out. */
Exit calibrate_way(Calibration *c, const Way *w, Report *r, int *status);
/* The folder in which calibrate_way runs one. */
const char *calibrate_out(const Calibration *c, const Way *w);
/* Arguments of a program, from `--data` on, for a folder with the tokens; up to a NULL. */
enum { CALIBRATE_ARGUMENTS = 10 };
void calibrate_arguments(Arena *a, const Way *w, const char *dir,
                         const char *argv[CALIBRATE_ARGUMENTS]);
/* Tokens that every vocabulary of the ways has. */
bool calibrate_tokens(const char *path);
/* Is told of errno. */
Exit calibrate_broken(Session *s, const char *what);

/* Measure, and write the description to -o or standard output. */
Exit calibrate_host(Calibration *c);
Exit calibrate_gpu(Calibration *c);
/* --emit=source: what the second would run, as a folder for scripts/gpu-check. */
Exit calibrate_gpu_emit(Calibration *c, const char *to);

/* calibrate_disk.c: the fields of a description for the disk where the file of a program that
 * offloads would be: bytes that are free, bytes/s to memory and from it, and both ways at once
 * together, and seconds of a small read. False: no file can be made there, and o is as it was. */
bool calibrate_disk(json_t *o);

/* Three digits of a measured number. */
double calibrate_digits(double x);

#endif
