/* test_nf4.c - numbers in NF4 beside bitsandbytes', to the bit: codes, absmax, nested absmax, and
 * what they stand for (nf4.txt, by nf4.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/nf4_blocks.h"

enum { MOST = 64 * 300 };

typedef struct Case {
    char name[32];
    int n, blocks;
    uint32_t x[MOST], code[MOST], absmax[MOST], bits[MOST], scale[MOST], offset[1], y[MOST];
} Case;

static int wrong;

static void read_words(FILE *f, uint32_t *to, int n)
{
    for (int i = 0; i < n; i++)
        if (fscanf(f, "%x", &to[i]) != 1)
            exit(1);
}

static float as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static void expect(const Case *c, const char *what, int i, uint32_t got, uint32_t want)
{
    if (got == want || wrong++ > 20)
        return;
    printf("%s: %s %d is %x, bitsandbytes has %x\n", c->name, what, i, got, want);
}

static void check(const Case *c)
{
    static float x[MOST], absmax[MOST], again[MOST];
    static uint8_t code[MOST], bits[MOST];
    for (int i = 0; i < c->n; i++)
        x[i] = as_float(c->x[i]);
    for (int k = 0; k < c->blocks; k++) {
        const int n = c->n - 64 * k < 64 ? c->n - 64 * k : 64;
        absmax[k] = mg_nf4_block(x + 64 * k, n, code + 64 * k);
        expect(c, "absmax", k, bits_of(absmax[k]), c->absmax[k]);
    }
    const float offset = mg_nf4_offset(absmax, c->blocks);
    expect(c, "offset", 0, bits_of(offset), c->offset[0]);
    for (int k = 0; k < c->blocks; k += 256) {
        const int n = c->blocks - k < 256 ? c->blocks - k : 256;
        const float scale = mg_nf4_nested(absmax + k, n, offset, bits + k);
        expect(c, "scale", k / 256, bits_of(scale), c->scale[k / 256]);
        for (int i = k; i < k + n; i++) {
            const float unit = mg_from_dynamic8(bits[i]), product = unit * scale;
            again[i] = product + offset;
            if (scale >=
                1e-38f) /* below, bitsandbytes' backends differ; what is made of it is not */
                expect(c, "nested absmax", i, bits[i], c->bits[i]);
        }
    }
    for (int i = 0; i < c->n; i++) {
        const float y = mg_nf4f((float)(code[i] << 4), 0) * again[i / 64];
        expect(c, "code", i, code[i], c->code[i]);
        expect(c, "number", i, bits_of(y), c->y[i]);
        expect(c, "low number", i, bits_of(mg_nf4f(code[i], 1)), bits_of(mg_nf4_number[code[i]]));
    }
}

int main(int argc, char **argv)
{
    static Case c;
    char line[256];
    FILE *f = fopen(argc > 1 ? argv[1] : "nf4.txt", "r");
    int cases = 0;
    if (!f || !fgets(line, sizeof line, f))
        return 1;
    while (fscanf(f, " case %31s %d %d", c.name, &c.n, &c.blocks) == 3) {
        read_words(f, c.x, c.n);
        read_words(f, c.code, c.n);
        read_words(f, c.absmax, c.blocks);
        read_words(f, c.bits, c.blocks);
        read_words(f, c.scale, (c.blocks + 255) / 256);
        read_words(f, c.offset, 1);
        read_words(f, c.y, c.n);
        check(&c);
        cases++;
    }
    fclose(f);
    printf("%d cases, %d numbers that differ\n", cases, wrong);
    return cases != 8 || wrong;
}
