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
    bool single;      /* is none within a word */
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
    int32_t *id; /* and where each begins in the key, behind them */
} TokWord;
typedef struct TokWorker {
    const Tokenizer *t;
    pcre2_match_data *match;
    Arena *cache_arena;
    TokWord *cache;
    size_t cached, cached_bytes;
    int32_t *id;  /* malloc'ed */
    uint32_t *at; /* where in its text each begins, in bytes */
    size_t n, cap;
    bool lost; /* places of a text could not be followed through its normalization */
} TokWorker;
TokWorker *tok_worker_new(const Tokenizer *t);
void tok_worker_free(TokWorker *w);
/* Appends the ids of a text of less than 2^32 bytes. Bytes that are no UTF-8 become U+FFFD, and
 * then places count in the text with those. */
void tok_encode(TokWorker *w, const char *text, size_t n);
void tok_push_all(TokWorker *w, const int32_t *id, size_t n);
/* The length of the longest added token that ends a text, or begins it; 0: none does. */
size_t tok_ends_added(const Tokenizer *t, const char *text, size_t n);
size_t tok_begins_added(const Tokenizer *t, const char *text, size_t n);

/* A part of a text on its way to be tokens. Byte i of it comes from byte from[i] of the text, or
 * base + i where from is NULL. */
typedef struct TokPiece {
    const char *p;
    size_t n;
    const uint32_t *from;
    uint32_t base;
} TokPiece;
static inline uint32_t tok_origin(const TokPiece *p, size_t i)
{
    return p->from ? p->from[i] : p->base + (uint32_t)i;
}
static inline TokPiece tok_part(const TokPiece *p, size_t begin, size_t end)
{
    return (TokPiece){p->p + begin, end - begin, p->from ? p->from + begin : NULL,
                      p->base + (uint32_t)begin};
}
/* A piece that is being made, in memory of its own. */
typedef struct TokMade {
    char *p;
    uint32_t *from;
    size_t n, cap;
} TokMade;
void tok_made_add(TokMade *m, const char *p, size_t n, uint32_t origin); /* all from one place */
void tok_made_copy(TokMade *m, const TokPiece *p, size_t begin, size_t end);
void tok_made_free(TokMade *m);

/* tok_norm.c: the piece normalized; false if it stays as it is. */
bool tok_normalized(TokWorker *w, const TokNorm *norm, const TokPiece *p, TokMade *m);

/* tok_bpe.c: appends the ids of a piece, with places that count in it. */
void tok_piece(TokWorker *w, const char *p, size_t n);
void tok_push(TokWorker *w, int32_t id, uint32_t at);

/* tok_run.c */
Exit command_tok(Session *s);

#endif
