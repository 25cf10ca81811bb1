/* show.h - the rows of two plans for people. */
#ifndef MGC_DIFF_SHOW_H
#define MGC_DIFF_SHOW_H

#include "compiler/diff/rows.h"

/* text.c: side by side, rows that are the same by their names alone. */
void diff_print(const Diff *d, FILE *out);
/* A text as it is shown: no byte of it is a terminal's, or no UTF-8. */
const char *diff_shown(Arena *a, const char *text);
/* page.c: one page that loads nothing, with the timelines of both at one scale. */
Exit diff_page(Session *s, const Diff *d, const char *path);

#endif
