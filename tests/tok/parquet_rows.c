/* parquet_rows.c - the rows of a Parquet file behind the first N, for tests/e2e/test_parquet.py:
 * parquet_rows N FILE... For each file its rows, and then a line "-" with what is wrong, if
 * anything is. */
#include "compiler/tok/parquet.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void rows(const char *path, int64_t skip)
{
    int fd = open(path, O_RDONLY);
    const char *text;
    size_t n;
    Parquet *p = parquet_open(fd);
    if (!parquet_why(p)[0] && parquet_skip(p, skip))
        while (parquet_next(p, &text, &n) == PARQUET_row)
            printf("%.*s\n", (int)n, text);
    printf("-%s\n", parquet_why(p));
    parquet_close(p);
    close(fd);
}

int main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        rows(argv[i], atoll(argv[1]));
    return 0;
}
