/* open.h - opening files: regular ones. Nothing waits for the other end of a pipe. */
#ifndef MGC_BASE_OPEN_H
#define MGC_BASE_OPEN_H

#include <stdbool.h>
#include <stdio.h>

/* To be read from its beginning; NULL, with errno set: EISDIR of a directory, and of a pipe, a
 * device or a socket what open_error() calls by name. */
FILE *open_file(const char *path);
/* A file that mgc makes and comes back to, to be read and written; not through a symbolic link. */
FILE *open_own(const char *path, bool empty);
/* The text of errno after an open that failed. */
const char *open_error(void);

#endif
