/* measured.h - measured times of actions by class (classes.def), beside what was predicted, and the
 * numbers of a device's description that follow. It needs nothing but libc: mgc report and mgc
 * calibrate have it, and scripts/gpu-check compiles it where mgc is not. */
#ifndef MGC_MEASURED_H
#define MGC_MEASURED_H

#include <stdbool.h>
#include <stdio.h>

typedef enum ClassId {
#define CLASS(id, ...) MEASURE_##id,
#include "base/classes.def"
    MEASURE_count
} ClassId;

typedef struct ClassInfo {
    const char *name, *key; /* "product bf16", "product_share"; key "": no number follows */
} ClassInfo;
extern const ClassInfo class_info[MEASURE_count];

enum { MEASURED_LINES = 256, MEASURED_ACTIONS = 4096, MEASURED_NUMBERS = 20, CLASS_TEXT = 80 };

/* Actions of one class and detail; per step, summed over runs. */
typedef struct MeasuredLine {
    char text[CLASS_TEXT]; /* "product bf16: large" */
    ClassId id;
    double calls, measured, predicted; /* microseconds, less the overhead of tracing */
    double flops, bytes;
    double fastest; /* FLOP/s of the fastest action */
} MeasuredLine;

typedef struct MeasuredAction {
    int line; /* index; until the run ends */
    double calls, measured, predicted, flops, bytes;
} MeasuredAction;

typedef struct Measured {
    MeasuredLine line[MEASURED_LINES];
    int n;
    MeasuredAction action[MEASURED_ACTIONS]; /* of the run that is being added */
    int nactions, steps;
    double overhead;             /* microseconds that were taken off each action of the last run */
    double launch;               /* seconds; 0: not measured */
    double both, both_predicted; /* seconds of a step of transfers; 0: not measured */
} Measured;

/* A run: begin, its actions in any order, end. measured_add takes sums over all traced steps, in
 * microseconds; it returns false if the class is not in the table, or something is full. */
void measured_begin(Measured *m, int steps);
bool measured_add(Measured *m, const char *text, double calls, double measured, double predicted,
                  double flops, double bytes);
/* The host waits before and after a traced action, so each takes some microseconds more than it
 * would: the time of the shortest action of the run, which does next to nothing, is taken off. */
void measured_end(Measured *m);
/* A run of very short actions: a step's seconds, untraced, and the actions in it. */
void measured_launches(Measured *m, double seconds, double actions);
/* A run that does little but fetch and offload at once: a step's seconds, untraced, and predicted.
 */
void measured_transfers(Measured *m, double seconds, double predicted);

/* A key of the description, and its number; 0: not measured, because no action of `class_` was
 * there, or none took longer than a few launches. */
typedef struct MeasuredNumber {
    const char *key, *class_;
    double value;
} MeasuredNumber;

/* A number of the description that the predictions were made with; 0: it has none. */
typedef double MeasuredBase(void *ctx, const char *key);
/* The numbers, for a GPU with so many multiprocessors; returns how many. */
int measured_numbers(const Measured *m, MeasuredBase *base, void *ctx, double threads,
                     MeasuredNumber out[MEASURED_NUMBERS]);
/* Predicted beside measured, a line a class; base may be NULL. */
void measured_table(const Measured *m, MeasuredBase *base, void *ctx, FILE *out);

#endif
