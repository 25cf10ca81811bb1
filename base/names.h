/* names.h - interned strings: a Name is a small number, equal names are equal numbers. */
#ifndef MGC_NAMES_H
#define MGC_NAMES_H

#include "base/arena.h"

typedef uint32_t Name; /* 0 is "no name" */
typedef struct Names Names;

Names *names_new(Arena *a);
Name name_intern(Names *t, const char *s);
Name name_intern_n(Names *t, const char *s, size_t n);
Name name_find(const Names *t, const char *s); /* 0: it is not there */
const char *name_str(const Names *t, Name n);  /* "" for 0 */
uint32_t name_count(const Names *t);           /* names are 1 .. count */

/* The candidate nearest to `word` by edit distance, or NULL if none is near enough to suggest. */
const char *name_nearest(const char *word, const char *const *candidates, size_t n);

#endif
