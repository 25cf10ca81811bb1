/* facts.h - what the compiler tells an editor of a text, as JSON: private to this folder.
 *
 * lsp/README.md has the fields. */
#ifndef MGC_LSP_FACTS_H
#define MGC_LSP_FACTS_H

#include <jansson.h>

#include "compiler/session.h"

/* Messages as they are heard, and what expressions of the source are. */
typedef struct Heard {
    Arena *arena;
    Diag *diag;
    json_t *messages;
    json_t *values, *tensors;
    VEC(Name) block_of; /* by Name of a path: the block that is called there, or 0 */
    Names *names;
    struct Known *known; /* types that were told, by place */
} Heard;

enum { SOURCE_FILE = 1, ERRORS_MAX = 100 };

/* Calls of diag_heard() and of Seen. */
void heard_message(void *ctx, DiagKind kind, Span at, int code, const char *text);
void heard_value(void *ctx, Span at, const char *path, Name block, const Type *type,
                 const char *number);
/* Parameters of the program as it was written. */
void heard_tensors(Heard *h, const Module *m);
/* A text as JSON has it, whatever its bytes are. */
json_t *facts_string(const char *text);

/* Proposals that worked. */
json_t *facts_fixes(const Diag *d);
/* Adds the fields of a plan to a part. */
void facts_plan(const Session *s, const Compiled *c, const Heard *h, json_t *part);

#endif
