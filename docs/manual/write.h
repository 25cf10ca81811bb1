/* write.h - the forms of the manual: man pages, completions of shells, and tables as JSON. */
#ifndef MGC_MANUAL_WRITE_H
#define MGC_MANUAL_WRITE_H

#include <stdbool.h>
#include <stdio.h>

#include "docs/manual/tables.h"

/* Each writes into the folder `to`, which exists; false: errno says why not. `devices` are the
 * names of descriptions that mgc ships, with blanks between them. */
bool write_man(const char *to);
bool write_completions(const char *to, const char *devices);
bool write_tables(FILE *out);

/* Opens to/name for writing. */
FILE *open_page(const char *to, const char *name);
/* Closes what open_page opened; false if anything was not written. */
bool close_page(FILE *f);

#endif
