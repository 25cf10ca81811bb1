/* hashes.c - what each rank does for --health: it hashes its tensors and what its actions make, and
 * counts how long it waits for others.
 *
 * A hash is of pieces: CRC-32C of each, which differs for every flipped bit, mixed in their order.
 * Pieces are hashed by all threads, which changes no bit of the result. */
#include "runtime/health/health.h"
#include "runtime/net/ranks.h"
#include "runtime/sizes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 20, SOME = 64 }; /* bytes of a piece; pieces hashed at once */

int64_t rt_local_bytes(const mg_tensor *t)
{
    int64_t n = mg_dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        n *= t->size[i];
    return n;
}

/* ---- a hash ---------------------------------------------------------------------------------- */

typedef struct pieces {
    const char *at;
    int64_t bytes;
    uint32_t crc[SOME];
} pieces;

static void hash_pieces(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    pieces *p = ctx;
    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        const int64_t left = p->bytes - i * PIECE;
        p->crc[i] = rt_crc32c(0, p->at + i * PIECE, (size_t)(left < PIECE ? left : PIECE));
    }
}

static uint64_t mixed(uint64_t hash, uint32_t crc)
{
    return rt_mix64(hash + crc + 1);
}

uint64_t rt_health_hash(mg_run *r, int64_t offset, int64_t bytes)
{
    const bool direct = rt_arenas_are_shared && !MG_LEVEL(offset);
    const int64_t step = direct ? (int64_t)SOME * PIECE : PIECE;
    uint64_t hash = (uint64_t)bytes;
    if (!direct && !r->health->piece)
        r->health->piece = rt_alloc(PIECE, 1);
    for (int64_t at = 0; at < bytes; at += step) {
        pieces p = {.bytes = bytes - at < step ? bytes - at : step};
        const int64_t n = (p.bytes + PIECE - 1) / PIECE;
        if (direct) {
            p.at = r->arena + offset + at;
        } else {
            rt_get(r, offset + at, r->health->piece, p.bytes);
            p.at = r->health->piece;
        }
        if (n > 1)
            rt_pool_run(r->pool, n, 1, hash_pieces, &p);
        else
            hash_pieces(&p, 0, n, NULL);
        for (int64_t i = 0; i < n; i++)
            hash = mixed(hash, p.crc[i]);
    }
    return hash;
}

/* ---- the state of a rank --------------------------------------------------------------------- */

void rt_health_open(mg_run *r)
{
    const mg_program *p = r->program;
    if (!r->options->health)
        return;
    rt_health *h = r->health = rt_alloc(1, sizeof *h);
    h->every = rt_health_every(r->options);
    h->only_logs = r->options->health_action && !strcmp(r->options->health_action, "log");
    h->kept = rt_alloc((size_t)p->ntensors + 1, sizeof *h->kept);
    for (int i = 0; i < 2; i++)
        h->made[i] = rt_alloc((size_t)p->nactions + 1, sizeof *h->made[i]);
    h->changed = h->differs = -1;
    h->checked = h->accused = -1;
}

void rt_health_close(mg_run *r)
{
    rt_health *h = r->health;
    if (!h)
        return;
    rt_links_free(h->links);
    free(h->slow);
    free(h->last);
    free(h->host);
    free(h->piece);
    free(h->made[0]);
    free(h->made[1]);
    free(h->kept);
    free(h);
    r->health = NULL;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static uint64_t hash_of(mg_run *r, int tensor)
{
    const mg_tensor *t = &r->program->tensors[tensor];
    return rt_has_tensor(r->program, t, r->rank) ? rt_health_hash(r, t->offset, rt_local_bytes(t))
                                                 : 0;
}

static void keep(mg_run *r)
{
    rt_device_wait(r);
    for (int i = 0; i < r->program->ntensors; i++)
        r->health->kept[i] = hash_of(r, i);
    r->health->keeps = true;
}

static void compare_kept(mg_run *r)
{
    rt_health *h = r->health;
    h->keeps = false;
    for (int i = 0; i < r->program->ntensors && h->changed < 0; i++)
        if (hash_of(r, i) != h->kept[i])
            h->changed = i;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* The rank that has this one's place along all axes but those of the batch, and there `place`. */
static int as_place(const mg_run *r, int place)
{
    const mg_program *p = r->program;
    const uint32_t batch = p->step.batch_axes, others = ~batch;
    for (int k = 0; k < rt_ranks_of(p, RT_ALL_AXES); k++)
        if (rt_place_of(p, k, batch) == place &&
            rt_place_of(p, k, others) == rt_place_of(p, r->rank, others))
            return k;
    return r->rank;
}

void rt_health_begins(mg_run *r, rt_program which, unsigned mode)
{
    rt_health *h = r->health;
    if (!h || which != RT_STEP)
        return;
    h->mode = mode;
    h->past = false;
    if (mode & (RT_MADE | RT_AGAIN)) {
        memset(h->made[!!(mode & RT_AGAIN)], 0, (size_t)r->program->nactions * sizeof(uint64_t));
        r->watch |= RT_WATCH_HASH;
    }
    if (mode & RT_SAME)
        rt_places_tell(r, as_place(r, (int)(mode >> RT_PLACE)));
    h->run_waited = 0;
    h->run_began = rt_now_ns();
}

void rt_health_ends(mg_run *r, rt_program which)
{
    rt_health *h = r->health;
    if (!h || which != RT_STEP)
        return;
    r->watch &= ~(unsigned)RT_WATCH_HASH;
    if (h->mode & RT_SAME)
        rt_places_tell(r, r->rank);
    for (int i = 0; h->mode & RT_AGAIN && i < r->program->nactions && h->differs < 0; i++)
        if (h->made[0][i] != h->made[1][i])
            h->differs = i;
    if (rt_arenas_are_shared && !h->mode) {
        h->steps++;
        h->waited += (double)h->run_waited;
        h->worked += (double)(rt_now_ns() - h->run_began - h->run_waited);
    } else if (!rt_arenas_are_shared && h->mode & RT_AGAIN) {
        h->steps++;
    }
    h->mode = 0;
}

static void add_hash(mg_run *r, int action, int64_t offset, int64_t bytes)
{
    rt_health *h = r->health;
    uint64_t *of = &h->made[!!(h->mode & RT_AGAIN)][action];
    *of = rt_mix64(*of ^ rt_health_hash(r, offset, bytes));
}

/* Gradients may have changed since they were made. */
static void hash_held(mg_run *r, int action)
{
    const mg_program *p = r->program;
    const uint32_t axis = p->stages.axis;
    for (int i = 0; i < p->nheld; i++) {
        const mg_held *h = &p->held[i];
        if (axis && !mg_is_at(h->at, mg_place(r, axis), rt_ranks_of(p, axis)))
            continue;
        for (int64_t k = 0; k < h->n; k++)
            add_hash(r, action, h->offset + k * h->stride, h->bytes);
    }
}

bool rt_health_guard(mg_run *r, int action)
{
    rt_health *h = r->health;
    if (!h)
        return false;
    if (h->mode & (RT_MADE | RT_AGAIN))
        hash_held(r, action);
    h->past = true;
    if (h->mode & RT_DRY)
        return true;
    if (h->keeps)
        compare_kept(r);
    return false;
}

void rt_health_output(mg_run *r, int action, const void *p, int64_t elements, mg_dtype t)
{
    if (!r->health->past)
        add_hash(r, action, (const char *)p - r->arena, elements * mg_dtype_bytes(t));
}

void rt_health_waits(mg_run *r, bool begins)
{
    rt_health *h = r->health;
    const int64_t now = rt_now_ns();
    if (!begins && h->wait_began)
        h->run_waited += now - h->wait_began;
    h->wait_began = begins ? now : 0;
    h->met |= begins;
}

void rt_health_action(mg_run *r, bool begins)
{
    rt_health *h = r->health;
    if (rt_arenas_are_shared || !(h->mode & RT_AGAIN))
        return;
    rt_device_wait(r);
    const int64_t now = rt_now_ns();
    if (!begins && h->action_began)
        *(h->met ? &h->waited : &h->worked) += (double)(now - h->action_began);
    h->action_began = begins ? now : 0;
    h->met = false;
}

/* ---- answers --------------------------------------------------------------------------------- */

static uint64_t sum_of_alike(const mg_run *r)
{
    const mg_program *p = r->program;
    uint64_t sum = 0;
    for (int i = 0; i < p->nalike; i++)
        for (uint32_t a = p->alike[i].from; a < p->alike[i].to; a++)
            sum = rt_mix64(sum ^ r->health->made[0][a]);
    return sum;
}

static rt_health_report report(rt_health *h)
{
    const rt_health_report o = {h->changed, h->differs, h->steps, h->worked, h->waited};
    h->changed = h->differs = -1;
    h->steps = 0;
    h->worked = h->waited = 0;
    return o;
}

void rt_health_answer(mg_run *r, rt_question q, void *answer, int64_t bytes)
{
    rt_health *h = r->health;
    switch (q) {
    case RT_ASK_TENSORS:
        keep(r);
        memcpy(answer, h->kept, (size_t)bytes);
        break;
    case RT_ASK_REPORT:
        *(rt_health_report *)answer = report(h);
        break;
    case RT_ASK_SUM:
        *(uint64_t *)answer = sum_of_alike(r);
        break;
    case RT_ASK_ACTIONS:
        memcpy(answer, h->made[0], (size_t)bytes);
        break;
    case RT_ASK_LINKS:
        rt_links_measure(r, answer);
        break;
    case RT_ASK_HOST:
        memset(answer, 0, (size_t)bytes);
        gethostname(answer, (size_t)bytes - 1);
        break;
    }
}
