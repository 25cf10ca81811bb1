/* test_int8.c - rows of numbers in int8 beside bitsandbytes', to the bit: codes, absmax, and what
 * they stand for (int8.txt, by int8.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/int8_rows.h"

enum { MOST = 40 * 300 };

typedef struct Case {
    char name[32];
    int rows, n;
    uint32_t x[MOST], code[MOST], absmax[MOST], y[MOST];
} Case;

static int wrong;

static void read_words(FILE *f, uint32_t *to, int n)
{
    for (int i = 0; i < n; i++)
        if (fscanf(f, "%x", &to[i]) != 1)
            exit(1);
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
    static float x[MOST];
    static int8_t code[MOST];
    memcpy(x, c->x, sizeof x);
    for (int k = 0; k < c->rows; k++) {
        const float absmax = mg_int8_row(x + k * c->n, c->n, code + k * c->n);
        expect(c, "absmax", k, bits_of(absmax), c->absmax[k]);
        for (int i = k * c->n; i < (k + 1) * c->n; i++) {
            expect(c, "code", i, (uint8_t)code[i], c->code[i]);
            expect(c, "number", i, bits_of(mg_int8_number(code[i], absmax)), c->y[i]);
        }
    }
}

/* Codes of rows that no file of bitsandbytes has stay within -127 to 127. */
static void check_strange(void)
{
    const float x[2][3] = {{1e-41f, -1e-41f, 0}, {NAN, 1, -2}};
    const int8_t want[2][3] = {{127, -127, 0}, {0, 0, 0}};
    int8_t code[3];
    for (int k = 0; k < 2; k++) {
        mg_int8_row(x[k], 3, code);
        if (memcmp(code, want[k], 3) && ++wrong)
            printf("strange row %d: %d %d %d\n", k, code[0], code[1], code[2]);
    }
}

int main(int argc, char **argv)
{
    static Case c;
    char line[256];
    FILE *f = fopen(argc > 1 ? argv[1] : "int8.txt", "r");
    int cases = 0;
    if (!f || !fgets(line, sizeof line, f))
        return 1;
    while (fscanf(f, " case %31s %d %d", c.name, &c.rows, &c.n) == 3) {
        read_words(f, c.x, c.rows * c.n);
        read_words(f, c.code, c.rows * c.n);
        read_words(f, c.absmax, c.rows);
        read_words(f, c.y, c.rows * c.n);
        check(&c);
        cases++;
    }
    fclose(f);
    check_strange();
    printf("%d cases, %d numbers that differ\n", cases, wrong);
    return cases != 6 || wrong;
}
