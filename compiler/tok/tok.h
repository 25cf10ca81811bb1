/* tok.h - mgc tok: a tokenizer.json as a structure, and what its parts share. */
#ifndef MGC_TOK_H
#define MGC_TOK_H

#include "compiler/session.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Strings to numbers; the strings belong to the tokenizer's arena. */
typedef struct TokEntry {
    const char *key;
    uint32_t length;
    int32_t id;
} TokEntry;
typedef struct TokTable {
    TokEntry *slot;
    size_t slots, n; /* slots: a power of two */
} TokTable;
uint64_t tok_hash(const char *key, size_t n);
void tok_table_put(Arena *a, TokTable *t, const char *key, size_t n, int32_t id);
int32_t tok_table_get(const TokTable *t, const char *key, size_t n); /* -1: not there */

typedef struct TokMerge { /* of two neighbours */
    uint64_t pair;        /* left id << 32 | right id */
    int32_t rank, id;
} TokMerge;

typedef struct TokAdded {
    const char *text;
    size_t length;
    int32_t id;
    bool left, right; /* takes the white space before or after it */
    bool normalized;  /* is looked for in normalized text */
} TokAdded;

typedef enum TokNormKind { NORM_form, NORM_prepend, NORM_replace } TokNormKind;
typedef struct TokNorm {
    TokNormKind kind;
    int form;              /* utf8proc options */
    const char *text, *by; /* prepend: text; replace: text by by */
} TokNorm;

typedef enum TokSplitKind { SPLIT_regex, SPLIT_prefix_space, SPLIT_metaspace } TokSplitKind;
typedef struct TokSplit {
    TokSplitKind kind;
    pcre2_code *regex;
    bool matches, gaps; /* regex: which of the two become pieces */
    const char *mark;   /* metaspace: instead of a space */
    int scheme;         /* metaspace: before the text 0 never, 1 first piece, 2 always */
    bool cut;           /* metaspace: each mark begins a piece */
} TokSplit;

typedef struct Tokenizer {
    Arena *a;
    TokTable vocab; /* byte-level tokens as the bytes they stand for */
    TokMerge *merge;
    size_t merges; /* slots, a power of two */
    VEC(TokAdded) added;
    bool begins[2]
               [256]; /* does an added token, not normalized or normalized, begin with the byte? */
    VEC(TokNorm) norm;
    VEC(TokSplit) split;
    VEC(int32_t) before, after; /* a document's template */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    int32_t unk;
    int32_t byte[256]; /* of each byte: its token, or -1 */
    int32_t size;      /* ids are below it */
} Tokenizer;

/* tok_read.c: NULL after telling what is wrong, or what part of it is not built. The arena has all
 * of it but the compiled patterns, which tok_free frees. */
Tokenizer *tok_read(Session *s, const char *path);
void tok_free(Tokenizer *t);
int32_t tok_named(const Tokenizer *t,
                  const char *content); /* an added or vocabulary token, or -1 */

/* tok_text.c. What a thread needs to encode; results in ids. */
typedef struct TokWord { /* of the cache */
    char *key;
    uint32_t length, n;
    int32_t *id;
} TokWord;
typedef struct TokWorker {
    const Tokenizer *t;
    pcre2_match_data *match;
    VEC(char) text; /* scratch */
    Arena *cache_arena;
    TokWord *cache;
    size_t cached, cached_bytes;
    int32_t *id; /* malloc'ed */
    size_t n, cap;
} TokWorker;
TokWorker *tok_worker_new(const Tokenizer *t);
void tok_worker_free(TokWorker *w);
/* Appends the ids of a text. Bytes that are no UTF-8 become U+FFFD. */
void tok_encode(TokWorker *w, const char *text, size_t n);
void tok_push_all(TokWorker *w, const int32_t *id, size_t n);

/* tok_bpe.c: appends the ids of a piece. */
void tok_piece(TokWorker *w, const char *p, size_t n);
void tok_push(TokWorker *w, int32_t id);

/* tok_run.c */
Exit command_tok(Session *s);

#endif
