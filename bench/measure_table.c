/* measure_table.c - the table and the numbers of base/measured.h on a machine without mgc:
 * scripts/gpu-check writes what traces have to its standard input, a line each:
 *
 *     base KEY NUMBER        of the description that the programs were planned with
 *     run STEPS              a traced run begins
 *     action CALLS MEASURED PREDICTED FLOPS BYTES CLASS   of all its steps; microseconds
 *     end                    of the run
 *     launches SECONDS ACTIONS   of an untraced step of very short actions
 *     transfers SECONDS PREDICTED  of an untraced step that fetches and offloads, and as it was
 * predicted numbers THREADS        asks for the numbers, for so many multiprocessors
 *
 * and it answers with the table, and for each number `number KEY VALUE CLASS` (0: not measured). */
#include "base/measured.h"

#include <stdlib.h>
#include <string.h>

enum { BASES = 64, KEY = 40 };

static struct {
    char key[KEY];
    double value;
} bases[BASES];
static int nbases;

static double base(void *ctx, const char *key)
{
    (void)ctx;
    for (int i = 0; i < nbases; i++)
        if (!strcmp(bases[i].key, key))
            return bases[i].value;
    return 0;
}

static void print_numbers(const Measured *m, double threads)
{
    MeasuredNumber k[MEASURED_NUMBERS];
    const int n = measured_numbers(m, base, NULL, threads, k);
    for (int i = 0; i < n; i++)
        printf("number %s %.6g %s\n", k[i].key, k[i].value, k[i].class_);
}

static int refuse(const char *line)
{
    fprintf(stderr, "measure_table: cannot read this, or its class is not in classes.def: %s",
            line);
    return 1;
}

/* False: the line means nothing. */
static bool take(Measured *m, const char *line)
{
    double x[5];
    int at = 0, steps;
    char class_[CLASS_TEXT];
    if (sscanf(line, "action %lf %lf %lf %lf %lf %79[^\n]", x, x + 1, x + 2, x + 3, x + 4,
               class_) == 6)
        return measured_add(m, class_, x[0], x[1], x[2], x[3], x[4]);
    if (nbases < BASES && sscanf(line, "base %39s %lf", bases[nbases].key, x) == 2) {
        bases[nbases++].value = x[0];
        return true;
    }
    if (sscanf(line, "run %d", &steps) == 1) {
        measured_begin(m, steps);
        return steps > 0;
    }
    if (sscanf(line, "launches %lf %lf", x, x + 1) == 2) {
        measured_launches(m, x[0], x[1]);
        return x[1] > 0;
    }
    if (sscanf(line, "transfers %lf %lf", x, x + 1) == 2) {
        measured_transfers(m, x[0], x[1]);
        return x[0] > 0;
    }
    if (sscanf(line, "numbers %lf", x) == 1) {
        measured_table(m, base, NULL, stdout);
        print_numbers(m, x[0]);
        return true;
    }
    sscanf(line, "end%n", &at);
    if (at)
        measured_end(m);
    return at > 0;
}

int main(void)
{
    static Measured m;
    char line[400];
    while (fgets(line, sizeof line, stdin))
        if (!take(&m, line))
            return refuse(line);
    return 0;
}
