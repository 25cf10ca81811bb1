/* algos.c - --products FILE: measures the algorithms of each product once, and keeps the fastest in
 * a file.
 *
 *   mgc-products 4
 *   device NVIDIA H200
 *   library 130100
 *   MG_BF16 0 MG_F32 0 | ta tb | m n k | lda ldb ldc ldx | batch sa sb sc | the multiples at which
 *   A, B, C and the epilogue's matrix are | apart | eight words of the algorithm
 *
 * (without the bars, numbers in decimal, the words in hexadecimal). An algorithm is valid for one
 * library on one device, so a file of another library or device is refused. Without the option a
 * product takes the first algorithm of the library's heuristic, which is also the same each
 * time. */
#include "runtime/cuda/cuda.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct pinned {
    rt_product_key key;
    rt_algo algo;
} pinned;

struct rt_algos {
    const char *path, *device;
    pinned *item;
    int n;
    bool changed;
};

bool rt_same_product(const rt_product_key *x, const rt_product_key *y)
{
    const mg_gemm_desc *a = &x->d, *b = &y->d;
    return a->dtype == b->dtype && a->other == b->other && a->out == b->out &&
           a->epilogue == b->epilogue && a->tiles == b->tiles && a->ta == b->ta && a->tb == b->tb &&
           a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb &&
           a->ldc == b->ldc && a->ldx == b->ldx && a->batch == b->batch && a->sa == b->sa &&
           a->sb == b->sb && a->sc == b->sc && x->a == y->a && x->b == y->b && x->c == y->c &&
           x->aux == y->aux;
}

const rt_algo *rt_algos_find(const rt_algos *a, const rt_product_key *k)
{
    for (int i = 0; i < a->n; i++)
        if (rt_same_product(&a->item[i].key, k))
            return &a->item[i].algo;
    return NULL;
}

static void add(rt_algos *a, const rt_product_key *k, const rt_algo *algo)
{
    a->item = rt_grow(a->item, (size_t)a->n + 1, sizeof *a->item);
    a->item[a->n++] = (pinned){*k, *algo};
}

void rt_algos_add(rt_algos *a, const rt_product_key *k, const rt_algo *algo)
{
    a->changed = true;
    for (int i = 0; i < a->n; i++)
        if (rt_same_product(&a->item[i].key, k)) { /* which the library refused */
            a->item[i].algo = *algo;
            return;
        }
    add(a, k, algo);
}

/* ---- reading -------------------------------------------------------------------------------- */

enum { NUMBERS = 22, WORDS = 8, LINE = 1024 };

static bool read_item(const char *line, pinned *p)
{
    int64_t x[NUMBERS];
    char *end = (char *)(uintptr_t)line;
    for (int i = 0; i < NUMBERS; i++) {
        errno = 0;
        x[i] = strtoll(line, &end, 10);
        if (end == line || errno)
            return false;
        line = end;
    }
    for (int i = 0; i < WORDS; i++) {
        errno = 0;
        p->algo.algo.data[i] = strtoull(line, &end, 16);
        if (end == line || errno)
            return false;
        line = end;
    }
    p->algo.apart = x[21] != 0;
    p->key = (rt_product_key){.d = {.dtype = (mg_dtype)x[0],
                                    .other = (mg_dtype)x[1],
                                    .out = (mg_dtype)x[2],
                                    .epilogue = (uint8_t)(x[3] & 0xff),
                                    .tiles = (uint8_t)(x[3] >> 8 & 0xff),
                                    .ta = x[4] != 0,
                                    .tb = x[5] != 0,
                                    .m = x[6],
                                    .n = x[7],
                                    .k = x[8],
                                    .lda = x[9],
                                    .ldb = x[10],
                                    .ldc = x[11],
                                    .ldx = x[12],
                                    .batch = x[13],
                                    .sa = x[14],
                                    .sb = x[15],
                                    .sc = x[16]},
                              .a = (int)x[17],
                              .b = (int)x[18],
                              .c = (int)x[19],
                              .aux = (int)x[20]};
    return strspn(line, "\n") == strlen(line);
}

/* The first lines of a file for this device and library. */
static char *heading(const rt_algos *a)
{
    return rt_printf("mgc-products 4\ndevice %s\nlibrary %zu\n", a->device, cublasLtGetVersion());
}

static void read_all(rt_algos *a, FILE *f)
{
    char line[LINE], *want = heading(a), *at = want;
    for (int number = 1; fgets(line, sizeof line, f); number++) {
        pinned p;
        size_t n = strlen(line);
        if (number <= 3 && strncmp(at, line, n))
            rt_die(RT_BAD_DATA,
                   "--products %s, line %d: '%.*s' is not '%.*s'; the file is for another device "
                   "or library: give another name to measure here",
                   a->path, number, (int)strcspn(line, "\n"), line, (int)strcspn(at, "\n"), at);
        if (number <= 3)
            at += n;
        else if (!read_item(line, &p))
            rt_die(RT_BAD_DATA, "--products %s, line %d is not a product with its algorithm",
                   a->path, number);
        else
            add(a, &p.key, &p.algo);
    }
    if (*at)
        rt_die(RT_BAD_DATA, "--products %s ends before it names device and library", a->path);
    free(want);
}

rt_algos *rt_algos_open(const char *path, const char *device)
{
    rt_algos *a = rt_alloc(1, sizeof *a);
    a->path = path;
    a->device = device;
    int fd = rt_file_open(AT_FDCWD, path, O_RDONLY);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f && errno != ENOENT)
        rt_die(RT_IO, "--products %s: %s", path, rt_file_error());
    if (f) {
        read_all(a, f);
        fclose(f);
    }
    return a;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void write_item(const pinned *p, FILE *f)
{
    const rt_product_key *k = &p->key;
    const mg_gemm_desc *d = &k->d;
    const int64_t end = d->epilogue | d->tiles << 8;
    const int64_t x[NUMBERS] = {
        d->dtype, d->other, d->out,   end,   d->ta, d->tb, d->m, d->n, d->k, d->lda, d->ldb,
        d->ldc,   d->ldx,   d->batch, d->sa, d->sb, d->sc, k->a, k->b, k->c, k->aux, p->algo.apart};
    for (int i = 0; i < NUMBERS; i++)
        fprintf(f, "%s%" PRId64, i ? " " : "", x[i]);
    for (int i = 0; i < WORDS; i++)
        fprintf(f, " %" PRIx64, p->algo.algo.data[i]);
    fputc('\n', f);
}

void rt_algos_save(rt_algos *a)
{
    if (!a || !a->changed)
        return;
    char *tmp = rt_printf("%s.tmp", a->path), *head = heading(a);
    FILE *f = fopen(tmp, "w");
    if (f)
        fputs(head, f);
    for (int i = 0; f && i < a->n; i++)
        write_item(&a->item[i], f);
    bool good = f && fflush(f) == 0 && fsync(fileno(f)) == 0 && !ferror(f);
    if (f && fclose(f))
        good = false;
    if (!good || rename(tmp, a->path))
        rt_die(RT_IO, "--products %s: %s", a->path, strerror(errno));
    free(tmp);
    free(head);
    a->changed = false;
}

void rt_algos_free(rt_algos *a)
{
    if (!a)
        return;
    free(a->item);
    free(a);
}
