/* parts.c - see parts.h. */
#include "runtime/checkpoint/parts.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/net/ranks.h"

enum { SCATTERED = -1 }; /* no machine has all of a tensor */

struct rt_parts {
    rt_places places;
    int16_t host[MG_RANKS_MAX];
    rt_catalog all;   /* items and forms are its own, names are not: their memory is the snapshot */
    int64_t *at;      /* by item: where its tensor begins in the file; of n: where the file ends */
    int16_t *machine; /* by item: the first rank of the machine that writes it, or SCATTERED */
    int64_t own;      /* bytes of tensors that this machine writes whole, */
    int place, writers; /* by so many ranks, of which this is number `place` */
    char **stored;      /* of rt_parts_get: for the parts of a tensor */
};

int64_t rt_places_at(const rt_places *p, int64_t offset)
{
    const int level = MG_LEVEL(offset);
    return p->base[level] + offset - MG_FAR(level, 0);
}

/* ---- who has what ---------------------------------------------------------------------------- */

static int64_t size_of(const rt_external *x)
{
    return mg_dtype_bytes(x->form->tensor->dtype);
}

/* A number that two ranks share if they have the same part of the item; -1: the rank has none. */
static int class_of(const rt_external *x, int rank)
{
    uint32_t axes = 0;
    if (!rt_external_has(x, rank))
        return -1;
    for (int i = 0; x->form->split && i < x->form->ndims; i++)
        axes |= x->form->axes[i];
    return x->form->split ? rt_place_of(x->form->split, rank, axes) : 0;
}

static bool is_here(const rt_parts *p, int rank)
{
    return p->host[rank] == p->host[p->places.rank];
}

/* Marks the machines that have all of a tensor, by their first rank. */
static void find_whole(const rt_parts *p, const rt_external *x, bool *whole)
{
    const int n = p->places.ranks;
    for (int m = 0; m < n; m++)
        whole[m] = p->host[m] == m;
    for (int k = 0; k < x->parts; k++) {
        bool seen[MG_RANKS_MAX] = {false};
        int class[MG_RANKS_MAX];
        for (int a = 0; a < n; a++)
            class[a] = class_of(&x[k], a);
        for (int a = 0; a < n; a++) {
            bool has[MG_RANKS_MAX] = {false};
            if (class[a] < 0 || seen[class[a]])
                continue;
            seen[class[a]] = true;
            for (int b = a; b < n; b++)
                has[p->host[b]] |= class[b] == class[a];
            for (int m = 0; m < n; m++)
                whole[m] &= has[m];
        }
    }
}

/* The machine of the tensor before goes on until it has its share, then comes the one that has the
 * least. */
static int choose(const rt_parts *p, const bool *whole, const int64_t *load, int before,
                  int64_t share)
{
    int best = SCATTERED;
    if (before >= 0 && whole[before] && load[before] < share)
        return before;
    for (int m = 0; m < p->places.ranks; m++)
        if (whole[m] && (best < 0 || load[m] < load[best]))
            best = m;
    return best;
}

static void choose_machines(rt_parts *p)
{
    const rt_catalog *c = &p->all;
    int64_t load[MG_RANKS_MAX] = {0}, share = 0;
    int machines = 0, before = SCATTERED;
    for (int m = 0; m < p->places.ranks; m++)
        machines += p->host[m] == m;
    share = (c->bytes + machines - 1) / machines;
    for (int i = 0; i < c->n; i += c->item[i].parts) {
        bool whole[MG_RANKS_MAX] = {true};
        if (machines > 1)
            find_whole(p, &c->item[i], whole);
        const int m = machines > 1 ? choose(p, whole, load, before, share) : 0;
        for (int k = 0; k < c->item[i].parts; k++)
            p->machine[i + k] = (int16_t)m;
        if (m >= 0)
            load[m] += c->item[i].form->whole * size_of(&c->item[i]);
        before = m;
    }
    p->own = load[p->host[p->places.rank]];
}

/* By rank of this machine: the first of those here that have the same part of the item, in whose
 * snapshot it is; itself, if it has none. */
static void settle(const rt_parts *p, rt_external *x)
{
    const int n = p->places.ranks;
    int first[MG_RANKS_MAX];
    x->stands = NULL;
    if (n == 1)
        return;
    x->stands = rt_alloc((size_t)n, sizeof *x->stands);
    for (int a = 0; a < n; a++)
        first[a] = -1;
    for (int a = 0; a < n; a++) {
        const int class = is_here(p, a) ? class_of(x, a) : -1;
        x->stands[a] = -1;
        if (class < 0)
            continue;
        if (first[class] < 0)
            first[class] = a;
        x->stands[a] = (int16_t)first[class];
    }
}

/* The first of all ranks that have the part that a rank has. */
static int first_of(const rt_parts *p, const rt_external *x, int rank)
{
    const int class = class_of(x, rank);
    for (int a = 0; a < p->places.ranks; a++)
        if (class_of(x, a) == class)
            return a;
    return rank;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Forms are copied for the distance of snapshots, items for the place of their data. */
static void copy_catalog(rt_parts *p, const rt_catalog *from)
{
    rt_catalog *c = &p->all;
    int forms = 0;
    *c = *from;
    for (int i = 0; i < from->n; i++)
        if (from->item[i].form - from->form >= forms)
            forms = (int)(from->item[i].form - from->form) + 1;
    c->item = rt_alloc((size_t)from->n + 1, sizeof *c->item);
    c->form = rt_alloc((size_t)forms + 1, sizeof *c->form);
    if (forms)
        memcpy(c->form, from->form, (size_t)forms * sizeof *c->form);
    for (int k = 0; k < forms; k++)
        c->form[k].apart = c->form[k].copies > 1 ? p->places.apart : 0;
    for (int i = 0; i < from->n; i++) {
        c->item[i] = from->item[i];
        c->item[i].form = &c->form[from->item[i].form - from->form];
        settle(p, &c->item[i]);
    }
}

rt_parts *rt_parts_new(const rt_places *places, const rt_catalog *tensors, int64_t header)
{
    rt_parts *p = rt_alloc(1, sizeof *p);
    const int n = tensors->n;
    int most = 1;
    p->places = *places;
    memcpy(p->host, places->host, (size_t)places->ranks * sizeof *p->host);
    for (int a = 0; a < places->ranks; a++) {
        p->place += a < places->rank && is_here(p, a);
        p->writers += is_here(p, a);
    }
    copy_catalog(p, tensors);
    p->at = rt_alloc((size_t)n + 1, sizeof *p->at);
    p->machine = rt_alloc((size_t)n + 1, sizeof *p->machine);
    for (int i = 0, parts; i < n; i += parts) {
        const rt_external *x = &p->all.item[i];
        parts = x->parts;
        most = parts > most ? parts : most;
        for (int k = 0; k < parts; k++)
            p->at[i + k] = header;
        header += x->form->whole * size_of(x);
    }
    p->at[n] = header;
    p->stored = rt_alloc((size_t)most, sizeof *p->stored);
    choose_machines(p);
    return p;
}

void rt_parts_free(rt_parts *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->all.n; i++)
        free(p->all.item[i].stands);
    free(p->all.item);
    free(p->all.form);
    free(p->at);
    free(p->machine);
    free(p->stored);
    free(p);
}

int64_t rt_parts_file(const rt_parts *p)
{
    return p->at[p->all.n];
}

int64_t rt_parts_memory(const rt_parts *p)
{
    enum { CHUNK = 32 }; /* of the heap */
    const int64_t stands = p->places.ranks > 1 ? CHUNK + 2 * p->places.ranks : 0;
    const int64_t item = (int64_t)(sizeof(rt_external) + sizeof *p->at + sizeof *p->machine);
    return (int64_t)sizeof *p + p->all.n * (item + stands) +
           p->places.program->ntensors * (int64_t)sizeof(rt_form);
}

/* ---- the copies ------------------------------------------------------------------------------ */

/* Does this machine write something of this rank's part? */
static bool is_wanted(const rt_parts *p, int i)
{
    const rt_external *x = &p->all.item[i];
    if (p->machine[i] != SCATTERED)
        return is_here(p, p->machine[i]);
    return is_here(p, first_of(p, x, p->places.rank));
}

void rt_parts_copies(const rt_parts *p, rt_copied *fn, void *ctx)
{
    enum { LINE = 64 }; /* pieces begin on lines of a cache */
    const int me = p->places.rank;
    for (int i = 0; i < p->all.n; i++) {
        const rt_external *x = &p->all.item[i];
        const int64_t bytes = rt_form_bytes(x->form);
        const int64_t offset = x->form->tensor->offset + x->offset * size_of(x);
        int64_t place = 0, of = 0;
        if (!rt_external_has(x, me) || !is_wanted(p, i))
            continue;
        for (int a = 0; x->stands && a < p->places.ranks; a++)
            if (x->stands[a] == x->stands[me]) {
                place += a < me;
                of++;
            }
        of = of ? of : 1;
        const int64_t from = bytes / LINE * place / of * LINE;
        const int64_t to = place + 1 == of ? bytes : bytes / LINE * (place + 1) / of * LINE;
        if (from < to)
            fn(ctx, offset + from, to - from, x->stands ? x->stands[me] : 0);
    }
}

/* ---- the pieces ------------------------------------------------------------------------------ */

/* The item with a byte of the file: the first of its tensor. */
static int item_at(const rt_parts *p, int64_t at)
{
    int low = 0, high = p->all.n;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (p->at[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low - p->all.item[low].part;
}

/* The end of a piece that begins at `from`: a multiple of RT_PIECE, or just before, where an
 * element begins. */
static int64_t cut(const rt_parts *p, int64_t from, int64_t end)
{
    for (int64_t border = (from / RT_PIECE + 1) * RT_PIECE; border < end; border += RT_PIECE) {
        const int i = item_at(p, border);
        const int64_t to = border - (border - p->at[i]) % size_of(&p->all.item[i]);
        if (to > from)
            return to;
    }
    return end;
}

typedef struct visit {
    const rt_parts *p;
    rt_written *fn;
    void *ctx;
    bool more;
    int64_t before; /* bytes of whole tensors of this machine that came before */
} visit;

/* Tensors of this machine that lie side by side: its ranks write them, each a part of all that the
 * machine writes. */
static void visit_range(visit *v, int64_t from, int64_t end)
{
    for (int64_t to; v->more && from < end; from = to) {
        to = cut(v->p, from, end);
        if (v->before * v->p->writers / v->p->own == v->p->place)
            v->more = v->fn(v->ctx, from, to - from);
        v->before += to - from;
    }
}

/* From element e of a tensor: how many lie together, and the first rank that has them. */
static int64_t run_from(const rt_external *x, int64_t e, int *rank)
{
    int64_t gap = x->form->whole - e;
    for (int k = 0; k < x->parts; k++) {
        const rt_form *f = x[k].form;
        const int64_t in = e % f->every, row = e / f->every;
        if (in >= f->from && in < f->from + f->run)
            return rt_external_run(&x[k], row * f->run + in - f->from, f->from + f->run - in, rank);
        const int64_t next = (in < f->from ? row : row + 1) * f->every + f->from - e;
        gap = next < gap ? next : gap;
    }
    *rank = 0; /* nobody has it: zeros */
    return gap;
}

/* Runs of a tensor that no machine has whole. */
static void visit_runs(visit *v, int i)
{
    const rt_external *x = &v->p->all.item[i];
    const int64_t size = size_of(x), most = RT_PIECE / size, whole = x->form->whole;
    int64_t begin = 0, end = 0; /* elements of this rank that are not said yet */
    for (int64_t e = 0; v->more && e < whole;) {
        int rank;
        int64_t n = run_from(x, e, &rank);
        n = n < most ? n : most;
        const bool mine = rank == v->p->places.rank;
        if (end > begin && (!mine || end < e || end - begin + n > most)) {
            v->more = v->fn(v->ctx, v->p->at[i] + begin * size, (end - begin) * size);
            begin = end;
        }
        if (mine) {
            begin = end > begin ? begin : e;
            end = e + n;
        }
        e += n;
    }
    if (v->more && end > begin)
        v->more = v->fn(v->ctx, v->p->at[i] + begin * size, (end - begin) * size);
}

void rt_parts_pieces(const rt_parts *p, rt_written *fn, void *ctx)
{
    visit v = {p, fn, ctx, true, 0};
    for (int i = 0, next; v.more && i < p->all.n; i = next) {
        next = i + p->all.item[i].parts;
        if (p->machine[i] == SCATTERED) {
            visit_runs(&v, i);
            continue;
        }
        while (next < p->all.n && p->machine[next] == p->machine[i])
            next += p->all.item[next].parts;
        if (is_here(p, p->machine[i]))
            visit_range(&v, p->at[i], p->at[next]);
    }
}

void rt_parts_get(rt_parts *p, char *snapshot, int64_t at, int64_t bytes, char *out)
{
    for (int i = item_at(p, at); bytes > 0; i += p->all.item[i].parts) {
        const rt_external *x = &p->all.item[i];
        const int64_t size = size_of(x), begin = (at - p->at[i]) / size;
        int64_t n = x->form->whole - begin;
        n = n * size < bytes ? n : bytes / size;
        for (int k = 0; k < x->parts; k++)
            p->stored[k] =
                snapshot + rt_places_at(&p->places, x[k].form->tensor->offset + x[k].offset * size);
        rt_whole_get(x, p->stored, begin, n, out);
        at += n * size;
        bytes -= n * size;
        out += n * size;
    }
}
