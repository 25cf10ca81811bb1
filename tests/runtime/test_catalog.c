/* Stored against external tensors, on random layouts; initial values that no layout changes. */
#include "unit.h"

/* The offset of an external element straight from mg_tensor's definition. */
static int64_t stored_index(const mg_tensor *t, const int64_t *stacked, int64_t e)
{
    int64_t index[MG_RANK_MAX], at = 0;
    for (int i = 0; i < t->stacked; i++)
        index[i] = stacked[i];
    for (int i = t->rank - t->stacked - 1; i >= 0; i--) {
        int dim = t->order[i];
        index[dim] = e % t->valid[dim];
        e /= t->valid[dim];
    }
    for (int i = 0; i < t->rank; i++)
        at = at * t->size[i] + index[i];
    return at;
}

static void random_tensor(mg_tensor *t, char name[64], uint64_t *seed)
{
    *t = (mg_tensor){
        .name = name, .slot = "", .where = "x.mg:1", .role = MG_PARAM, .init = MG_INIT_CONST};
    t->dtype = unit_random(seed) % 2 ? MG_F32 : MG_F64;
    t->rank = (uint8_t)(unit_random(seed) % 6);
    t->stacked = (uint8_t)(t->rank ? unit_random(seed) % 3 % (t->rank + 1u) : 0);
    strcpy(name, "w");
    for (int i = 0; i < t->stacked; i++)
        strcat(name, ".{}");
    int places = t->rank - t->stacked;
    for (int i = 0; i < t->rank; i++) {
        t->valid[i] = 1 + (int64_t)(unit_random(seed) % 5);
        t->size[i] = t->valid[i] + (i >= t->stacked && unit_random(seed) % 3 == 0 ? 2 : 0);
    }
    for (int i = 0; i < places; i++) {
        int k = (int)(unit_random(seed) % (uint64_t)(i + 1));
        t->order[i] = t->order[k];
        t->order[k] = (uint8_t)(t->stacked + i);
    }
    for (int left = places; left; left -= t->merge[t->external_rank - 1])
        t->merge[t->external_rank++] = (uint8_t)(1 + unit_random(seed) % (uint64_t)left);
}

static double element(const void *p, mg_dtype t, int64_t i)
{
    return t == MG_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

/* Every external tensor reads the right elements, and writes those and no others. */
static void check_tensor(const mg_tensor *t, const rt_catalog *c)
{
    int64_t count = 1, stored = 1, externals = 1;
    for (int i = 0; i < t->rank; i++) {
        stored *= t->size[i];
        (*(i < t->stacked ? &externals : &count)) *= t->valid[i];
    }
    assert_int_equal(c->n, externals);
    int64_t bytes = mg_dtype_bytes(t->dtype);
    char *arena = calloc((size_t)stored, (size_t)bytes),
         *back = calloc((size_t)stored, (size_t)bytes);
    char *out = malloc((size_t)(count * bytes));
    for (int64_t i = 0; i < stored; i++)
        if (t->dtype == MG_F64)
            ((double *)arena)[i] = (double)i + 1;
        else
            ((float *)arena)[i] = (float)(i + 1);
    for (int k = 0; k < c->n; k++) {
        const rt_external *x = &c->item[k];
        int64_t stacked[2] = {0}, product = 1;
        if (t->stacked == 1)
            assert_int_equal(sscanf(x->name, "w.%ld", &stacked[0]), 1);
        if (t->stacked == 2)
            assert_int_equal(sscanf(x->name, "w.%ld.%ld", &stacked[0], &stacked[1]), 2);
        assert_int_equal(x->form->elements, count);
        for (int i = 0; i < x->form->rank; i++)
            product *= x->form->shape[i];
        assert_int_equal(product, count);
        int64_t half = count / 2, first = x->offset * bytes;
        rt_external_get(x, arena + first, 0, half, out);
        rt_external_get(x, arena + first, half, count - half, out + half * bytes);
        for (int64_t e = 0; e < count; e++)
            assert_true(element(out, t->dtype, e) == (double)(stored_index(t, stacked, e) + 1));
        rt_external_put(x, back + first, half, count - half, out + half * bytes);
        rt_external_put(x, back + first, 0, half, out);
    }
    int64_t written = 0;
    for (int64_t i = 0; i < stored; i++) {
        double v = element(back, t->dtype, i);
        assert_true(v == 0 || v == (double)(i + 1));
        written += v != 0;
    }
    assert_int_equal(written, count * externals);
    free(arena);
    free(back);
    free(out);
}

static void layouts(void **state)
{
    (void)state;
    uint64_t seed = 9;
    for (int iteration = 0; iteration < 3000; iteration++) {
        char name[64];
        mg_tensor t;
        random_tensor(&t, name, &seed);
        mg_program p = {.tensors = &t, .ntensors = 1};
        rt_catalog c = rt_catalog_new(&p, MG_PARAM), none = rt_catalog_new(&p, MG_STATE);
        assert_int_equal(none.n, 0);
        check_tensor(&t, &c);
        rt_catalog_free(&c);
        rt_catalog_free(&none);
    }
}

/* A tensor of a file cut into parts along one dim, each stored in an order and padding of its own:
 * all read together are the tensor, and what is written comes back. */
static void parts_of_a_tensor(void **state)
{
    (void)state;
    enum { MOST = 4, SPACE = 1 << 12 };
    static float arena[MOST][SPACE], back[MOST][SPACE], all[SPACE], out[SPACE];
    uint64_t seed = 4;
    for (int iteration = 0; iteration < 2000; iteration++) {
        mg_tensor t[MOST];
        int64_t shape[3], of = 0;
        const int n = 1 + (int)(unit_random(&seed) % MOST), dim = (int)(unit_random(&seed) % 3);
        const bool gap = unit_random(&seed) % 4 == 0; /* as of state that a part lacks */
        for (int i = 0; i < 3; i++)
            shape[i] = 1 + (int64_t)(unit_random(&seed) % 5);
        for (int k = 0; k < n; k++) {
            const bool turned = unit_random(&seed) % 2;
            t[k] = (mg_tensor){.name = "w",
                               .slot = "",
                               .where = "x.mg:1",
                               .dtype = MG_F32,
                               .role = MG_PARAM,
                               .init = MG_INIT_CONST,
                               .rank = 3,
                               .external_rank = 3,
                               .merge = {1, 1, 1},
                               .part_dim = (uint8_t)dim,
                               .part_at = of};
            for (int i = 0; i < 3; i++) {
                const int at = turned ? 2 - i : i;
                t[k].order[i] = (uint8_t)at;
                t[k].valid[at] = i == dim ? 1 + (int64_t)(unit_random(&seed) % 4) : shape[i];
                t[k].size[at] = t[k].valid[at] + (int64_t)(unit_random(&seed) % 2);
            }
            of += t[k].valid[t[k].order[dim]] + (gap && k == 0);
        }
        shape[dim] = of;
        const int64_t count = shape[0] * shape[1] * shape[2], half = count / 3;
        for (int k = 0; k < n; k++)
            t[k].part_of = of;
        for (int64_t e = 0; e < count; e++)
            all[e] = (float)(e + 1);
        mg_program p = {.tensors = t, .ntensors = n};
        rt_catalog c = rt_catalog_new(&p, MG_PARAM);
        assert_int_equal(c.n, n);
        assert_int_equal(c.item[0].parts, n);
        assert_memory_equal(c.item[0].form->shape, shape, sizeof shape);
        assert_int_equal(c.bytes, count * 4);
        char *stored[MOST], *again[MOST];
        for (int k = 0; k < n; k++) {
            assert_int_equal(c.item[k].part, k);
            assert_ptr_equal(c.item[k].form->tensor, &t[k]);
            stored[k] = memset(arena[k], 0, sizeof arena[k]);
            again[k] = memset(back[k], 0, sizeof back[k]);
        }
        rt_whole_put(c.item, stored, half, count - half, all + half);
        rt_whole_put(c.item, stored, 0, half, all);
        for (int k = 0; k < n; k++) /* each element straight from the definition */
            for (int64_t e = 0; e < c.item[k].form->elements; e++) {
                int64_t rest = e, index[3], at = 0;
                for (int i = 2; i >= 0; i--) {
                    const int64_t size = t[k].valid[t[k].order[i]];
                    index[i] = rest % size + (i == dim ? t[k].part_at : 0);
                    rest /= size;
                }
                for (int i = 0; i < 3; i++)
                    at = at * shape[i] + index[i];
                assert_int_equal(rt_whole_index(c.item[k].form, e), at);
                assert_true(arena[k][stored_index(&t[k], NULL, e)] == (float)(at + 1));
            }
        rt_whole_get(c.item, stored, 0, half, out);
        rt_whole_get(c.item, stored, half, count - half, out + half);
        int64_t zeros = 0;
        for (int64_t e = 0; e < count; e++) {
            assert_true(out[e] == all[e] || (gap && out[e] == 0));
            zeros += out[e] == 0;
        }
        assert_int_equal(zeros, gap ? count / of : 0);
        rt_whole_put(c.item, again, 0, count, out);
        assert_memory_equal(arena, back, (size_t)n * sizeof arena[0]);
        rt_catalog_free(&c);
    }
}

static void shapes_and_names(void **state)
{
    (void)state;
    const mg_tensor t[] = {
        {.name = "l.{}.q",
         .slot = "",
         .where = "",
         .dtype = MG_F32,
         .role = MG_PARAM,
         .rank = 4,
         .stacked = 1,
         .external_rank = 2,
         .size = {12, 6, 2, 4},
         .valid = {12, 5, 2, 4},
         .order = {2, 3, 1},
         .merge = {2, 1}},
        {.name = "a",
         .slot = "exp_avg",
         .where = "",
         .dtype = MG_F32,
         .role = MG_STATE,
         .rank = 0,
         .external_rank = 0},
        {.name = "l.{3+2i}.{}.k",
         .slot = "",
         .where = "",
         .dtype = MG_F32,
         .role = MG_PARAM,
         .rank = 2,
         .stacked = 2,
         .external_rank = 0,
         .size = {4, 2},
         .valid = {4, 2}},
    };
    mg_program p = {.tensors = t, .ntensors = 2}, kinds = {.tensors = t + 2, .ntensors = 1};
    rt_catalog c = rt_catalog_new(&p, MG_PARAM), s = rt_catalog_new(&p, MG_STATE);
    assert_int_equal(c.n, 12);
    assert_string_equal(c.item[0].name, "l.0.q");
    assert_string_equal(c.item[2].name, "l.10.q"); /* by name, not by number */
    assert_int_equal(c.item[2].offset, 10 * 6 * 2 * 4);
    assert_int_equal(c.item[0].form->rank, 2);
    assert_int_equal(c.item[0].form->shape[0], 8);
    assert_int_equal(c.item[0].form->shape[1], 5);
    assert_int_equal(c.bytes, 12 * 40 * 4);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.item[0].name, "exp_avg.a");
    assert_int_equal(s.item[0].form->rank, 0);
    assert_int_equal(s.item[0].form->elements, 1);
    rt_catalog_free(&c);
    rt_catalog_free(&s);
    c = rt_catalog_new(&kinds, MG_PARAM);
    assert_int_equal(c.n, 8);
    assert_string_equal(c.item[0].name, "l.3.0.k");
    assert_string_equal(c.item[7].name, "l.9.1.k");
    assert_int_equal(c.item[7].offset, 3 * 2 + 1);
    rt_catalog_free(&c);
}

/* ---- initial values ----------------------------------------------------------------------- */

enum { LAYERS = 2, ROWS = 130, COLUMNS = 70 };

/* The external values of w.0 and w.1, initialised under the layout of `t` on `threads` threads. */
static void initialise(const mg_tensor *t, int threads, int64_t seed, float *out)
{
    mg_program p = {
        .tensors = t, .ntensors = 1, .arena_bytes = 4 << 20, .persistent_bytes = 4 << 20};
    mg_run r = {.program = &p, .threads = threads, .state.seed = seed};
    r.params = rt_catalog_new(&p, MG_PARAM);
    r.pool = rt_pool_new(threads, false);
    rt_arena_map(&r);
    rt_init(&r);
    assert_int_equal(r.params.n, LAYERS);
    for (int i = 0; i < LAYERS; i++)
        rt_external_get(&r.params.item[i], rt_stored_open(&r, &r.params.item[i], true), 0,
                        ROWS * COLUMNS, out + (int64_t)i * ROWS * COLUMNS);
    rt_pool_free(r.pool);
    rt_catalog_free(&r.params);
}

static void same_under_every_layout(void **state)
{
    (void)state;
    enum { ALL = LAYERS * ROWS * COLUMNS };
    static float a[ALL], b[ALL], c[ALL];
    mg_tensor straight = {.name = "w.{}",
                          .slot = "",
                          .where = "",
                          .dtype = MG_F32,
                          .role = MG_PARAM,
                          .rank = 3,
                          .stacked = 1,
                          .external_rank = 2,
                          .size = {LAYERS, ROWS, COLUMNS},
                          .valid = {LAYERS, ROWS, COLUMNS},
                          .order = {1, 2},
                          .merge = {1, 1},
                          .init = MG_INIT_NORMAL,
                          .a = 1,
                          .b = 0.5};
    mg_tensor turned = straight;
    turned.size[1] = COLUMNS + 10;
    turned.valid[1] = COLUMNS;
    turned.size[2] = turned.valid[2] = ROWS;
    turned.order[0] = 2;
    turned.order[1] = 1;
    initialise(&straight, 1, 3, a);
    initialise(&turned, 3, 3, b);
    initialise(&straight, 2, 4, c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    assert_memory_not_equal(a, a + ROWS * COLUMNS, sizeof a / 2);
    double sum = 0, square = 0;
    for (int i = 0; i < ALL; i++) {
        sum += (double)a[i];
        square += ((double)a[i] - 1) * ((double)a[i] - 1);
    }
    assert_true(fabs(sum / ALL - 1) < 4 * 0.5 / sqrt(ALL));
    assert_true(fabs(sqrt(square / ALL) - 0.5) < 4 * 0.5 / sqrt(2.0 * ALL));
}

/* The definition, word for word, for some elements. */
static void values_follow_the_definition(void **state)
{
    (void)state;
    enum { ALL = LAYERS * ROWS * COLUMNS };
    static float n[ALL], u[ALL];
    mg_tensor t = {.name = "w.{}",
                   .slot = "",
                   .where = "",
                   .dtype = MG_F32,
                   .role = MG_PARAM,
                   .rank = 3,
                   .stacked = 1,
                   .external_rank = 2,
                   .size = {LAYERS, ROWS, COLUMNS},
                   .valid = {LAYERS, ROWS, COLUMNS},
                   .order = {1, 2},
                   .merge = {1, 1},
                   .init = MG_INIT_NORMAL,
                   .a = -1,
                   .b = 2};
    initialise(&t, 1, 77, n);
    t.init = MG_INIT_UNIFORM;
    initialise(&t, 1, 77, u);
    uint64_t key = mg_key("w.1") ^ 77;
    for (uint32_t e = 0; e < ROWS * COLUMNS; e += 97) {
        uint32_t counter[4] = {e, 0, 0, 0}, k[2] = {(uint32_t)key, (uint32_t)(key >> 32)}, w[4];
        mg_philox(counter, k, w);
        double u0 = (w[0] + 1.0) / 4294967296, u1 = w[1] / 4294967296.0;
        assert_true(n[ROWS * COLUMNS + e] ==
                    (float)(-1 + 2 * sqrt(-2 * log(u0)) * cos(2 * M_PI * u1)));
        assert_true(u[ROWS * COLUMNS + e] == (float)(-1 + 3 * (w[0] / 4294967296.0)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),
        cmocka_unit_test(parts_of_a_tensor),
        cmocka_unit_test(shapes_and_names),
        cmocka_unit_test(same_under_every_layout),
        cmocka_unit_test(values_follow_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
