/* tokens.h - a text as its tokens, and the words that the language knows: for editors.
 *
 * Words of settings are those that the front end itself reads them by (train.c, layout.c, ...). */
#ifndef MGC_TOKENS_H
#define MGC_TOKENS_H

#include "grammar/ast.h"
#include "grammar/words.h"

typedef enum TokenKind {
    TOKEN_keyword,
    TOKEN_name, /* also words that are keywords in some places alone: optimizer, at, x, ... */
    TOKEN_number,
    TOKEN_word, /* begins with a digit: 1f1b */
    TOKEN_string,
    TOKEN_sign
} TokenKind;

typedef struct MgToken {
    TokenKind kind;
    Span at;
    Name name; /* of TOKEN_name */
} MgToken;
typedef VEC(MgToken) MgTokens;

/* Tokens of a registered text in their order, as far as errors (told to d) allow. */
void mg_tokens(Arena *a, Names *names, Diag *d, uint32_t file, MgTokens *out);

/* The nth reserved word; the nth word that is one in some places alone; NULL behind the last. */
const char *mg_keyword(size_t n);
const char *mg_soft_keyword(size_t n);
/* The nth function that is no block of prelude.mg, and how it is called; NULL behind the last. */
const char *mg_function(size_t n);
const char *mg_function_usage(const char *name, Arena *a);

/* prelude.mg, which has the other functions and all optimizers. */
extern const char prelude_text[];

/* Words of settings, beside those of words.h; each list has NULL behind its last. */
extern const char *const mg_train_settings[];
extern const char *const mg_devices[];
extern const char *const mg_quantities[];
extern const char *const mg_recomputes[];
extern const char *const mg_pipelines[];
extern const char *const mg_precisions[];
extern const char *const mg_precision_options[];
extern const char *const mg_adapters[];
extern const char *const mg_adapter_options[];
extern const char *const mg_levels[];
extern const char *const mg_optimizer_places[];
extern const char *const mg_update_times[];

/* The nth schedule of the learning rate, and its nth argument; NULL behind the last. */
const char *mg_schedule(size_t n);
const char *mg_schedule_option(size_t schedule, size_t n);

#endif
