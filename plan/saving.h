/* saving.h - what a checkpoint costs that is written beside the steps. */
#ifndef MGC_PLAN_SAVING_H
#define MGC_PLAN_SAVING_H

#include "plan/plan.h"

typedef struct Saving {
    int64_t bytes;      /* of a checkpoint's tensors */
    int64_t copied;     /* memory of the copy that it is written from, of one machine */
    double copy, write; /* bytes/s: of a machine's copy, which steps wait for; of the disk */
    bool guessed;       /* the description says nothing of the disk (or of the way to the host) */
    const char *waits;  /* NULL; or why there is no copy, and steps wait until all is written */
} Saving;
Saving plan_saving(const Plan *p);
/* "640 MiB, from a copy of 640 MiB in the memory of the machine: steps wait 40 ms for that, ..." */
const char *plan_saving_text(const Plan *p);
struct json_t *plan_saving_json(const Plan *p);

#endif
