/* tables.h - tables for tests: built in, of a text, at random, with mistakes. */
#ifndef TEST_TABLES_H
#define TEST_TABLES_H

#include "pipeline/pipeline.h"

/* An arena and diagnostics for a test; messages go into `said`. */
typedef struct Bench {
    Arena *arena;
    Diag *diag;
    FILE *out;
    char *said;
    size_t size;
} Bench;

void bench_open(Bench *b);
void bench_close(Bench *b);
const char *bench_said(Bench *b);

PipeTable *built_in(Bench *b, PipeSchedule s, int ranks, int chunks, int microbatches);
/* NULL where it is refused. */
PipeTable *read_text(Bench *b, const char *text);
char *printed(Bench *b, const PipeTable *t);
bool proved(Bench *b, const PipeTable *t, PipeProof *proof);

/* Any number, and one of n. */
uint64_t any(uint64_t *seed);
int any_of(uint64_t *seed, int n);

/* A table of up to 8 ranks, 16 microbatches and 3 chunks, in an order in which it can run; about
 * half of them with sends and receives, and half of those of 2 chunks in a V. */
PipeTable *random_table(Bench *b, uint64_t *seed);
/* One that is built in, of such numbers. */
PipeTable *random_built_in(Bench *b, uint64_t *seed);
/* A copy of a table without sends and receives that has them: in the order of each pair of ranks, a
 * send anywhere behind what makes it, a receive anywhere before what needs it. Only who waits for
 * whom may be wrong with it. */
PipeTable *with_messages(Bench *b, const PipeTable *t, uint64_t *seed);
/* A copy with one mistake, or what may turn out to be none. */
PipeTable *with_mistake(Bench *b, const PipeTable *t, uint64_t *seed);

#endif
