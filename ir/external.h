/* external.h - external names: what a checkpoint can hold, and which two patterns share a name.
 *
 * An external name is a pattern: each {} stands for the indices 0 to n - 1 of one stacked dim,
 * {3+2i} for 3, 5, 7, ..., written in decimal without leading zeros. */
#ifndef MGC_IR_EXTERNAL_H
#define MGC_IR_EXTERNAL_H

#include "ir/ir.h"

/* A path, a string and the digits of each index (MG0102, MG0256), or a string of an IR text. */
enum { EXTERNAL_MAX_BYTES = 8192 };

/* The name that both patterns stand for, into name (of EXTERNAL_MAX_BYTES); false if there is none.
 * Their texts between runs of digits and {} are equal: they have one external_key(). */
bool external_shared(const Names *names, const Tensor *a, const Tensor *b, char *name);

/* Of s at a {} or {3+2i}: what is behind it, and the numbers; else NULL. */
const char *external_hole(const char *s, int64_t *first, int64_t *step);

/* How many of these a name has; -1: it has a brace that is none. */
int external_holes(const char *name);

/* Name number n of those that a pattern stands for, whose {} have these many indices, the last
 * counting fastest. */
const char *external_name(Arena *a, const char *pattern, const int64_t *sizes, int64_t n);

/* The name with each run of digits and {} as one 0. */
const char *external_key(Arena *a, const char *name);

/* Of the external dim number `place`: the product of the dims merged in it. */
int64_t external_size(const Tensor *t, int place);

/* Both are parts along one external dim of tensors that have the same dims else. */
bool external_parts_fit(const Tensor *a, const Tensor *b);

/* Whether one of the parts between dots is empty. */
bool external_has_empty_part(const char *name);

/* Of a module that is no source's: whether checkpoints can hold its parameters; else told. */
bool externals_hold(const Module *m);

#endif
