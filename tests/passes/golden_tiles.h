/* golden_tiles.h - reads quantize_tiles.txt: tensors as torchao rounds them in tiles (see
 * quantize_tiles.py). For the tests of the pass, of the kernel that finds scales, and of generated
 * kernels that round. */
#ifndef MGC_TESTS_GOLDEN_TILES_H
#define MGC_TESTS_GOLDEN_TILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { GOLDEN_MOST = 2048, GOLDEN_TENSORS = 66 };

typedef struct GoldenTiles {
    bool mx, e5m2;
    int rows, columns, height, width; /* of the tensor, of a tile */
    uint16_t number[GOLDEN_MOST];     /* bf16 */
    uint8_t code[GOLDEN_MOST];        /* of fp8 */
    float inverse[GOLDEN_MOST];       /* of each element: 1 / the scale of its tile */
} GoldenTiles;

static inline float golden_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float golden_number(const GoldenTiles *g, int e)
{
    return golden_float((uint32_t)g->number[e] << 16);
}

/* The next tensor; false: there is none. */
static inline bool golden_read(FILE *f, GoldenTiles *g)
{
    char kind[8], type[8];
    unsigned number, code, scale;
    if (fscanf(f, "%7s %7s %d %d %d %d", kind, type, &g->rows, &g->columns, &g->height,
               &g->width) != 6)
        return false;
    g->mx = !strcmp(kind, "mx");
    g->e5m2 = !strcmp(type, "e5m2");
    assert_in_range(g->rows * g->columns, 1, GOLDEN_MOST);
    for (int e = 0; e < g->rows * g->columns; e++) {
        assert_int_equal(fscanf(f, " %x:%x", &number, &code), 2);
        g->number[e] = (uint16_t)number;
        g->code[e] = (uint8_t)code;
    }
    const int wide = (g->columns + g->width - 1) / g->width;
    for (int k = 0; k < (g->rows + g->height - 1) / g->height * wide; k++) {
        assert_int_equal(fscanf(f, " %x", &scale), 1);
        for (int r = k / wide * g->height; r < g->rows && r / g->height == k / wide; r++)
            for (int c = k % wide * g->width; c < g->columns && c / g->width == k % wide; c++)
                g->inverse[r * g->columns + c] = golden_float(scale);
    }
    return true;
}

#endif
