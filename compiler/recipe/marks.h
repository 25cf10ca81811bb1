/* marks.h - a YAML or JSON file as a tree, in which everything knows where it stands.
 *
 * libyaml reads both: JSON is a part of YAML. Aliases, tags, several documents and keys that are
 * given twice are refused, for a setting has one place and one value. */
#ifndef MGC_MARKS_H
#define MGC_MARKS_H

#include "compiler/session.h"

typedef enum MarkedKind { MARKED_scalar, MARKED_list, MARKED_map } MarkedKind;

typedef struct Marked Marked;

typedef struct MarkedItem {
    const char *key; /* NULL: an item of a list */
    Span at;         /* of the key */
    const Marked *value;
} MarkedItem;

struct Marked {
    MarkedKind kind;
    Span at;
    bool quoted;      /* of a scalar: it is text, whatever it looks like */
    const char *text; /* of a scalar */
    VEC(MarkedItem) items;
};

/* The map that a text holds; NULL after an error was told (MG0615). */
const Marked *marks_parse(Session *s, uint32_t file);
/* The same of a file. */
const Marked *marks_read(Session *s, const char *path);

const MarkedItem *marks_find(const Marked *map, const char *key);
/* A value as one writes it on a line, not too long. */
const char *marks_shown(Arena *a, const Marked *v);
const char *marks_line(Arena *a, const char *text); /* without ends of lines */
bool marks_null(const Marked *v);

#endif
