/* data.c - data sets of token files, their windows, and the order in which windows are read.
 *
 * A source is [WEIGHT:][u8:|u16:|u32:]GLOB. With weights each source is a data set of its own
 * (blend.c); without weights all files are one set.
 *
 * A window has seq tokens and some behind them: 1, or more where the program asks for more, up to
 * seq. A segment of n tokens gives c = max(1, n / seq - 1) windows, at a stride of seq, from a
 * phase that each epoch draws anew. Each epoch therefore has the same number of windows, and over
 * the epochs each token is at each place of a window. Windows of packed documents: pack.c. */
#include "runtime/data/batch.h"
#include "runtime/data/pack.h"
#include "runtime/data/sources.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Windows of a segment in shuffled order; see the head of this file. */
static int64_t shuffled_windows(int64_t tokens, int64_t seq)
{
    int64_t c = tokens / seq - 1;
    return c > 1 ? c : 1;
}

/* Numbers the tokens of packed documents; windows are there when rt_data_pack has made them. */
static void count_tokens(rt_data *d)
{
    d->tokens = 0;
    for (int i = 0; i < d->nsegments; i++) {
        rt_segment *s = &d->segment[i];
        s->before = d->tokens;
        s->windows = s->tokens;
        d->tokens += s->tokens;
    }
}

static void count_windows(rt_data *d, bool in_order)
{
    if (d->packs) {
        count_tokens(d);
        return;
    }
    d->tokens = d->windows = 0;
    for (int i = 0; i < d->nsegments; i++) {
        rt_segment *s = &d->segment[i];
        s->before = d->windows;
        s->windows =
            in_order ? 1 + (s->tokens - d->window) / d->seq : shuffled_windows(s->tokens, d->seq);
        d->windows += s->windows;
        d->tokens += s->tokens;
    }
}

/* Raises the limit of open files: each shard has a descriptor. */
static void raise_file_limit(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

/* ---- sources ------------------------------------------------------------------------------ */

/* A source of the command line: its weight (0: none), and bytes of a token of a raw file (0: not
 * raw). */
typedef struct source {
    double weight;
    int raw;
    const char *pattern;
} source;

/* The bytes of a raw token as the beginning of a pattern says, which it skips; 0: none. */
static int raw_type(const char **pattern)
{
    static const struct {
        const char *word;
        int bytes;
    } raws[] = {{"u8:", 1}, {"u16:", 2}, {"u32:", 4}};
    for (int i = 0; i < 3; i++)
        if (strncmp(*pattern, raws[i].word, strlen(raws[i].word)) == 0) {
            *pattern += strlen(raws[i].word);
            return raws[i].bytes;
        }
    return 0;
}

static source read_source(const char *text, const char *option)
{
    source s = {.pattern = text};
    char *end;
    double weight = strtod(text, &end);
    if (end != text && *end == ':' && (*text == '.' || (*text >= '0' && *text <= '9'))) {
        if (!(weight > 0) || !isfinite(weight))
            rt_die(RT_USAGE, "--%s %s: a weight is a number above 0", option, text);
        s.weight = weight;
        s.pattern = end + 1;
    }
    s.raw = raw_type(&s.pattern);
    return s;
}

/* True for files that accompany a token file. */
static bool is_beside(const char *path)
{
    const char *end = strrchr(path, '.');
    return end && (strcmp(end, ".idx") == 0 || strcmp(end, ".weights") == 0);
}

static void add_source(rt_data *d, const source *s, const char *option)
{
    glob_t g;
    int e = glob(s->pattern, GLOB_NOCHECK, NULL, &g);
    if (e)
        rt_die(e == GLOB_NOSPACE ? RT_FAILED : RT_BAD_DATA, "--%s %s: cannot be expanded", option,
               s->pattern);
    for (size_t i = 0; i < g.gl_pathc; i++) {
        if (g.gl_pathc > 1 && is_beside(g.gl_pathv[i]))
            continue;
        d->file = rt_grow(d->file, (size_t)d->nfiles + 1, sizeof *d->file);
        d->file[d->nfiles++] = (rt_file){.path = rt_printf("%s", g.gl_pathv[i]), .raw = s->raw};
    }
    globfree(&g);
}

void rt_data_add(rt_data *d, const char *pattern, const char *option)
{
    source s = read_source(pattern, option);
    if (s.weight > 0)
        rt_die(RT_USAGE, "--%s %s: rows of named inputs have no weights", option, pattern);
    raise_file_limit();
    add_source(d, &s, option);
}

static void open_set(rt_data *d, int64_t seq, int64_t window, int64_t vocab)
{
    d->seq = seq;
    d->window = window;
    d->segment = rt_alloc((size_t)d->nfiles, sizeof *d->segment);
    d->nsegments = d->nfiles;
    for (int i = 0; i < d->nfiles; i++) {
        rt_tokens_open(&d->file[i], d->packs ? 1 : window, vocab);
        d->segment[i] = (rt_segment){.file = i, .tokens = d->file[i].tokens};
    }
    count_windows(d, false);
}

/* A data set of all sources, with the sums of their counts. */
static rt_data *blended(rt_blend *b, const rt_data *like)
{
    rt_data *d = rt_alloc(1, sizeof *d), **part;
    *d = *like;
    d->blend = b;
    for (int n = rt_blend_sources(b, &part); n > 0; n--) {
        d->tokens += part[n - 1]->tokens;
        d->windows += part[n - 1]->windows;
        d->nfiles += part[n - 1]->nfiles;
    }
    return d;
}

/* like: what all sets have alike. */
static rt_data *open_sources(const rt_list *patterns, const char *option, const rt_data *like,
                             int64_t vocab)
{
    int n = patterns->n, weighed = 0;
    source *s = rt_alloc((size_t)n + 1, sizeof *s);
    double *weight = rt_alloc((size_t)n + 1, sizeof *weight);
    rt_data **part = rt_alloc((size_t)n + 1, sizeof *part), *d = NULL;
    raise_file_limit();
    for (int i = 0; i < n; i++) {
        s[i] = read_source(patterns->item[i], option);
        weight[i] = s[i].weight;
        weighed += s[i].weight > 0;
    }
    if (weighed && weighed < n)
        rt_die(RT_USAGE, "--%s: %d of %d sources have a weight; give all of them one, or none",
               option, weighed, n);
    for (int i = 0; i < n; i++) {
        part[i] = weighed || !i ? rt_alloc(1, sizeof *part[i]) : part[0];
        if (weighed || !i)
            *part[i] = *like;
        add_source(part[i], &s[i], option);
    }
    for (int i = 0; i < n && (weighed || !i); i++)
        open_set(part[i], like->seq, like->window, vocab);
    if (weighed) {
        d = blended(rt_blend_new(part, weight, n), like);
    } else {
        d = part[0];
        free(part);
    }
    free(weight);
    free(s);
    return d;
}

rt_data *rt_data_open(const rt_list *patterns, const char *option, int64_t seq, int64_t window,
                      int64_t vocab)
{
    return open_sources(patterns, option, &(rt_data){.seq = seq, .window = window}, vocab);
}

rt_data *rt_data_open_packed(const rt_list *patterns, const char *option, int64_t seq,
                             int64_t window, int64_t vocab, bool drops)
{
    const rt_data like = {.seq = seq, .window = window, .packs = true, .drops = drops};
    return open_sources(patterns, option, &like, vocab);
}

static rt_data *hold_out_each(rt_data *d, double fraction)
{
    rt_data **part;
    int n = rt_blend_sources(d->blend, &part);
    rt_data **held = rt_alloc((size_t)n, sizeof *held);
    const rt_data like = {.seq = d->seq, .window = d->window, .packs = d->packs, .drops = d->drops};
    d->tokens = d->windows = 0;
    for (int i = 0; i < n; i++) {
        held[i] = rt_data_hold_out(part[i], fraction);
        d->tokens += part[i]->tokens;
        d->windows += part[i]->windows;
    }
    return blended(rt_blend_like(d->blend, held), &like);
}

/* The end of a segment that is to be held out. */
typedef struct tail {
    int64_t from;       /* token of the file */
    int64_t first, end; /* of the first document that begins there or behind it; of the segment */
} tail;

static void find_first(void *ctx, int64_t first, int64_t n)
{
    tail *t = ctx;
    (void)n;
    if (first >= t->from && first < t->first)
        t->first = first;
}

/* Of the last `tokens` of a segment those of whole documents. */
static int64_t whole_documents(const rt_data *d, const rt_segment *s, int64_t tokens)
{
    const int64_t end = s->first + s->tokens;
    tail t = {.from = end - tokens, .first = end};
    rt_documents_each(&d->file[s->file], find_first, &t);
    return end - t.first;
}

rt_data *rt_data_hold_out(rt_data *d, double fraction)
{
    if (d->table)
        return rt_table_hold_out(d, fraction);
    if (d->blend)
        return hold_out_each(d, fraction);
    rt_data *v = rt_alloc(1, sizeof *v);
    const int64_t least = d->packs ? 1 : d->window; /* of a segment that has a window */
    int64_t held = (int64_t)((double)d->tokens * fraction), total = d->tokens;
    v->seq = d->seq;
    v->window = d->window;
    v->packs = d->packs;
    v->drops = d->drops;
    v->file = rt_alloc((size_t)d->nfiles, sizeof *v->file);
    v->segment = rt_alloc((size_t)d->nsegments, sizeof *v->segment);
    int kept = 0;
    for (int i = 0; i < d->nsegments; i++) {
        rt_segment s = d->segment[i];
        int64_t after = 0;
        for (int k = i + 1; k < d->nsegments; k++)
            after += d->segment[k].tokens;
        int64_t here = held - after < 0 ? 0 : held - after < s.tokens ? held - after : s.tokens;
        if (d->packs && here)
            here = whole_documents(d, &s, here);
        if (here >= least) { /* a shorter tail has no window: neither set gets it */
            int fd = dup(d->file[s.file].fd);
            if (fd < 0)
                rt_die(RT_IO, "%s: %s", d->file[s.file].path, strerror(errno));
            v->file[v->nfiles] = d->file[s.file];
            v->file[v->nfiles].path = rt_printf("%s", d->file[s.file].path);
            v->file[v->nfiles].fd = fd;
            if (v->file[v->nfiles].weights)
                v->file[v->nfiles].weights = rt_targets_again(v->file[v->nfiles].weights);
            v->segment[v->nsegments++] = (rt_segment){
                .file = v->nfiles++, .first = s.first + s.tokens - here, .tokens = here};
        }
        s.tokens -= here;
        if (s.tokens >= least)
            d->segment[kept++] = s;
    }
    d->nsegments = kept;
    if (!v->nsegments || !kept)
        rt_die(RT_BAD_DATA,
               "--val-fraction %g of %" PRId64 " tokens leaves %s without one %s of %" PRId64,
               fraction, total, kept ? "the evaluation" : "the training",
               d->packs ? "document" : "window", d->packs ? total : d->window);
    count_windows(d, false);
    rt_data_in_order(v);
    return v;
}

void rt_data_in_order(rt_data *d)
{
    rt_data **part;
    if (d->blend) {
        d->windows = 0;
        for (int n = rt_blend_sources(d->blend, &part); n > 0; n--) {
            rt_data_in_order(part[n - 1]);
            d->windows += part[n - 1]->windows;
        }
    } else if (!d->table) { /* rows are in order */
        count_windows(d, true);
    }
}

void rt_data_pack(rt_data *d)
{
    rt_data **part;
    if (!d->blend) {
        d->pack = rt_pack_new(d, &d->packing);
        d->windows = d->packing.windows;
        return;
    }
    d->windows = 0;
    for (int n = rt_blend_sources(d->blend, &part); n > 0; n--) {
        const rt_packing *p = &part[n - 1]->packing;
        rt_data_pack(part[n - 1]);
        d->windows += p->windows;
        d->packing.documents += p->documents;
        d->packing.empty += p->empty;
        d->packing.longer += p->longer;
        d->packing.pieces += p->pieces;
        d->packing.windows += p->windows;
        d->packing.tokens += p->tokens;
        d->packing.positions += p->positions;
    }
}

const rt_segment *rt_data_segment(const rt_data *d, int64_t window)
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

/* The key of the epoch of sequence `index`; *at: the window of the sequence in that epoch. */
static uint64_t epoch_of(const rt_data *d, uint64_t seed, int64_t index, int64_t *at)
{
    uint64_t n = (uint64_t)d->windows;
    uint64_t epoch = rt_mix64(rt_mix64(seed) ^ (uint64_t)index / n);
    *at = (int64_t)rt_permute(epoch, n, (uint64_t)index % n);
    return epoch;
}

void rt_data_weigh(rt_data *d)
{
    rt_data **part;
    if (d->blend)
        for (int n = rt_blend_sources(d->blend, &part); n > 0; n--)
            rt_data_weigh(part[n - 1]);
    else
        for (int i = 0; i < d->nfiles; i++)
            rt_targets_open(&d->file[i], !d->packs);
}

void rt_data_unweighed(const rt_data *d)
{
    rt_data **part;
    if (d->blend) {
        for (int n = rt_blend_sources(d->blend, &part); n > 0; n--)
            rt_data_unweighed(part[n - 1]);
        return;
    }
    for (int i = 0; i < d->nfiles; i++) {
        char *weights = rt_printf("%s.weights", d->file[i].path);
        if (access(weights, F_OK) == 0)
            rt_warn("%s is not read: the model takes no weight[batch, seq], so that all tokens are "
                    "learnt, prompts too",
                    weights);
        free(weights);
    }
}

rt_place rt_data_window(const rt_data *d, uint64_t seed, int64_t index)
{
    int64_t w;
    uint64_t epoch = epoch_of(d, seed, index, &w);
    const rt_segment *s = rt_data_segment(d, w);
    int64_t slack = s->tokens - (d->window - d->seq) - s->windows * d->seq;
    uint64_t phases = (uint64_t)(slack < d->seq - 1 ? slack : d->seq - 1) + 1;
    int64_t phase = (int64_t)(rt_mix64(epoch + (uint64_t)(s - d->segment) + 1) % phases);
    return (rt_place){&d->file[s->file], s->first + phase + (w - s->before) * d->seq};
}

rt_place rt_data_window_in_order(const rt_data *d, int64_t index)
{
    const rt_segment *s = rt_data_segment(d, index);
    return (rt_place){&d->file[s->file], s->first + (index - s->before) * d->seq};
}

void rt_data_sample(const mg_run *r, const rt_data *d, rt_batch *b, const mg_entry *e, int64_t row,
                    int64_t index, bool shuffled)
{
    if (d->table) {
        if (shuffled)
            epoch_of(d, (uint64_t)r->state.seed, index, &index);
        rt_table_row(d, b, e, d->first + index, row);
        return;
    }
    if (d->blend)
        d = shuffled ? rt_blend_pick(d->blend, index, &index) : rt_blend_in_order(d->blend, &index);
    if (d->pack) {
        const uint64_t key = shuffled ? epoch_of(d, (uint64_t)r->state.seed, index, &index) : 0;
        rt_pack_row(d, key, index, r->program->compute, b, e, row);
        return;
    }
    rt_place p = shuffled ? rt_data_window(d, (uint64_t)r->state.seed, index)
                          : rt_data_window_in_order(d, index);
    int64_t targets = e->window - 1, width = mg_dtype_bytes(r->program->compute);
    char *read = rt_alloc((size_t)e->window, 8);
    rt_tokens_read(p.file, p.first, e->window, (int32_t *)read);
    rt_batch_row(b, e->tokens, row, read, e->window * 4);
    if (e->weights >= 0) {
        rt_targets_read(p.file, p.first + 1, targets, r->program->compute, read);
        rt_batch_row(b, e->weights, row, read, targets * width);
    }
    free(read);
}

char *rt_data_changed(const rt_data *d)
{
    rt_data **part;
    char *why = NULL;
    if (d->blend)
        for (int n = rt_blend_sources(d->blend, &part); n > 0 && !why; n--)
            why = rt_data_changed(part[n - 1]);
    else
        for (int i = 0; i < d->nfiles && !why; i++)
            why = rt_tokens_changed(&d->file[i]);
    return why;
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
    if (d->blend) {
        rt_blend_free(d->blend);
        free(d);
        return;
    }
    for (int i = 0; i < d->nfiles; i++) {
        close(d->file[i].fd);
        free(d->file[i].path);
        rt_targets_close(d->file[i].weights);
    }
    rt_pack_free(d->pack);
    free(d->file);
    free(d->segment);
    free(d);
}
