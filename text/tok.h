/* tok.h - a tokenizer.json as a structure, and what its parts share. */
#ifndef MGC_TEXT_TOK_H
#define MGC_TEXT_TOK_H

#include "text/error.h"

#include <jansson.h>
#include <stdatomic.h>

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
    const char *find; /* what is looked for: normalized, or the text */
    size_t length;    /* of that */
    int32_t id;
    bool left, right; /* takes the white space before or after it */
    bool single;      /* is none within a word */
    bool normalized;  /* is looked for in normalized text */
} TokAdded;

typedef enum TokNormKind {
    NORM_form,
    NORM_prepend,
    NORM_replace,
    NORM_lower,
    NORM_accents,    /* leaves marks out */
    NORM_nonspacing, /* leaves those out that have no width */
    NORM_strip,
    NORM_clean,   /* of Bert: white space is a space, controls go */
    NORM_chinese, /* of Bert: a space on both sides of each ideograph */
    NORM_nmt,
    NORM_charsmap,
    NORM_sentencepiece /* all that its models say */
} TokNormKind;
typedef struct TokCharsmap { /* of SentencePiece: a double array, and what its leaves point into */
    const uint32_t *unit;
    size_t units;
    const char *text;
    size_t size;
} TokCharsmap;
typedef struct TokNorm {
    TokNormKind kind;
    int form;              /* utf8proc options */
    const char *text, *by; /* prepend: text; replace: text by by */
    bool left, right;      /* strip: at which ends; sentencepiece: a mark (text) is put there */
    bool squeeze;          /* sentencepiece: of spaces one is left, of those at the ends none */
    TokCharsmap map;
} TokNorm;

typedef enum TokSplitKind {
    SPLIT_regex,
    SPLIT_class, /* each character of a class is a match */
    SPLIT_words, /* runs of words, and of what is neither word nor space, are matches */
    SPLIT_prefix_space,
    SPLIT_metaspace,
    SPLIT_bytes /* each byte becomes the character that stands for it */
} TokSplitKind;
typedef enum TokBehavior {
    BEHAVE_isolated,
    BEHAVE_removed,
    BEHAVE_previous,
    BEHAVE_next,
    BEHAVE_contiguous
} TokBehavior;
typedef struct TokSplit {
    TokSplitKind kind;
    pcre2_code *regex;
    TokBehavior behavior;
    bool invert; /* what lies between the matches is what matches */
    int class;   /* class: of tok_class.h, or -1 for the character `only` */
    uint32_t only;
    const char *mark; /* metaspace: instead of a space */
    int scheme;       /* metaspace: before the text 0 never, 1 first piece, 2 always */
    bool cut;         /* metaspace: each mark begins a piece */
} TokSplit;

typedef enum TokDecodeKind {
    DECODE_bytes,    /* characters that stand for bytes: all tokens become one text */
    DECODE_fallback, /* <0x41> */
    DECODE_fuse,     /* all tokens become one */
    DECODE_strip,
    DECODE_replace,
    DECODE_metaspace,
    DECODE_wordpiece,
    DECODE_suffix /* of a word's last token: a space */
} TokDecodeKind;
typedef struct TokDecode {
    TokDecodeKind kind;
    const char *text, *by; /* what is stripped, replaced, a mark, a prefix, a suffix; replace: by */
    size_t left, right;    /* strip: at most so many at the ends */
    bool first;            /* metaspace: marks of the first token go */
    bool clean;            /* wordpiece: no space before a full stop, and so on */
} TokDecode;
typedef struct TokName { /* the token of an id, as tokenizer.json writes it */
    int32_t id;
    bool special;
    const char *text;
    size_t order; /* of equal ids the last one holds */
} TokName;

typedef enum TokModel { MODEL_bpe, MODEL_unigram, MODEL_wordpiece, MODEL_wordlevel } TokModel;

/* Strings by their beginnings: the children of a node lie beside each other, in order. */
typedef struct TokNode {
    uint32_t child; /* the first */
    uint16_t children;
    uint8_t label;
    int32_t id; /* of the string that ends here, or -1 */
} TokNode;

typedef struct TokSeams TokSeams; /* tok_seams.h */
typedef struct TokSeamsOnce {
    atomic_bool made;
    const TokSeams *seams;
} TokSeamsOnce;

typedef struct Tokenizer {
    Arena *a;
    TokModel model;
    TokTable vocab;              /* byte-level tokens as the bytes they stand for */
    TokNode *node;               /* unigram: [0] is the root */
    double *score;               /* unigram: of each id */
    double least;                /* of the scores */
    const char *prefix, *suffix; /* of pieces inside a word, and of a word's last; "" if none */
    size_t longest, most;        /* wordpiece: bytes of a token, characters of a word */
    TokMerge *merge;
    size_t merges; /* slots, a power of two */
    TokSeamsOnce *seams;
    VEC(TokAdded) added;
    VEC(TokAdded) kept, known; /* of SentencePiece: pieces that no map changes; those in no text */
    bool keeps[256];           /* such a piece begins with the byte */
    bool begins[2][256]; /* an added token, not normalized or normalized, begins with the byte */
    VEC(TokNorm) norm;
    VEC(TokSplit) split;
    VEC(int32_t) before, after; /* a document's template */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool sentencepiece; /* scores are summed in float32, and unknown neighbours are unknown */
    VEC(TokName) name;  /* by id */
    VEC(TokDecode) decode;
    bool spaced;           /* without a decoder there is a space between tokens */
    const char *undecoded; /* what of its decoder is not built; NULL: all is */
    int32_t unk;
    int32_t byte[256];     /* of each byte: its token, or -1 */
    uint32_t char_of[256]; /* of each byte: the character that stands for it */
    int32_t size;          /* ids are below it */
} Tokenizer;

/* tok_read.c: from the bytes of a file, a model of SentencePiece if its name ends with .model, else
 * a tokenizer.json. NULL: e says what is wrong, or what part of it is not built. The arena has all
 * of it but the compiled patterns, which tok_free frees. */
Tokenizer *tok_parse(Arena *a, const char *path, const char *json, size_t n, TextError *e);
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
    struct TokWorker **team; /* of others, for long pieces, or NULL */
    size_t teams;
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

/* tok_decode.c: from ids back to text, as they come. The pieces, one behind the other, are the text
 * of all: whole characters, each given out once nothing that may follow changes it. */
typedef struct TokStream TokStream;
TokStream *tok_stream_new(const Tokenizer *t);
void tok_stream_free(TokStream *s);
/* The text that is certain now, of *n bytes: until the next call. Special tokens have none. */
const char *tok_stream_put(TokStream *s, int32_t id, size_t *n);
/* The text that was held back; the stream then begins anew. */
const char *tok_stream_end(TokStream *s, size_t *n);

/* tok_unigram.c */
void tok_unigram_trie(Tokenizer *t);
void tok_unigram(TokWorker *w, const char *p, size_t n);

/* tok_words.c */
void tok_wordpiece(TokWorker *w, const char *p, size_t n);
void tok_wordlevel(TokWorker *w, const char *p, size_t n);

/* tok_split.c: the matches of a split, and its behavior, one piece after another. */
typedef void TokTake(TokWorker *w, size_t at, TokPiece p);
void tok_split(TokWorker *w, size_t at, const TokPiece *p, TokTake *take);

/* tok_charsmap.c: false if the bytes are no map. */
bool tok_charsmap_read(TokCharsmap *m, const char *bytes, size_t n);
void tok_charsmap_apply(const TokCharsmap *m, const TokPiece *p, TokMade *made);
/* The length of the longest key that the n bytes begin with, and its value; 0: there is none. */
size_t tok_charsmap_longest(const TokCharsmap *m, const char *p, size_t n, const char **value,
                            size_t *size);

/* tok_sentencepiece.c */
void tok_sentencepiece(const Tokenizer *t, const TokNorm *norm, const TokPiece *p, TokMade *m);

/* tok_read_parts.c, tok_read_model.c: parts of a tokenizer.json. False after telling why. */
typedef struct TokReader {
    TextError *e;
    Tokenizer *t;
    const char *path;
} TokReader;
bool tok_bad(TokReader *r, const char *what, const char *why);
const char *tok_json_text(const json_t *from, const char *key);
bool tok_json_flag(const json_t *from, const char *key, bool otherwise);
bool tok_json_given(const json_t *from, const char *key);
bool tok_read_norm(TokReader *r, const json_t *n, int depth);
bool tok_read_pre(TokReader *r, const json_t *n, int depth);
bool tok_read_model(TokReader *r, const json_t *model);
bool tok_read_sentencepiece(TokReader *r, const char *bytes, size_t n);
/* The table of n merges: of those with equal pairs the last one holds. */
void tok_put_merges(Tokenizer *t, const TokMerge *merge, size_t n);
void tok_read_decode(TokReader *r, const json_t *n, int depth); /* see Tokenizer.undecoded */
void tok_add_name(Tokenizer *t, int32_t id, const char *text, bool special);
/* Once all are added. */
void tok_sort_names(Tokenizer *t);
const TokName *tok_name_of(const Tokenizer *t, int32_t id); /* NULL: there is none */
/* The length of the character at p, or 0 and in *bad how many bytes cannot begin or go on one. */
size_t tok_whole_char(const unsigned char *p, size_t n, size_t *bad);
int32_t tok_char_of_byte(int byte);

#endif
