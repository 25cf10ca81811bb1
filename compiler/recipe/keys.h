/* keys.h - the settings of another program by a table of its keys: what each becomes here, line by
 * line.
 *
 * A key that the table does not have is an error, as is a value of another type. Rows of the table
 * say of most keys what becomes of them; the others are answered by who reads them (keys_here and
 * its kin), before keys_print. */
#ifndef MGC_KEYS_H
#define MGC_KEYS_H

#include "compiler/recipe/marks.h"

typedef enum KeyType {
    KEY_flag,
    KEY_whole,
    KEY_number,
    KEY_text,
    KEY_list, /* texts, in a list or in one text with commas */
    KEY_any,
    KEY_map /* whose keys have rows of their own, as "map.key" */
} KeyType;

typedef enum KeyKind {
    KEY_TAKEN,    /* read by code, which says what it becomes */
    KEY_ONLY,     /* the standard value is what mgc does; another one has no counterpart */
    KEY_UNNEEDED, /* nothing to say here */
    KEY_NOTHING   /* no counterpart, which changes no number that a model learns from */
} KeyKind;

typedef struct Key {
    const char *name;
    KeyType type;
    KeyKind kind;
    const char *standard; /* the value where the key is missing; NULL: null */
    const char *why;
} Key;

typedef struct Said {
    const MarkedItem *item; /* NULL: the file does not have it */
    const char *became;     /* NULL: not said yet */
    bool missing, automatic;
} Said;

typedef struct Keys {
    Session *s;
    const char *path;
    const Key *table;
    size_t n;
    bool autos;    /* "auto" is a value of any key, and as if it were not there */
    bool defaults; /* keys_print shows what is not given and became something */
    Said *said;    /* by row */
    VEC(size_t) order;
    bool failed;
} Keys;

/* False after errors. `over` (may be NULL) has values in place of those of `map`. */
bool keys_read(Keys *k, const Marked *map, const Marked *over);

/* Whether the file says it, and neither null nor "auto". */
bool keys_given(const Keys *k, const char *name);
/* Values, or the standard one. */
bool keys_automatic(const Keys *k, const char *name); /* it is "auto" */
bool keys_flag(const Keys *k, const char *name);
int64_t keys_whole(const Keys *k, const char *name);
double keys_number(const Keys *k, const char *name);
const char *keys_text(const Keys *k, const char *name); /* NULL: null */
Words keys_list(const Keys *k, const char *name);
const Marked *keys_value(const Keys *k, const char *name); /* NULL: not given */
Span keys_at(const Keys *k, const char *name);             /* of the value, if there is one */

/* A key became something. */
void keys_here(Keys *k, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void keys_idle(Keys *k, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* It changes the mathematics and is not here: an error, or with --allow-missing a warning. */
void keys_missing(Keys *k, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* It contradicts what else is said. */
void keys_wrong(Keys *k, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void keys_print(Keys *k, FILE *out);
/* Whether all that the file has became something: else code forgot a row. */
bool keys_complete(const Keys *k);

/* A number as one writes it. */
const char *keys_shown(Arena *a, double d);

#endif
