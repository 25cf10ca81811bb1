/* check_attention.h - a case of attention, drawn: what it is over, and which keys each query sees.
 */
#ifndef MG_TESTS_CUDA_CHECK_ATTENTION_H
#define MG_TESTS_CUDA_CHECK_ATTENTION_H

#include "tests/cuda/check.h"

enum { PARTS = 4 };

typedef enum Kind { ALL, CAUSAL, RING, ANY, KINDS } Kind;

typedef struct Case {
    mg_attention_desc d; /* of all keys */
    Kind kind;
    int parts;
    int64_t begin[PARTS + 1]; /* where a part's keys are */
    int32_t *seen[PARTS];     /* per query; NULL: all of the part */
    int32_t *first[PARTS];    /* per batch and query; NULL: from the part's first key on */
    int32_t *documents;       /* the same of all keys; NULL: none */
    int64_t seen_at[PARTS], first_at[PARTS], documents_at; /* on the device */
    Array q, k, v, o, lse, g, dq, dk, dv, work;
    Array bias, dbias; /* with d.biased */
    double term;       /* of gradients: the largest sum of sizes that one is what is left of */
} Case;

/* One of [batch, kv, group, query], queries innermost. */
typedef struct Row {
    int64_t b, h, g, s;
} Row;

static inline Row row_of(const mg_attention_desc *d, int64_t i)
{
    return (Row){i / d->queries / d->group / d->kv, i / d->queries / d->group % d->kv,
                 i / d->queries % d->group, i % d->queries};
}

static inline int64_t rows_of(const mg_attention_desc *d)
{
    return d->batch * d->kv * d->group * d->queries;
}

static inline int64_t at_row(const int64_t s[4], const Row *r)
{
    return r->b * s[0] + r->s * s[1] + r->h * s[2] + r->g * s[3];
}

static inline int64_t at_key(const int64_t s[3], const Row *r, int64_t key)
{
    return r->b * s[0] + key * s[1] + r->h * s[2];
}

/* Of the bias, or of its gradient. */
static inline int64_t at_bias(const int64_t s[5], const Row *r, int64_t key)
{
    return at_row(s, r) + key * s[4];
}

/* Does query s of batch b see key t, which is of that part? */
bool case_sees(const Case *c, int part, int64_t batch, int64_t s, int64_t t);

Case draw_case(Bench *b, Kind kind);
void drop_case(Bench *b, Case *c);

#endif
