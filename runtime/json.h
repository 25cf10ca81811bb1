/* json.h - a strict pull parser of JSON (RFC 8259) over memory that is not trusted.
 *
 * The parser builds no tree: the caller asks for what must come next, so the caller's control flow
 * is the schema, and memory is bounded by what the caller keeps. Errors are: bytes that are not
 * UTF-8, control characters in strings, lone surrogates, NUL in strings, numbers in other forms,
 * nesting over JSON_DEPTH, text after the value. After the first error every call fails, and
 * `error` says what was wrong at `at`. */
#ifndef MG_JSON_H
#define MG_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH = 16 };

typedef struct rt_json {
    const unsigned char *begin, *at, *end;
    const char *error;
    int depth;
    bool first; /* no element of the innermost container has been read */
    char *text; /* the last string, decoded, NUL-terminated; owned */
    size_t length, cap;
} rt_json;

void rt_json_begin(rt_json *j, const void *text, size_t n);
void rt_json_free(rt_json *j);

/* Steps into a container: kind is '{' or '['. */
bool rt_json_enter(rt_json *j, char kind);
/* Reads the next key of an object into j->text; false at the end of the object, which is
 * consumed. */
bool rt_json_key(rt_json *j);
/* True if another item of an array follows; false at the end of the array, which is consumed. */
bool rt_json_item(rt_json *j);

bool rt_json_string(rt_json *j); /* in j->text */
/* Reads a whole number that fits int64, without fraction or exponent. */
bool rt_json_int(rt_json *j, int64_t *v);
bool rt_json_number(rt_json *j, double *v);
bool rt_json_skip(rt_json *j); /* any value */
bool rt_json_null(rt_json *j); /* true if null comes next (consumed); never an error */
bool rt_json_end(rt_json *j);  /* nothing but white space is left */
bool rt_json_fail(rt_json *j, const char *why); /* returns false */

#endif
