/* tok_source.h - the records of a file: a text, lines of JSON, or an array of it, perhaps packed,
 * or the rows of Parquet as objects of JSON. */
#ifndef MGC_TOK_SOURCE_H
#define MGC_TOK_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum SourceForm {
    SOURCE_text,  /* one record: the file */
    SOURCE_lines, /* .jsonl, .ndjson: a record a line */
    SOURCE_array, /* .json: a record an item */
    SOURCE_rows   /* .parquet: a record a row */
} SourceForm;

typedef struct Source Source;

SourceForm tok_source_form(const char *path);
/* NULL, and why: it cannot be opened. .gz and .zst are unpacked as they are read. */
Source *tok_source_open(const char *path, const char **why);
/* Goes to a place that source_at said, of unpacked bytes. False: see source_why. */
bool tok_source_go(Source *s, int64_t at, int64_t number);
typedef enum SourceGot { SOURCE_record, SOURCE_end, SOURCE_failed } SourceGot;
/* The next record, which lives until the next call. Empty lines are none. */
SourceGot tok_source_next(Source *s, const char **text, size_t *n);
int64_t tok_source_at(const Source *s); /* behind the record */
int64_t tok_source_number(
    const Source *s); /* of the record, from 1: its line, or its place in the array or table */
const char *tok_source_why(const Source *s);
void tok_source_close(Source *s);

#endif
