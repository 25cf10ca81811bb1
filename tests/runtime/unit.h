/* unit.h - what the unit tests of the runtime share. */
#ifndef RUNTIME_UNIT_H
#define RUNTIME_UNIT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/run.h"

/* A fresh file under TMPDIR holding n bytes; the name is to be freed. */
static inline char *unit_file(const void *bytes, size_t n)
{
    const char *dir = getenv("TMPDIR");
    char *path = rt_printf("%s/mgrt-unit-XXXXXX", dir ? dir : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* xorshift64*: numbers for tests that must come out the same every time. */
static inline uint64_t unit_random(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 0x2545F4914F6CDD1Du;
}

#endif
