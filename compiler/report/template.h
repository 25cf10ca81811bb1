/* template.h - a page of lib/mgc with data in it, as one JSON object that its script reads. */
#ifndef MGC_TEMPLATE_H
#define MGC_TEMPLATE_H

#include <jansson.h>

#include "compiler/session.h"

/* The text of a page, "report.html"; NULL after an error. */
const char *template_read(Session *s, const char *name);
/* Writes it with the data in the place of @DATA@, reals with so many digits. nonce: in the place of
 * @NONCE@, or "". */
void template_write(const char *html, const json_t *data, int digits, const char *nonce, FILE *out);

#endif
