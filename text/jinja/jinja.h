/* jinja.h - chat templates: the part of Jinja that they are written in, rendered as transformers
 * renders them (trim_blocks, lstrip_blocks, immutable values, raise_exception, strftime_now,
 * `generation` blocks).
 *
 * A template is parsed once and may be rendered by several threads at a time. Nothing of it is
 * believed: depth, steps and memory are bounded, and whatever is not built is an error with its
 * place, never another text. */
#ifndef MGC_JINJA_H
#define MGC_JINJA_H

#include "base/arena.h"

#include <jansson.h>
#include <stdbool.h>
#include <time.h>

typedef struct JinTemplate JinTemplate;

/* Bytes `at` to `end` of the template, and what is wrong there. */
typedef struct JinError {
    uint32_t at, end;
    bool raised; /* by the template itself: raise_exception */
    char text[320];
} JinError;

/* The text as the lexer sees it: line ends are \n, one at the end is dropped. Places count in it.
 */
char *jin_source(Arena *a, const char *text, size_t n, size_t *size);
/* Parses such a source, which has to live as long as the template. NULL: see e. */
JinTemplate *jin_parse(Arena *a, const char *source, size_t n, JinError *e);
bool jin_has_generation(const JinTemplate *t);

/* ---- values -------------------------------------------------------------------------------- */

typedef struct JinValue JinValue;
typedef struct JinVariable {
    const char *name;
    JinValue *value;
} JinVariable;

/* A copy of a JSON value in the arena; NULL stands for none. */
JinValue *jin_from_json(Arena *a, const json_t *v);
JinValue *jin_bool(Arena *a, bool b);
JinValue *jin_text(Arena *a, const char *text, size_t n);
/* The first n items of a list, which it shares. */
JinValue *jin_first_items(Arena *a, const JinValue *list, size_t n);
/* The list with another item instead of number i. */
JinValue *jin_with_item(Arena *a, const JinValue *list, size_t i, JinValue *item);

/* ---- rendering ----------------------------------------------------------------------------- */

typedef struct JinPart { /* of a text, in bytes */
    size_t begin, end;
} JinPart;
typedef struct JinText {
    char *text; /* malloc'ed */
    size_t n;
    JinPart *generation; /* what `generation` blocks wrote; in the arena */
    size_t generations;
} JinText;

/* Renders into the arena's memory. False: see e, and nothing is to be freed. */
bool jin_render(const JinTemplate *t, Arena *a, const JinVariable *v, size_t n, time_t now,
                JinText *out, JinError *e);

#endif
