/* text.h - the text of a document, and places in it as the protocol counts them: lines from 0, and
 * in a line UTF-16 code units. The text is UTF-8, as JSON has made sure. */
#ifndef MGC_LSP_TEXT_H
#define MGC_LSP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UNITS_STEP = 1024 };
enum { TEXT_MAX = 64 << 20 }; /* bytes: no front end takes more */

typedef struct Text {
    char *data; /* with a NUL behind its last byte */
    size_t size;
    uint32_t *lines; /* where each begins; the first at 0 */
    size_t nlines;
    uint32_t *units; /* of UTF-16 before each UNITS_STEP bytes, so that long lines cost nothing */
} Text;

typedef struct Place {
    int64_t line, character;
} Place;

/* Takes a copy; false, and as it was: it is too long. */
bool text_set(Text *t, const char *data, size_t size);
/* Puts `with` in the place of the bytes [begin, end); false as above. */
bool text_edit(Text *t, size_t begin, size_t end, const char *with, size_t size);
void text_free(Text *t);

/* The byte of a place, never inside of a character; and the place of a byte. Places behind the end
 * of a line or of the text are that end. */
size_t text_byte(const Text *t, Place p);
/* The bytes between two places; of two in the wrong order each is taken for the other. */
void text_range(const Text *t, Place from, Place to, size_t *begin, size_t *end);
Place text_locate(const Text *t, size_t byte);

#endif
