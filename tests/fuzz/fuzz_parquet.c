/* fuzz_parquet.c - libFuzzer target: any bytes as a Parquet file, whose rows are read. A row is an
 * object of JSON, and what ends early says why. */
#include "compiler/tok/parquet.h"
#include "tests/fuzz/caught.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[200];
    snprintf(path, sizeof path, "%s/rows.parquet", fuzz_folder());
    fuzz_file("rows.parquet", data, size);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    Parquet *p = parquet_open(fd);
    ParquetGot got = PARQUET_end;
    const char *text;
    size_t n;
    /* Few bytes can stand for very many rows: a thousand of them are enough. */
    for (int i = 0; !parquet_why(p)[0] && i < 1000; i++) {
        got = parquet_next(p, &text, &n);
        if (got != PARQUET_row)
            break;
        json_t *row = json_loadb(text, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        if (!json_is_object(row))
            abort();
        json_decref(row);
    }
    if (got == PARQUET_failed && !parquet_why(p)[0])
        abort();
    parquet_close(p);
    close(fd);
    return 0;
}
