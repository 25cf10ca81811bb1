/* description.h - a device's description as JSON; see device.c. */
#ifndef MGC_DESCRIPTION_H
#define MGC_DESCRIPTION_H

#include <jansson.h>

#include "compiler/session.h"

/* Reads a description by name, or the file itself if it ends in ".json", without a look at what is
 * in it. The caller owns *root. */
Exit description_read(Session *s, const char *name, json_t **root);
/* NULL, or what is wrong with it. */
const char *description_wrong(Arena *a, json_t *root);

#endif
