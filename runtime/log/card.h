/* card.h - README.md of a run and of an export. */
#ifndef MG_CARD_H
#define MG_CARD_H

#include "runtime/run.h"

/* Writes OUT/README.md at the end of a run, before its log is closed. */
void rt_card_of_run(const mg_run *r);
/* The text of an export's, and its loss curve or NULL (the caller frees both). */
char *rt_card_of_export(const mg_run *r, char **curve);

#endif
