/* parquet.h - the rows of a Parquet file as JSON objects.
 *
 * Columns are read a page at a time, side by side: memory holds a page and a dictionary of each
 * column, and a row. Nothing that the file says is believed before it is checked. */
#ifndef MGC_TOK_PARQUET_H
#define MGC_TOK_PARQUET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Parquet Parquet;

/* Of a regular file, which stays the caller's. Where it cannot be read, parquet_why says it. */
Parquet *parquet_open(int fd);
const char *parquet_why(const Parquet *p); /* "": all is well */
bool parquet_skip(Parquet *p, int64_t rows);
typedef enum ParquetGot { PARQUET_row, PARQUET_end, PARQUET_failed } ParquetGot;
/* The next row, which lives until the next call. */
ParquetGot parquet_next(Parquet *p, const char **text, size_t *n);
void parquet_close(Parquet *p);

#endif
