/* vote.c - which of the ranks that should have the same bits have others: a vote of hashes. */
#include "runtime/health/health.h"
#include "runtime/net/ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool rt_odd(const uint64_t *hash, int n, bool *odd, bool *known)
{
    int best = 0, votes = 0;
    for (int i = 0; i < n; i++) {
        int same = 0;
        for (int k = 0; k < n; k++)
            same += hash[k] == hash[i];
        if (same > votes) {
            votes = same;
            best = i;
        }
    }
    *known = 2 * votes > n;
    for (int i = 0; i < n; i++)
        odd[i] = !*known || hash[i] != hash[best];
    return votes < n;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The first byte of a tensor in which two ranks differ; how many bits do, and in how many bytes. */
typedef struct difference {
    int64_t at, bytes, bits;
    unsigned a, b; /* the bytes there */
} difference;

static difference compare(mg_run *r, const mg_tensor *t, int a, int b)
{
    enum { PIECE = 1 << 20 };
    char *x = rt_alloc(PIECE, 1), *y = rt_alloc(PIECE, 1);
    difference d = {.at = -1};
    for (int64_t at = 0, n, all = rt_local_bytes(t); at < all; at += n) {
        n = all - at < PIECE ? all - at : PIECE;
        rt_ranks_get(r, a, t->offset + at, x, n);
        rt_ranks_get(r, b, t->offset + at, y, n);
        for (int64_t i = 0; memcmp(x, y, (size_t)n) && i < n; i++) {
            const unsigned one = (uint8_t)x[i], other = (uint8_t)y[i];
            if (one == other)
                continue;
            if (d.at < 0)
                d = (difference){.at = at + i, .a = one, .b = other};
            d.bytes++;
            d.bits += __builtin_popcount(one ^ other);
        }
    }
    free(x);
    free(y);
    return d;
}

/* Of `n` ranks that should have the same: those that do not. */
static int tell_tensor(mg_run *r, const mg_tensor *t, const int *rank, const uint64_t *hash, int n)
{
    bool odd[MG_RANKS_MAX], known;
    int alerts = 0, other = 0;
    if (!rt_odd(hash, n, odd, &known))
        return 0;
    for (int i = 0; i < n; i++) {
        for (other = 0; other < n && (known ? odd[other] : hash[other] == hash[i]); other++)
            ;
        if (!odd[i] || other == n)
            continue;
        const difference d = compare(r, t, rank[i], rank[other]);
        char *who = rt_rank_text(r, rank[i]), *what = rt_tensor_text(t),
             *than = rt_rank_text(r, rank[other]);
        if (known)
            rt_accuse(r, rank[i]);
        rt_alert(r, "replica", rank[i],
                 "%s has other bits of %s than %s%s: %" PRId64 " bit%s in %" PRId64
                 " byte%s, the first byte %" PRId64 " of element %" PRId64
                 " as stored, 0x%02x and not 0x%02x (hashes %016" PRIx64 ", %016" PRIx64 ")",
                 who, what, than,
                 known ? n > 2 ? ", and most others" : "" : "; which of them is right is not known",
                 d.bits, d.bits == 1 ? "" : "s", d.bytes, d.bytes == 1 ? "" : "s",
                 d.at % mg_dtype_bytes(t->dtype), d.at / mg_dtype_bytes(t->dtype), d.a, d.b,
                 hash[i], hash[other]);
        free(who);
        free(what);
        free(than);
        alerts++;
    }
    return alerts;
}

/* The axes that a tensor is split on; along all others its ranks have the same. */
static uint32_t split_on(const mg_tensor *t)
{
    uint32_t axes = 0;
    for (int i = 0; i < t->rank; i++)
        axes |= t->axes[i];
    return axes;
}

static int vote_on(mg_run *r, int tensor, const uint64_t *hash)
{
    const mg_program *p = r->program;
    const mg_tensor *t = &p->tensors[tensor];
    const int ranks = rt_ranks_of(p, RT_ALL_AXES);
    const uint32_t split = split_on(t);
    int alerts = 0;
    for (int part = 0; part < rt_ranks_of(p, split); part++) {
        int member[MG_RANKS_MAX], n = 0;
        uint64_t of[MG_RANKS_MAX];
        for (int k = 0; k < ranks; k++)
            if (rt_has_tensor(p, t, k) && rt_place_of(p, k, split) == part) {
                of[n] = hash[(size_t)k * (size_t)p->ntensors + (size_t)tensor];
                member[n++] = k;
            }
        alerts += tell_tensor(r, t, member, of, n);
    }
    return alerts;
}

int rt_vote_tensors(mg_run *r, const uint64_t *hash)
{
    int alerts = 0;
    for (int i = 0; i < r->program->ntensors; i++)
        alerts += vote_on(r, i, hash);
    return alerts;
}

/* ---- actions --------------------------------------------------------------------------------- */

/* The first action of which ranks made other bits, of those that make the same of the same rows;
 * -1: none. hash: by rank and action. */
static int first_odd(const mg_program *p, const uint64_t *hash, const int *member, int n, bool *odd,
                     bool *known)
{
    for (int i = 0; i < p->nalike; i++)
        for (uint32_t a = p->alike[i].from; a < p->alike[i].to; a++) {
            uint64_t of[MG_RANKS_MAX];
            for (int k = 0; k < n; k++)
                of[k] = hash[(size_t)member[k] * (size_t)p->nactions + a];
            if (rt_odd(of, n, odd, known))
                return (int)a;
        }
    return -1;
}

static int tell_action(mg_run *r, const uint64_t *hash, const int *member, int n)
{
    bool odd[MG_RANKS_MAX], known;
    const int action = first_odd(r->program, hash, member, n, odd, &known);
    int alerts = 0;
    for (int k = 0; action >= 0 && k < n; k++) {
        if (!odd[k])
            continue;
        char *who = rt_rank_text(r, member[k]), *what = rt_action_text(r->program, action);
        if (known)
            rt_accuse(r, member[k]);
        rt_alert(r, "computation", member[k], "%s made other bits than %s of the same rows in %s%s",
                 who, known && n > 2 ? "the other replicas" : "its replica", what,
                 known ? "" : "; which of them is right is not known");
        free(who);
        free(what);
        alerts++;
    }
    return alerts;
}

int rt_vote_actions(mg_run *r)
{
    const mg_program *p = r->program;
    const int ranks = rt_ranks_of(p, RT_ALL_AXES);
    const uint32_t batch = p->step.batch_axes;
    uint64_t *sum = rt_alloc((size_t)ranks, sizeof *sum), *hash = NULL;
    int alerts = 0;
    rt_ranks_ask(r, RT_ASK_SUM, sum, sizeof *sum);
    for (int group = 0; group < rt_ranks_of(p, ~batch); group++) {
        int member[MG_RANKS_MAX], n = 0;
        uint64_t of[MG_RANKS_MAX];
        bool odd[MG_RANKS_MAX], known;
        for (int k = 0; k < ranks; k++)
            if (rt_place_of(p, k, ~batch) == group) {
                of[n] = sum[k];
                member[n++] = k;
            }
        if (!rt_odd(of, n, odd, &known))
            continue;
        if (!hash) {
            hash = rt_alloc((size_t)ranks * (size_t)p->nactions, sizeof *hash);
            rt_ranks_ask(r, RT_ASK_ACTIONS, hash, p->nactions * (int64_t)sizeof *hash);
        }
        alerts += tell_action(r, hash, member, n);
    }
    free(hash);
    free(sum);
    return alerts;
}
