/* target_weights.c - the weight of each token of a file as a target: file X.weights for token file
 * X.
 *
 * For programs that take weight[batch, seq]. The file has one entry for each token: a byte (0 to
 * 255) or a little-endian float; the file size tells which. Entry i is the weight of the prediction
 * of token i: a prompt whose tokens have weight 0 is read, but not learnt. */
#include "runtime/run.h"
#include "runtime/data/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static double entry(const rt_file *w, const char *p, int64_t i)
{
    float x;
    if (w->width == 1)
        return (unsigned char)p[i];
    memcpy(&x, p + 4 * i, 4);
    return x;
}

/* Calls put(ctx, i, x) for entries first + i; ends the program at an entry that is not a weight. */
static void each_entry(const rt_file *w, int64_t first, int64_t n,
                       void put(void *ctx, int64_t i, double x), void *ctx)
{
    char buffer[1 << 13];
    int64_t limit = (int64_t)sizeof buffer / w->width;
    for (int64_t at = 0; at < n; at += limit) {
        int64_t k = n - at < limit ? n - at : limit;
        rt_file_read(w, buffer, k * w->width, (first + at) * w->width);
        for (int64_t i = 0; i < k; i++) {
            double x = entry(w, buffer, i);
            if (!(x >= 0) || !isfinite(x))
                rt_die(RT_BAD_DATA,
                       "%s: entry %" PRId64 " is %g; weights are finite and not below 0", w->path,
                       first + at + i, x);
            put(ctx, at + i, x);
        }
    }
}

static void add_up(void *ctx, int64_t i, double x)
{
    (void)i;
    *(double *)ctx += x;
}

void rt_targets_open(rt_file *f, bool needed)
{
    struct stat s;
    rt_file *w = rt_alloc(1, sizeof *w);
    w->path = rt_printf("%s.weights", f->path);
    w->fd = rt_file_open(AT_FDCWD, w->path, O_RDONLY);
    if (w->fd < 0 && errno == ENOENT && !needed) {
        free(w->path);
        free(w);
        return;
    }
    if (w->fd < 0 || fstat(w->fd, &s))
        rt_die(RT_BAD_DATA,
               "%s: %s; this program weighs its targets: for each token of %s it needs a byte or a "
               "float there",
               w->path, rt_file_error(), f->path);
    w->bytes = s.st_size;
    w->changed = s.st_mtim;
    w->tokens = f->tokens;
    w->width = s.st_size == f->tokens ? 1 : 4;
    if (s.st_size != f->tokens * w->width)
        rt_die(RT_BAD_DATA,
               "%s has %" PRId64 " bytes; for the %" PRId64 " tokens of %s it has as many, or four "
               "times as many",
               w->path, (int64_t)s.st_size, f->tokens, f->path);
    double sum = 0;
    each_entry(w, 0, w->tokens, add_up, &sum);
    if (sum == 0)
        rt_die(RT_BAD_DATA, "%s: all weights are 0: there is nothing to learn from %s", w->path,
               f->path);
    f->weights = w;
}

rt_file *rt_targets_again(const rt_file *w)
{
    rt_file *again = rt_alloc(1, sizeof *again);
    *again = *w;
    again->path = rt_printf("%s", w->path);
    again->fd = dup(w->fd);
    if (again->fd < 0)
        rt_die(RT_IO, "%s: %s", w->path, strerror(errno));
    return again;
}

typedef struct target {
    mg_dtype dtype;
    char *to;
} target;

static void put_entry(void *ctx, int64_t i, double x)
{
    const target *t = ctx;
    if (t->dtype == MG_F64)
        ((double *)t->to)[i] = x;
    else
        ((float *)t->to)[i] = (float)x;
}

void rt_targets_read(const rt_file *f, int64_t first, int64_t n, mg_dtype dtype, void *out)
{
    each_entry(f->weights, first, n, put_entry, &(target){dtype, out});
}

void rt_targets_close(rt_file *w)
{
    if (!w)
        return;
    close(w->fd);
    free(w->path);
    free(w);
}
