/* plan_file.h - a plan as --plan=json writes it and mgc diff reads it. */
#ifndef MGC_PLAN_FILE_H
#define MGC_PLAN_FILE_H

#include <jansson.h>

#include "compiler/session.h"

/* The number of the format, `plan` in it: a file of another number is not read. */
enum { PLAN_FORMAT = 1 };

/* All fields of docs/plan.md, of a plan with a step. The caller's. */
json_t *plan_file_json(Session *s, const Compiled *c);
/* Line by line, but the timeline on one. */
void plan_file_write(const json_t *plan, FILE *out);

/* Reads a file, which is a plan of this format (EXIT_done, *plan is the caller's), or tells why it
 * is not: MG0560, MG0660. */
Exit plan_file_read(Session *s, const char *path, json_t **plan);

/* plan_check.c: what a text that claims to be a plan lacks, or has that is none; NULL: nothing. In
 * the arena. */
const char *plan_file_wrong(const json_t *plan, Arena *a);

#endif
