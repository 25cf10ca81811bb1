/* tok_class.h - classes of characters (tok_tables.c), and what is asked of them. */
#ifndef MGC_TOK_CLASS_H
#define MGC_TOK_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct TokRange {
    uint32_t first, last;
} TokRange;
typedef struct TokSet {
    const TokRange *range;
    size_t n;
} TokSet;
typedef struct TokLower { /* each step-th from first to last becomes the one that is `by` further */
    uint32_t first, last, step;
    int32_t by;
} TokLower;

typedef enum TokClass {
    CLASS_space,
    CLASS_removed, /* by BertNormalizer: controls, formats, U+FFFD */
    CLASS_mark,
    CLASS_nonspacing,
    CLASS_punctuation,
    CLASS_number,
    CLASS_newer, /* the normal forms leave it alone, whatever today's tables say */
    CLASS_word
} TokClass;
extern const TokSet tok_set[];
extern const TokLower tok_lower_rows[];
extern const size_t tok_lower_count;

/* tok_class.c */
bool tok_is(TokClass class, uint32_t c);
uint32_t tok_lower(uint32_t c); /* of U+0130 an i, which a U+0307 follows */
bool tok_is_chinese(uint32_t c);
/* The character at p, which is well-formed UTF-8, and its length. */
size_t tok_char(const char *p, uint32_t *c);
size_t tok_put_char(char *p, uint32_t c);

#endif
