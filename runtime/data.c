/* data.c - token files, windows, and the order in which they are read.
 *
 * A file is plain bytes (where the vocabulary is 256) or llm.c's format: 256 little-endian int32,
 * the first three 20240520, 1 and the number of tokens, then uint16 tokens. Files are read with
 * pread, not mapped: one that shrinks under us is an error with a name, not a SIGBUS.
 *
 * A segment of n tokens gives c = max(1, n / seq - 1) windows of seq + 1 tokens, seq apart, from a
 * phase that each epoch draws anew; so every epoch has the same number of windows, and over the
 * epochs every token is at every place of a window. */
#include "runtime/run.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LLMC_MAGIC = 20240520, LLMC_HEADER = 1024, BYTE_VOCAB = 256 };

static void read_fully(const rt_file *f, void *to, size_t n, int64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(f->fd, (char *)to + done, n - done, at + (int64_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            rt_die(RT_IO, "%s: reading at byte %" PRId64 ": %s", f->path, at, strerror(errno));
        if (got == 0)
            rt_die(RT_BAD_DATA,
                   "%s: ends before byte %" PRId64 ": it became shorter since the program started",
                   f->path, at + (int64_t)n);
        done += (size_t)got;
    }
}

static void read_tokens(const rt_file *f, int64_t first, int64_t n, int32_t *out)
{
    enum { CHUNK = 4096 };
    uint16_t wide[CHUNK];
    uint8_t *narrow = (uint8_t *)wide;
    for (int64_t done = 0; done < n;) {
        int64_t k = n - done < CHUNK ? n - done : CHUNK;
        read_fully(f, wide, (size_t)(k * f->width), f->start + (first + done) * f->width);
        for (int64_t i = 0; i < k; i++)
            out[done + i] = f->width == 1 ? narrow[i] : wide[i];
        done += k;
    }
}

/* Every token of an llm.c file is below the vocabulary, before step 0. */
static void check_tokens(const rt_file *f, int64_t vocab)
{
    enum { CHUNK = 1 << 16 };
    uint16_t *t = rt_alloc(CHUNK, sizeof *t);
    for (int64_t at = 0; at < f->tokens; at += CHUNK) {
        int64_t k = f->tokens - at < CHUNK ? f->tokens - at : CHUNK;
        read_fully(f, t, (size_t)k * 2, f->start + at * 2);
        for (int64_t i = 0; i < k; i++)
            if (t[i] >= vocab)
                rt_die(RT_BAD_DATA,
                       "%s: token %" PRId64 " is %d; the vocabulary has %" PRId64 " (0 to %" PRId64
                       ")",
                       f->path, at + i, t[i], vocab, vocab - 1);
    }
    free(t);
}

static void open_llmc(rt_file *f, int64_t size, const int32_t header[3], int64_t vocab)
{
    if (header[1] != 1)
        rt_die(RT_BAD_DATA, "%s: llm.c token file of version %d; only 1 is known", f->path,
               header[1]);
    if (size < LLMC_HEADER || header[2] < 0 || size - LLMC_HEADER != (int64_t)header[2] * 2)
        rt_die(RT_BAD_DATA,
               "%s: its header counts %d tokens, %" PRId64 " bytes in all; it has %" PRId64
               " bytes",
               f->path, header[2], LLMC_HEADER + (int64_t)header[2] * 2, size);
    f->width = 2;
    f->start = LLMC_HEADER;
    f->tokens = header[2];
    check_tokens(f, vocab);
}

static void open_file(rt_file *f, int64_t seq, int64_t vocab)
{
    struct stat s;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &s))
        rt_die(RT_BAD_DATA, "%s: %s", f->path, strerror(errno));
    if (S_ISDIR(s.st_mode))
        rt_die(RT_BAD_DATA, "%s is a directory; name its files: --data '%s/*'", f->path, f->path);
    if (!S_ISREG(s.st_mode))
        rt_die(RT_BAD_DATA, "%s is not a regular file", f->path);
    int32_t header[3] = {0};
    if (s.st_size >= (off_t)sizeof header)
        read_fully(f, header, sizeof header, 0);
    if (header[0] == LLMC_MAGIC)
        open_llmc(f, s.st_size, header, vocab);
    else if (vocab == BYTE_VOCAB)
        *f = (rt_file){f->path, f->fd, 1, 0, s.st_size};
    else
        rt_die(
            RT_BAD_DATA,
            "%s: plain bytes are tokens only where the vocabulary is 256, and here it is %" PRId64
            "; otherwise a file begins with llm.c's header (magic %d)",
            f->path, vocab, LLMC_MAGIC);
    if (f->tokens < seq + 1)
        rt_die(RT_BAD_DATA, "%s: has %" PRId64 " tokens; one window takes seq + 1 = %" PRId64,
               f->path, f->tokens, seq + 1);
}

/* Windows of a segment in shuffled order; see the top. */
static int64_t shuffled_windows(int64_t tokens, int64_t seq)
{
    int64_t c = tokens / seq - 1;
    return c > 1 ? c : 1;
}

static void count_windows(rt_data *d, bool in_order)
{
    d->tokens = d->windows = 0;
    for (int i = 0; i < d->nsegments; i++) {
        rt_segment *s = &d->segment[i];
        s->before = d->windows;
        s->windows = in_order ? (s->tokens - 1) / d->seq : shuffled_windows(s->tokens, d->seq);
        d->windows += s->windows;
        d->tokens += s->tokens;
    }
}

/* Many shards are many descriptors. */
static void raise_file_limit(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

static void add_pattern(rt_data *d, const char *pattern, const char *option)
{
    glob_t g;
    int e = glob(pattern, GLOB_NOCHECK, NULL, &g);
    if (e)
        rt_die(e == GLOB_NOSPACE ? RT_FAILED : RT_BAD_DATA, "--%s %s: cannot be expanded", option,
               pattern);
    for (size_t i = 0; i < g.gl_pathc; i++) {
        d->file = rt_grow(d->file, (size_t)d->nfiles + 1, sizeof *d->file);
        d->file[d->nfiles++] = (rt_file){.path = rt_printf("%s", g.gl_pathv[i])};
    }
    globfree(&g);
}

rt_data *rt_data_find(const rt_list *patterns, const char *option)
{
    rt_data *d = rt_alloc(1, sizeof *d);
    raise_file_limit();
    for (int i = 0; i < patterns->n; i++)
        add_pattern(d, patterns->item[i], option);
    return d;
}

rt_data *rt_data_open(const rt_list *patterns, const char *option, int64_t seq, int64_t vocab)
{
    rt_data *d = rt_data_find(patterns, option);
    d->seq = seq;
    d->segment = rt_alloc((size_t)d->nfiles, sizeof *d->segment);
    d->nsegments = d->nfiles;
    for (int i = 0; i < d->nfiles; i++) {
        open_file(&d->file[i], seq, vocab);
        d->segment[i] = (rt_segment){.file = i, .tokens = d->file[i].tokens};
    }
    count_windows(d, false);
    return d;
}

rt_data *rt_data_hold_out(rt_data *d, double fraction)
{
    if (d->table)
        return rt_table_hold_out(d, fraction);
    rt_data *v = rt_alloc(1, sizeof *v);
    int64_t held = (int64_t)((double)d->tokens * fraction), total = d->tokens;
    v->seq = d->seq;
    v->file = rt_alloc((size_t)d->nfiles, sizeof *v->file);
    v->segment = rt_alloc((size_t)d->nsegments, sizeof *v->segment);
    int kept = 0;
    for (int i = 0; i < d->nsegments; i++) {
        rt_segment s = d->segment[i];
        int64_t after = 0;
        for (int k = i + 1; k < d->nsegments; k++)
            after += d->segment[k].tokens;
        int64_t here = held - after < 0 ? 0 : held - after < s.tokens ? held - after : s.tokens;
        if (here > d->seq) { /* a shorter tail holds no window: it stays with neither */
            int fd = dup(d->file[s.file].fd);
            if (fd < 0)
                rt_die(RT_IO, "%s: %s", d->file[s.file].path, strerror(errno));
            v->file[v->nfiles] = d->file[s.file];
            v->file[v->nfiles].path = rt_printf("%s", d->file[s.file].path);
            v->file[v->nfiles].fd = fd;
            v->segment[v->nsegments++] = (rt_segment){
                .file = v->nfiles++, .first = s.first + s.tokens - here, .tokens = here};
        }
        s.tokens -= here;
        if (s.tokens > d->seq)
            d->segment[kept++] = s;
    }
    d->nsegments = kept;
    if (!v->nsegments || !kept)
        rt_die(RT_BAD_DATA,
               "--val-fraction %g of %" PRId64 " tokens leaves %s without one window of %" PRId64,
               fraction, total, kept ? "the evaluation" : "the training", d->seq + 1);
    count_windows(d, false);
    rt_data_in_order(v);
    return v;
}

void rt_data_in_order(rt_data *d)
{
    if (!d->table) /* rows are in order */
        count_windows(d, true);
}

static const rt_segment *segment_of(const rt_data *d, int64_t window)
{
    int low = 0, high = d->nsegments - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (d->segment[middle].before <= window)
            low = middle;
        else
            high = middle - 1;
    }
    return &d->segment[low];
}

/* The epoch's key, and where in it the index lies. */
static uint64_t epoch_of(const rt_data *d, uint64_t seed, int64_t index, int64_t *at)
{
    uint64_t n = (uint64_t)d->windows;
    uint64_t epoch = rt_mix64(rt_mix64(seed) ^ (uint64_t)index / n);
    *at = (int64_t)rt_permute(epoch, n, (uint64_t)index % n);
    return epoch;
}

void rt_data_window(const rt_data *d, uint64_t seed, int64_t index, int32_t *out)
{
    int64_t w;
    uint64_t epoch = epoch_of(d, seed, index, &w);
    const rt_segment *s = segment_of(d, w);
    int64_t slack = s->tokens - 1 - s->windows * d->seq;
    uint64_t phases = (uint64_t)(slack < d->seq - 1 ? slack : d->seq - 1) + 1;
    int64_t phase = (int64_t)(rt_mix64(epoch + (uint64_t)(s - d->segment) + 1) % phases);
    read_tokens(&d->file[s->file], s->first + phase + (w - s->before) * d->seq, d->seq + 1, out);
}

void rt_data_window_in_order(const rt_data *d, int64_t index, int32_t *out)
{
    const rt_segment *s = segment_of(d, index);
    read_tokens(&d->file[s->file], s->first + (index - s->before) * d->seq, d->seq + 1, out);
}

void rt_data_sample(mg_run *r, const rt_data *d, const mg_entry *e, int64_t b, int64_t index,
                    bool shuffled)
{
    if (d->table) {
        if (shuffled)
            epoch_of(d, (uint64_t)r->state.seed, index, &index);
        rt_table_row(d, e, d->first + index, b, r->arena);
        return;
    }
    int32_t *tokens = (int32_t *)(r->arena + e->tokens) + b * e->window;
    if (shuffled)
        rt_data_window(d, (uint64_t)r->state.seed, index, tokens);
    else
        rt_data_window_in_order(d, index, tokens);
}

void rt_data_close(rt_data *d)
{
    if (!d)
        return;
    if (d->borrowed) {
        free(d);
        return;
    }
    if (d->table)
        rt_table_close(d);
    for (int i = 0; i < d->nfiles; i++) {
        close(d->file[i].fd);
        free(d->file[i].path);
    }
    free(d->file);
    free(d->segment);
    free(d);
}
