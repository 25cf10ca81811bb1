/* Parts of checkpoints, on random meshes, machines and tensors: each byte of a file is written
 * once, and is the right one, from what the ranks of a machine copied; and its checksum from those
 * of the pieces. */
#include "unit.h"

#include "runtime/checkpoint/crc32c_parts.h"
#include "runtime/checkpoint/parts.h"
#include "runtime/keeper/keeper.h"
#include "runtime/net/ranks.h"

enum { TENSORS = 6, RANKS = 12, POISON = 0xEE };

static int64_t draw(uint64_t *seed, int64_t n)
{
    return (int64_t)(unit_random(seed) % (uint64_t)n);
}

/* ---- checksums ------------------------------------------------------------------------------- */

static void checksums(void **state)
{
    (void)state;
    uint64_t seed = 5;
    uint8_t data[5000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)unit_random(&seed);
    for (int round = 0; round < 500; round++) {
        const int64_t all = draw(&seed, (int64_t)sizeof data + 1);
        int64_t cut[20], n = draw(&seed, 18);
        uint32_t parts[20], sum = 0;
        cut[0] = 0;
        for (int64_t i = 1; i <= n; i++)
            cut[i] = cut[i - 1] + draw(&seed, all - cut[i - 1] + 1);
        cut[n + 1] = all;
        for (int64_t i = 0; i <= n; i++)
            parts[i] =
                rt_crc32c_part(data + cut[i], (size_t)(cut[i + 1] - cut[i]), all - cut[i + 1]);
        for (int64_t i = n; i >= 0; i--) /* in another order */
            sum ^= parts[i];
        assert_int_equal(rt_crc32c_whole(sum, all), rt_crc32c(0, data, (size_t)all));
    }
    /* Zeros behind a part, more than anybody can store: as if they were read, by halves. */
    const uint32_t one = rt_crc32c_part("x", 1, (int64_t)1 << 40);
    assert_true(one != rt_crc32c_part("x", 1, ((int64_t)1 << 40) + 1));
    char *zeros = calloc(1, 1 << 20);
    zeros[0] = 'x';
    assert_int_equal(rt_crc32c_part(zeros, 1 << 20, 77),
                     rt_crc32c_part("x", 1, (1 << 20) - 1 + 77));
    free(zeros);
}

/* ---- examples -------------------------------------------------------------------------------- */

typedef struct example {
    mg_program p;
    mg_tensor t[TENSORS];
    char name[TENSORS][32];
    int ranks;
    int16_t host[RANKS];
    int64_t header;
} example;

/* Axes that no dim of the tensor is split on yet: some of them, of which it may be none. */
static uint32_t some_axes(example *e, uint32_t *left, uint64_t *seed)
{
    uint32_t axes = 0;
    for (int i = 0; i < e->p.naxes; i++)
        if (*left >> i & 1 && draw(seed, 2))
            axes |= 1u << i;
    *left &= ~axes;
    return axes;
}

static void size_dim(example *e, mg_tensor *t, int dim, int64_t most, uint64_t *seed)
{
    const int64_t ranks = rt_ranks_of(&e->p, t->axes[dim]);
    t->size[dim] = 1 + draw(seed, most);
    if (t->axes[dim] && dim >= t->stacked && draw(seed, 3) == 0) {
        t->size[dim] *= 2;
        for (int i = e->p.naxes - 1; i >= 0 && !t->zigzag[dim]; i--)
            t->zigzag[dim] = t->axes[dim] & 1u << i;
    }
    t->valid[dim] = t->size[dim] * ranks - (draw(seed, 3) == 0 ? draw(seed, t->size[dim]) : 0);
}

static void draw_tensor(example *e, int k, int64_t most, uint64_t *seed)
{
    static const mg_dtype types[] = {MG_F32, MG_F64, MG_BF16, MG_DYNAMIC8};
    mg_tensor *t = &e->t[k];
    uint32_t left = ~0u;
    *t = (mg_tensor){.name = e->name[k],
                     .slot = "m",
                     .where = "x.mg:1",
                     .role = MG_STATE,
                     .init = MG_INIT_CONST,
                     .at = MG_AT_ALL};
    t->dtype = types[draw(seed, 4)];
    t->stacked = (uint8_t)draw(seed, 2);
    t->rank = (uint8_t)(t->stacked + 1 + draw(seed, 3));
    snprintf(e->name[k], sizeof e->name[k], "w%d%s", k, t->stacked ? ".{}" : "");
    for (int i = 0; i < t->rank; i++) {
        t->axes[i] = some_axes(e, &left, seed);
        size_dim(e, t, i, most, seed);
    }
    const int places = t->rank - t->stacked;
    for (int i = 0; i < places; i++) {
        const int64_t with = draw(seed, i + 1);
        t->order[i] = t->order[with];
        t->order[with] = (uint8_t)(t->stacked + i);
    }
    for (int over = places; over; over -= t->merge[t->external_rank - 1])
        t->merge[t->external_rank++] = (uint8_t)(1 + draw(seed, over));
}

/* Two matrices that are parts of one of a file, perhaps with room between that nobody has. */
static void draw_parts(example *e, int k, uint64_t *seed)
{
    const int dim = (int)draw(seed, 2);
    int64_t at = draw(seed, 2);
    draw_tensor(e, k, 3, seed);
    for (int i = 0; i < 2; i++) {
        mg_tensor *t = &e->t[k + i];
        const mg_dtype type = e->t[k].dtype;
        uint32_t left = ~0u;
        *t = (mg_tensor){.name = e->name[k],
                         .slot = "m",
                         .where = "x.mg:1",
                         .role = MG_STATE,
                         .init = MG_INIT_CONST,
                         .at = MG_AT_ALL,
                         .dtype = type,
                         .rank = 2,
                         .external_rank = 2,
                         .merge = {1, 1},
                         .order = {0, 1}};
        snprintf(e->name[k], sizeof e->name[k], "w%d", k);
        for (int d = 0; d < 2; d++)
            t->axes[d] = some_axes(e, &left, seed);
        size_dim(e, t, dim, 3, seed);
        t->size[!dim] = 12;
        t->valid[!dim] = 5; /* the same of both, however they are split */
        t->part_dim = (uint8_t)dim;
        t->part_at = at;
        at += t->valid[dim] + draw(seed, 2);
    }
    e->t[k].part_of = e->t[k + 1].part_of = at + draw(seed, 2);
}

static void place_tensors(example *e)
{
    int64_t at = 0;
    for (int k = 0; k < e->p.ntensors; k++) {
        int64_t bytes = mg_dtype_bytes(e->t[k].dtype);
        for (int i = 0; i < e->t[k].rank; i++)
            bytes *= e->t[k].size[i];
        e->t[k].offset = at;
        at += (bytes + 63) / 64 * 64;
    }
    e->p.arena_bytes = at;
}

static void draw_example(example *e, int64_t most, uint64_t *seed)
{
    static const char *const names[] = {"a", "b", "c"};
    *e = (example){.ranks = 1};
    for (int i = (int)draw(seed, 4); i > 0; i--) {
        const int64_t n = 2 + draw(seed, 2);
        if (e->ranks * n > RANKS)
            break;
        e->p.axes[e->p.naxes] = (mg_axis){names[e->p.naxes], n};
        e->p.naxes++;
        e->ranks *= (int)n;
    }
    const int64_t machines = 1 + draw(seed, 4);
    int first[4] = {-1, -1, -1, -1};
    for (int k = 0; k < e->ranks; k++) {
        const int64_t m = draw(seed, 2) ? draw(seed, machines) : k * machines / e->ranks;
        first[m] = first[m] < 0 ? k : first[m];
        e->host[k] = (int16_t)first[m];
    }
    e->p.tensors = e->t;
    e->p.ntensors = 1 + (int)draw(seed, TENSORS - 2);
    for (int k = 0; k < e->p.ntensors; k++)
        draw_tensor(e, k, most, seed);
    if (draw(seed, 2)) {
        draw_parts(e, e->p.ntensors, seed);
        e->p.ntensors += 2;
    }
    place_tensors(e);
    e->header = draw(seed, 3) ? 8 * draw(seed, 9) : draw(seed, 999);
}

/* ---- what ranks do
 * -------------------------------------------------------------------------------- */

typedef struct files {
    const example *e;
    rt_parts *parts;
    int rank;
    int64_t stride, apart, size;
    char *arenas, *want, *piece;
    char *snapshot; /* of the rank's machine, and how often each byte was copied */
    uint8_t *copied, *written;
    uint32_t sum;
    int64_t pieces, stop;
} files;

static void copied(void *ctx, int64_t offset, int64_t bytes, int to)
{
    files *f = ctx;
    assert_true(bytes > 0 && to >= 0 && to < f->e->ranks);
    assert_int_equal(f->e->host[to], f->e->host[f->rank]);
    assert_true(offset >= 0 && offset + bytes <= f->apart);
    memcpy(f->snapshot + to * f->apart + offset, f->arenas + f->rank * f->stride + offset,
           (size_t)bytes);
    for (int64_t i = 0; i < bytes; i++)
        assert_int_equal(f->copied[to * f->apart + offset + i]++, 0);
}

static bool written(void *ctx, int64_t at, int64_t bytes)
{
    files *f = ctx;
    assert_true(bytes > 0 && bytes <= RT_PIECE);
    assert_true(at >= f->e->header && at + bytes <= f->size);
    rt_parts_get(f->parts, f->snapshot, at, bytes, f->piece);
    assert_memory_equal(f->piece, f->want + at, (size_t)bytes);
    f->sum ^= rt_crc32c_part(f->piece, (size_t)bytes, f->size - at - bytes);
    for (int64_t i = 0; i < bytes; i++)
        assert_int_equal(f->written[at + i]++, 0);
    return ++f->pieces != f->stop;
}

/* All tensors of the file get random numbers, in all arenas. */
static void fill(files *f, const rt_catalog *c, uint64_t *seed)
{
    int64_t at = f->e->header;
    for (int i = 0; i < c->n; i += c->item[i].parts) {
        const rt_external *x = &c->item[i];
        const int64_t size = mg_dtype_bytes(x->form->tensor->dtype), bytes = x->form->whole * size;
        char *stored[2];
        for (int k = 0; k < x->parts; k++)
            stored[k] = f->arenas + x[k].form->tensor->offset + x[k].offset * size;
        for (int64_t b = 0; b < bytes; b++)
            f->want[at + b] = (char)unit_random(seed);
        rt_whole_put(x, stored, 0, x->form->whole, f->want + at);
        rt_whole_get(x, stored, 0, x->form->whole, f->want + at); /* zeros where nobody has it */
        at += bytes;
    }
}

static void check(example *e, uint64_t *seed)
{
    rt_catalog c = rt_catalog_new(&e->p, MG_STATE);
    files f = {.e = e, .stride = rt_arena_stride(&e->p), .size = e->header + c.bytes, .stop = -1};
    f.apart = (e->p.arena_bytes + 4095) / 4096 * 4096;
    f.arenas = calloc((size_t)e->ranks, (size_t)f.stride);
    f.want = calloc((size_t)f.size + 1, 1);
    f.written = calloc((size_t)f.size + 1, 1);
    f.piece = malloc(RT_PIECE);
    fill(&f, &c, seed);
    memset(f.want, 'h', (size_t)e->header);
    f.sum = rt_crc32c_part(f.want, (size_t)e->header, c.bytes);
    for (int m = 0; m < e->ranks; m++) {
        if (e->host[m] != m)
            continue;
        const size_t all = (size_t)(e->ranks * f.apart);
        rt_parts *of[RANKS] = {NULL};
        f.snapshot = malloc(all);
        f.copied = calloc(all, 1);
        memset(f.snapshot, POISON, all);
        for (f.rank = m; f.rank < e->ranks; f.rank++) { /* all copy before one writes */
            const rt_places places = {&e->p, f.rank, e->ranks, e->host, f.apart, {0}};
            if (e->host[f.rank] != m)
                continue;
            of[f.rank] = rt_parts_new(&places, &c, e->header);
            assert_int_equal(rt_parts_file(of[f.rank]), f.size);
            rt_parts_copies(of[f.rank], copied, &f);
        }
        for (f.rank = m; f.rank < e->ranks; f.rank++) {
            f.parts = of[f.rank];
            if (f.parts)
                rt_parts_pieces(f.parts, written, &f);
            rt_parts_free(f.parts);
        }
        free(f.snapshot);
        free(f.copied);
    }
    for (int64_t i = e->header; i < f.size; i++)
        assert_int_equal(f.written[i], 1);
    assert_int_equal(rt_crc32c_whole(f.sum, f.size), rt_crc32c(0, f.want, (size_t)f.size));
    free(f.arenas);
    free(f.want);
    free(f.written);
    free(f.piece);
    rt_catalog_free(&c);
}

static void all_is_written_once(void **state)
{
    (void)state;
    uint64_t seed = 11;
    int several = 0, apart = 0;
    for (int i = 0; i < 800; i++) {
        example e;
        draw_example(&e, 4, &seed);
        several += e.ranks > 1;
        for (int k = 1; k < e.ranks; k++)
            if (e.host[k] == k) {
                apart++;
                break;
            }
        check(&e, &seed);
    }
    assert_true(several > 400 && apart > 250);
}

/* Files of several pieces, of which some begin where no block of a disk does. */
static void files_of_many_pieces(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 6; i++) {
        example e;
        do
            draw_example(&e, 90, &seed);
        while (e.p.arena_bytes * e.ranks < 3 * RT_PIECE || e.p.arena_bytes > 8 * RT_PIECE);
        check(&e, &seed);
    }
}

/* The ranks of a machine have about the same to write, and so have machines that have the same. */
static void shares_are_alike(void **state)
{
    (void)state;
    example e = {.ranks = 4, .host = {0, 0, 2, 2}, .header = 8};
    uint64_t seed = 1;
    e.p.axes[e.p.naxes++] = (mg_axis){"dp", 4};
    e.p.tensors = e.t;
    e.p.ntensors = TENSORS;
    for (int k = 0; k < TENSORS; k++) {
        snprintf(e.name[k], sizeof e.name[k], "w%d", k);
        e.t[k] = (mg_tensor){.name = e.name[k],
                             .slot = "m",
                             .where = "x.mg:1",
                             .role = MG_STATE,
                             .init = MG_INIT_CONST,
                             .at = MG_AT_ALL,
                             .dtype = MG_F32,
                             .rank = 1,
                             .external_rank = 1,
                             .merge = {1},
                             .size = {1 << 20},
                             .valid = {1 << 20}};
    }
    place_tensors(&e);
    check(&e, &seed);
    rt_catalog c = rt_catalog_new(&e.p, MG_STATE);
    files f = {.e = &e, .stride = rt_arena_stride(&e.p), .size = e.header + c.bytes, .stop = -1};
    f.apart = e.p.arena_bytes;
    f.arenas = calloc(4, (size_t)f.stride);
    f.snapshot = calloc(4, (size_t)f.apart);
    f.want = calloc((size_t)f.size, 1);
    f.piece = malloc(RT_PIECE);
    for (f.rank = 0; f.rank < 4; f.rank++) {
        const rt_places places = {&e.p, f.rank, 4, e.host, f.apart, {0}};
        f.parts = rt_parts_new(&places, &c, e.header);
        f.written = calloc((size_t)f.size, 1);
        f.copied = calloc(4, (size_t)f.apart);
        int64_t bytes = 0;
        rt_parts_copies(f.parts, copied, &f);
        for (int64_t i = 0; i < 4 * f.apart; i++)
            bytes += f.copied[i];
        assert_int_equal(bytes, c.bytes / 4);
        rt_parts_pieces(f.parts, written, &f);
        bytes = 0;
        for (int64_t i = 0; i < f.size; i++)
            bytes += f.written[i];
        assert_true(llabs(bytes - c.bytes / 4) <= RT_PIECE);
        free(f.written);
        free(f.copied);
        /* It ends when it is told to. */
        f.written = calloc((size_t)f.size, 1);
        f.pieces = 0;
        f.stop = 2;
        rt_parts_pieces(f.parts, written, &f);
        assert_int_equal(f.pieces, 2);
        f.stop = -1;
        free(f.written);
        rt_parts_free(f.parts);
    }
    free(f.arenas);
    free(f.snapshot);
    free(f.want);
    free(f.piece);
    rt_catalog_free(&c);
}

/* In-memory checkpoints: no rank's parts are sent to its own machine; all machines are sent those
 * of exactly one other, and share them out among their ranks. */
static void ring(void **state)
{
    enum { MOST = 12 };
    (void)state;
    for (int machines = 1; machines <= 4; machines++)
        for (int ranks = machines; ranks <= MOST; ranks++) {
            int16_t host[MOST];
            int from[MOST], got[MOST] = {0};
            for (int a = 0; a < ranks; a++) {
                host[a] = (int16_t)(a % machines); /* the first rank of machine m is m */
                from[a] = -1;
            }
            for (int a = 0; a < ranks; a++) {
                const int to = rt_keep_neighbour(host, ranks, a);
                assert_int_equal(to < 0, machines == 1);
                if (to < 0)
                    continue;
                assert_true(host[to] != host[a]);
                assert_true(from[host[to]] < 0 || from[host[to]] == host[a]);
                from[host[to]] = host[a];
                got[to]++;
            }
            for (int a = 0; a < ranks && machines > 1; a++) {
                assert_true(from[host[a]] >= 0);
                for (int b = 0; b < ranks; b++)
                    if (host[b] == host[a])
                        assert_true(got[a] - got[b] <= 1);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring), cmocka_unit_test(checksums), cmocka_unit_test(all_is_written_once),
        cmocka_unit_test(files_of_many_pieces), cmocka_unit_test(shares_are_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
