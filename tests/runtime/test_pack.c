/* Documents in windows: first-fit decreasing is that of the definition; in each epoch every piece
 * of every document is in one window, whole and in its order; what is held out is of whole
 * documents; and ten million documents take seconds. */
#include "unit.h"

#include <time.h>
#include <unistd.h>

#include "runtime/data/batch.h"
#include "runtime/data/pack.h"

/* ---- first fit --------------------------------------------------------------------------------
 */

static int64_t draw_falling(uint64_t *seed, int32_t *length, int64_t n, int32_t capacity)
{
    int64_t total = 0, *count = calloc((size_t)capacity + 1, sizeof *count), at = 0;
    for (int64_t k = 0; k < n; k++)
        count[1 + unit_random(seed) % (uint64_t)capacity %
                      (1 + unit_random(seed) % (uint64_t)capacity)]++;
    for (int32_t l = capacity; l > 0; l--)
        for (int64_t k = 0; k < count[l]; k++) {
            length[at++] = l;
            total += l;
        }
    free(count);
    return total;
}

/* The first window that has room, by looking at all. */
static void fits_as_defined(void **state)
{
    (void)state;
    static int32_t length[3000], room[3000];
    static uint32_t window[3000];
    uint64_t seed = 7;
    for (int trial = 0; trial < 400; trial++) {
        const int32_t capacity = (int32_t[]){2, 3, 9, 17, 129, 1025}[trial % 6];
        const int64_t n = 1 + (int64_t)(unit_random(&seed) % (trial % 40 ? 60 : 3000));
        const int64_t total = draw_falling(&seed, length, n, capacity);
        const int64_t windows = rt_pack_fit(length, n, total, capacity, window);
        int64_t used = 0;
        for (int64_t k = 0; k < n; k++) {
            int64_t at = 0;
            while (at < used && room[at] < length[k])
                at++;
            if (at == used)
                room[used++] = capacity;
            room[at] -= length[k];
            assert_int_equal(window[k], at);
        }
        assert_int_equal(windows, used);
    }
}

static void ten_million(void **state)
{
    (void)state;
    enum { N = 10000000, CAPACITY = 2049 };
    int32_t *length = malloc(N * sizeof *length);
    uint32_t *window = malloc(N * sizeof *window);
    uint64_t seed = 11;
    struct timespec a, b;
    const int64_t total = draw_falling(&seed, length, N, CAPACITY);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    const int64_t windows = rt_pack_fit(length, N, total, CAPACITY, window);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    const double seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    printf("%d documents of %.0f tokens: %.2f s, %lld windows, %.4f%% of them empty\n", N,
           (double)total / N, seconds, (long long)windows,
           100 * (1 - (double)total / ((double)windows * CAPACITY)));
    assert_true(seconds < 20); /* it is 2; a search that is not logarithmic takes hours */
    free(length);
    free(window);
}

/* ---- windows ----------------------------------------------------------------------------------
 */

enum { SEQ = 8, AHEAD = 3, WINDOW = SEQ + AHEAD, DOCUMENTS = 60, LONGEST = 40 };

static const mg_program program = {
    .compute = MG_F32,
    .step =
        {.tokens = 0, .weights = 256, .documents = 512, .batch = 1, .rows = 1, .window = WINDOW},
    .eval = {
        .tokens = 0, .weights = 256, .documents = 512, .batch = 1, .rows = 1, .window = WINDOW}};

/* Two files of documents; token t of document k of all is the number 100 k + t, and weighs k + 1.
 */
typedef struct Trial {
    mg_run r;
    _Alignas(64) char arena[1024];
    char *path[2];
    int length[DOCUMENTS];
} Trial;

static void put(FILE *f, const void *p, size_t n)
{
    assert_int_equal(fwrite(p, 1, n, f), n);
}

static FILE *open_beside(const char *path, const char *end)
{
    char *name = rt_printf("%s%s", path, end);
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    free(name);
    return f;
}

/* Documents [from, to), each of two sequences, of which the first may have nothing. */
static char *write_file(Trial *t, int from, int to)
{
    char *path = unit_file("", 0);
    FILE *bin = open_beside(path, ".bin"), *weights = open_beside(path, ".bin.weights"),
         *index = open_beside(path, ".idx");
    const uint64_t head[] = {1, 2 * (uint64_t)(to - from), (uint64_t)(to - from) + 1};
    put(index, "MMIDIDX\0", 9);
    put(index, &head[0], 8);
    fputc(4, index);
    put(index, &head[1], 16);
    for (int k = from; k < to; k++)
        for (int half = 0; half < 2; half++) {
            const int32_t n = half ? t->length[k] - t->length[k] / 3 : t->length[k] / 3;
            put(index, &n, 4);
        }
    int64_t at = 0;
    for (int k = from; k < to; k++)
        for (int half = 0; half < 2; half++) {
            put(index, &at, 8);
            at += 4 * (half ? t->length[k] - t->length[k] / 3 : t->length[k] / 3);
        }
    for (int64_t k = 0; k <= to - from; k++) {
        const int64_t bound = 2 * k;
        put(index, &bound, 8);
    }
    for (int k = from; k < to; k++)
        for (int32_t i = 0; i < t->length[k]; i++) {
            const int32_t token = 100 * k + i;
            put(bin, &token, 4);
            fputc(k + 1, weights);
        }
    assert_int_equal(fclose(bin) | fclose(weights) | fclose(index), 0);
    return path;
}

static void start(Trial *t, uint64_t seed, bool drops)
{
    const char *item[2];
    memset(t, 0, sizeof *t);
    for (int k = 0; k < DOCUMENTS; k++)
        t->length[k] = (int)(unit_random(&seed) % (unit_random(&seed) % 3 ? SEQ + 3 : LONGEST));
    t->length[0] = SEQ + 1;
    t->length[1] = SEQ + 2;
    t->length[2] = 2 * SEQ + 1;
    t->length[3] = LONGEST;
    for (int i = 0; i < 2; i++) {
        t->path[i] = write_file(t, i * DOCUMENTS / 3, i ? DOCUMENTS : DOCUMENTS / 3);
        item[i] = rt_printf("%s.bin", t->path[i]);
    }
    t->r.program = &program;
    t->r.arena = t->arena;
    t->r.state.seed = 5;
    t->r.data = rt_data_open_packed(&(rt_list){item, 2}, "data", SEQ, WINDOW, 1 << 20, drops);
    for (int i = 0; i < 2; i++)
        free((void *)item[i]);
}

static void stop(Trial *t)
{
    static const char *const end[] = {"", ".bin", ".idx", ".bin.weights"};
    for (int i = 0; i < RT_PROGRAMS; i++)
        rt_batch_free(t->r.batch[i]);
    rt_data_close(t->r.data);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4; k++) {
            char *name = rt_printf("%s%s", t->path[i], end[k]);
            unlink(name);
            free(name);
        }
        free(t->path[i]);
    }
}

/* Looks at a row: counts how often each token is the target of the one before it, and the positions
 * that have a token. */
static int64_t look(const Trial *t, int seen[DOCUMENTS][LONGEST])
{
    const int32_t *token = (const int32_t *)t->arena, *start = (const int32_t *)(t->arena + 512);
    const float *weight = (const float *)(t->arena + 256);
    int64_t positions = 0;
    assert_int_equal(start[0], 0);
    for (int i = 1; i < WINDOW; i++) {
        const bool goes_on = start[i] == start[i - 1];
        assert_true(goes_on || start[i] == i);
        if (start[i] == i && (i + 1 == WINDOW || start[i + 1] == i + 1)) { /* padding, or its end */
            assert_true(token[i] == 0 && weight[i - 1] == 0);
            continue;
        }
        if (weight[i - 1] == 0)
            fail_msg("token %d of a document weighs nothing", i);
        assert_true(weight[i - 1] == (float)(token[i] / 100 + 1));
        if (!goes_on)
            continue;
        assert_int_equal(token[i], token[i - 1] + 1);
        if (i <= SEQ) /* else it is read ahead of the window that has it as a target */
            seen[token[i] / 100][token[i] % 100]++;
    }
    for (int i = 0; i < SEQ; i++)
        positions += start[i] != i || (start[i + 1] == i);
    return positions;
}

static void every_piece_once(void **state)
{
    (void)state;
    for (int trial = 0; trial < 12; trial++) {
        static int seen[DOCUMENTS][LONGEST];
        const bool drops = trial % 4 == 3;
        Trial t;
        start(&t, 100 + (uint64_t)trial, drops);
        rt_data_weigh(t.r.data);
        rt_data_pack(t.r.data);
        const rt_packing *p = &t.r.data->packing;
        for (int64_t epoch = 0; epoch < 4; epoch++) { /* the last in order */
            int64_t positions = 0;
            memset(seen, 0, sizeof seen);
            for (int64_t w = 0; w < p->windows; w++) {
                const bool shuffled = epoch < 3;
                rt_batch_fill(&t.r, shuffled ? RT_STEP : RT_EVAL, t.r.data,
                              shuffled ? epoch * p->windows + w : w, 1);
                positions += look(&t, seen);
            }
            assert_int_equal(positions, p->positions);
            for (int k = 0; k < DOCUMENTS; k++)
                for (int i = 0; i < t.length[k]; i++)
                    assert_int_equal(seen[k][i], i > 0 && !(drops && t.length[k] > SEQ + 1));
        }
        stop(&t);
    }
}

/* The same sequences, wherever a run goes on; other epochs have other neighbours. */
static void goes_on(void **state)
{
    (void)state;
    Trial t, again;
    char row[sizeof t.arena];
    int same = 0, several = 0;
    start(&t, 3, false);
    start(&again, 3, false);
    rt_data_pack(t.r.data);
    rt_data_pack(again.r.data);
    const int64_t n = t.r.data->windows;
    for (int64_t w = 0; w < 2 * n; w++)
        rt_batch_fill(&again.r, RT_STEP, again.r.data, w, 1);
    for (int64_t w = 2 * n; w < 3 * n; w++) {
        rt_batch_fill(&t.r, RT_STEP, t.r.data, w, 1);
        rt_batch_fill(&again.r, RT_STEP, again.r.data, w, 1);
        assert_memory_equal(t.arena, again.arena, sizeof t.arena);
        memcpy(row, t.arena, sizeof t.arena);
        if (((const int32_t *)(t.arena + 512))[SEQ - 1] == 0) /* one document, or its padding */
            continue;
        several++;
        for (int64_t k = 0; k < n; k++) {
            rt_batch_fill(&t.r, RT_STEP, t.r.data, k, 1);
            same += memcmp(t.arena, row, sizeof t.arena) == 0;
        }
    }
    assert_true(several > n / 8 && same < several / 2);
    stop(&t);
    stop(&again);
}

/* Held out are the last documents, whole. */
static void holds_out_documents(void **state)
{
    (void)state;
    Trial t;
    start(&t, 9, false);
    const int64_t all = t.r.data->tokens;
    rt_data *v = rt_data_hold_out(t.r.data, 0.4);
    rt_data_in_order(v);
    rt_data_pack(t.r.data);
    rt_data_pack(v);
    int64_t held = 0;
    int k = DOCUMENTS;
    while (k > 0 && held < v->tokens)
        held += t.length[--k];
    assert_int_equal(held, v->tokens);
    assert_int_equal(v->tokens + t.r.data->tokens, all);
    assert_true(v->tokens <= all * 0.4 && v->tokens > all * 0.4 - LONGEST);
    int empty = 0;
    for (int i = k; i < DOCUMENTS; i++)
        empty += t.length[i] == 0;
    assert_true(v->packing.documents == DOCUMENTS - k ||
                v->packing.documents >= DOCUMENTS - k - empty);
    rt_data_close(v);
    stop(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_as_defined), cmocka_unit_test(ten_million),
        cmocka_unit_test(every_piece_once), cmocka_unit_test(goes_on),
        cmocka_unit_test(holds_out_documents)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
