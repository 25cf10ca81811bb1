/* html.h - what pages of searches have in common: one file that loads nothing and runs nothing,
 * light or dark as the reader's system is, as narrow as a phone. */
#ifndef MGC_SEARCH_HTML_H
#define MGC_SEARCH_HTML_H

#include <stdio.h>

/* Up to the heading, which is the title. */
void html_begin(const char *title, FILE *out);
void html_end(FILE *out);
/* A text, with what means something in HTML written so that it does not. */
void html_text(const char *text, FILE *out);

#endif
