/* error.h - what is wrong with a file of a tokenizer: for the caller to tell, in its own way. */
#ifndef MGC_TEXT_ERROR_H
#define MGC_TEXT_ERROR_H

#include "base/arena.h"

#include <stdbool.h>

typedef struct TextError {
    const char *text;          /* in the arena; NULL: nothing is wrong, or it was told already */
    bool none;                 /* nothing is wrong with a file: there is none */
    const char *help;          /* what would help, or NULL */
    const char *path, *source; /* with a place: the file, and its text; or NULL */
    size_t size, begin, end;   /* of the source, and the bytes of it */
} TextError;

/* False, for callers to return. */
bool text_error(TextError *e, Arena *a, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
