/* tok_seams.h - places at which byte-pair encoding merges nothing, whatever stands around them. */
#ifndef MGC_TEXT_TOK_SEAMS_H
#define MGC_TEXT_TOK_SEAMS_H

#include "text/tok.h"

/* From the first request on; NULL: the tokenizer has none that are certain. By any thread. */
const TokSeams *tok_seams(const Tokenizer *t);
/* The first seam from p[i] on, of n bytes, behind the first character; n if there is none. */
size_t tok_next_seam(const Tokenizer *t, const TokSeams *s, const char *p, size_t n, size_t i);

#endif
