/* sides.h - the two that mgc diff compares, each as a plan in JSON. */
#ifndef MGC_SIDES_H
#define MGC_SIDES_H

#include <jansson.h>

#include "compiler/session.h"

typedef struct Side {
    const char *text; /* as it was given */
    json_t *plan;     /* of plan_file.h; owned */
} Side;

/* Reads or makes the plan of one side, "A" or "B": a file, or a model with options of its own in
 * the same word ("F.mg -D dp=2"), to which those of the command are added. */
Exit side_read(Session *s, const char *name, const char *text, Side *side);
/* Is it a model? */
bool side_is_model(Session *s, const char *text);

#endif
