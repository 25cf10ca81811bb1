/* tok_other.c - answers to other prompts, for KTO: record i of OUT.other has the prompt of record i
 * of OUT and the answer of the record before it; record 0 that of the last. How likely a policy
 * finds these, beside its reference, says how far the two are from each other.
 *
 * It is made of the finished parts of OUT, one record after the other. */
#include "base/open.h"
#include "compiler/tok/tok_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A record: its tokens as they are written, their weights, and where its answer begins. */
typedef struct Stretch {
    char *tokens, *weights;
    size_t n, room, answer;
} Stretch;

typedef struct Remade {
    FILE *lengths, *bin, *weights; /* to be read */
    const TokOutput *w;
    Sink *to;
    Stretch now, before;
} Remade;

static bool make_room(Stretch *r, size_t n, size_t width)
{
    if (n > r->room) {
        char *tokens = realloc(r->tokens, n * width), *weights = realloc(r->weights, n);
        r->tokens = tokens ? tokens : r->tokens;
        r->weights = weights ? weights : r->weights;
        if (!tokens || !weights)
            return false;
        r->room = n;
    }
    r->n = n;
    return true;
}

/* The next record. */
static bool next(Remade *m, Stretch *r)
{
    int32_t length;
    const size_t width = (size_t)m->w->width;
    if (fread(&length, sizeof length, 1, m->lengths) != 1 || length < 0 ||
        !make_room(r, (size_t)length, width) || fread(r->tokens, width, r->n, m->bin) != r->n ||
        fread(r->weights, 1, r->n, m->weights) != r->n)
        return false;
    const char *first = memchr(r->weights, 1, r->n);
    r->answer = first ? (size_t)(first - r->weights) : r->n;
    return true;
}

/* Goes to the last record, and back to the first. */
static bool last(Remade *m, Stretch *r)
{
    int32_t length = 0;
    if (fseeko(m->lengths, -4, SEEK_END) || fread(&length, sizeof length, 1, m->lengths) != 1 ||
        fseeko(m->lengths, -4, SEEK_END) ||
        fseeko(m->bin, -(off_t)length * m->w->width, SEEK_END) ||
        fseeko(m->weights, -(off_t)length, SEEK_END) || !next(m, r))
        return false;
    rewind(m->lengths);
    rewind(m->bin);
    rewind(m->weights);
    return true;
}

static bool write_some(Remade *m, const Stretch *r, size_t begin, size_t end)
{
    const size_t width = (size_t)m->w->width, n = end - begin;
    return fwrite(r->tokens + begin * width, width, n, m->to->bin) == n &&
           fwrite(r->weights + begin, 1, n, m->to->weights) == n;
}

/* No longer than other documents may be: cut at its end. */
static bool write_record(Remade *m)
{
    const Stretch *p = &m->now, *a = &m->before;
    size_t n = p->answer + a->n - a->answer;
    if (m->w->most && n > (size_t)m->w->most)
        n = (size_t)m->w->most;
    const int32_t length = (int32_t)n;
    const size_t prompt = n < p->answer ? n : p->answer;
    m->to->tokens += length;
    return n <= INT32_MAX && fwrite(&length, sizeof length, 1, m->to->lengths) == 1 &&
           write_some(m, p, 0, prompt) && write_some(m, a, a->answer, a->answer + n - prompt);
}

static bool write_records(Remade *m)
{
    if (m->w->done.documents && !last(m, &m->before))
        return false;
    for (int64_t i = 0; i < m->w->done.documents; i++) {
        if (!next(m, &m->now) || !write_record(m))
            return false;
        const Stretch kept = m->before;
        m->before = m->now;
        m->now = kept;
    }
    return true;
}

static bool shut(FILE *f)
{
    return !f || fclose(f) == 0;
}

Exit tok_other(Session *s, const TokOutput *w, Sink *to)
{
    const Sink *from = &w->sink[0];
    Arena *a = s->arena;
    *to = (Sink){.out = arena_printf(a, "%s.other", from->out)};
    to->bin_part = arena_printf(a, "%s.part.bin", to->out);
    to->lengths_part = arena_printf(a, "%s.part.lengths", to->out);
    to->weights_part = arena_printf(a, "%s.part.weights", to->out);
    to->bin = open_own(to->bin_part, true);
    to->lengths = open_own(to->lengths_part, true);
    to->weights = open_own(to->weights_part, true);
    Remade m = {open_file(from->lengths_part),
                open_file(from->bin_part),
                open_file(from->weights_part),
                w,
                to,
                {0},
                {0}};
    bool good = to->bin && to->lengths && to->weights && m.lengths && m.bin && m.weights;
    good = good && write_records(&m);
    int e = errno;
    good &= shut(to->bin);
    good &= shut(to->lengths);
    good &= shut(to->weights);
    shut(m.lengths);
    shut(m.bin);
    shut(m.weights);
    free(m.now.tokens);
    free(m.now.weights);
    free(m.before.tokens);
    free(m.before.weights);
    return good ? EXIT_done : tok_failed(s, to->bin_part, strerror(e));
}
