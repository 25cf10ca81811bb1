/* trial.h - tries remedies: compiles once more with each, in a process of its own, and compares
 * what is found.
 *
 * A remedy works if its error is gone and no other has come: all that is found with it was found
 * without it as well. It need not be the last error: others of the source may remain. Nobody tries
 * the remedies of a trial. What all of a run's trials may take is bounded, in number and in time;
 * what was not tried is not told. */
#ifndef MGC_TRIAL_H
#define MGC_TRIAL_H

#include "base/diag.h"

/* Compiles the same input again, messages to d, and with the edits that are options (those of texts
 * are made by d). It runs in a child process whose standard output and error are nowhere; it says
 * by diag_stage() how far it came, and returns when it can go no further. */
typedef void (*TrialRun)(void *ctx, Diag *d, const Remedy *edits);

/* From now on remedies that d is told are tried. Nothing is done before there is one. */
void trial_begin(Arena *a, Diag *d, TrialRun run, void *ctx);

#endif
