/* Tensors of stages: external tensors against a plain enumeration of what each rank has, on random
 * meshes, with stages of different sizes, and tensors that some of the ranks do not have. */
#include "unit.h"

#include "runtime/net/ranks.h"
#include "runtime/sizes.h"

enum { STAGES_MAX = 16, RANKS_MAX = 16, LAYERS_MAX = 4, DIMS = 4 };

typedef struct example {
    mg_program p;
    mg_tensor t;
    int32_t layers[STAGES_MAX];
    int ranks, pp;
} example;

static int64_t draw(uint64_t *seed, int64_t n)
{
    return (int64_t)(unit_random(seed) % (uint64_t)n);
}

static void draw_stages(example *e, uint64_t *seed)
{
    mg_stages *s = &e->p.stages;
    s->chunks = 1 + (int)draw(seed, 3);
    s->layers = e->layers;
    for (int i = 0; i < s->chunks * e->pp; i++) {
        e->layers[i] = (int32_t)draw(seed, LAYERS_MAX);
        s->max_layers = e->layers[i] > s->max_layers ? e->layers[i] : s->max_layers;
    }
    if (!s->max_layers) /* somebody has something */
        s->max_layers = e->layers[0] = 1;
    s->max_layers += (int)draw(seed, 2);
}

/* [layers@pp, experts@ep, x, y@tp], the axes of the mesh in any order; or without layers, at some
 * of the ranks. */
static void draw_example(example *e, uint64_t *seed)
{
    static const char *const names[] = {"pp", "ep", "tp"};
    const int64_t sizes[] = {2 + draw(seed, 3), 1 + draw(seed, 2), 1 + draw(seed, 2)};
    int at[] = {0, 1, 2}, order = (int)draw(seed, 6);
    *e = (example){.pp = (int)sizes[0]};
    if (order & 1)
        at[0] = 1, at[1] = 0;
    for (int i = 0; i < order / 2; i++) {
        int first = at[0];
        at[0] = at[1], at[1] = at[2], at[2] = first;
    }
    for (int i = 0; i < 3; i++)
        e->p.axes[at[i]] = (mg_axis){names[i], sizes[i]};
    e->p.naxes = 3;
    e->ranks = (int)(sizes[0] * sizes[1] * sizes[2]);
    e->p.stages.axis = 1u << at[0];
    draw_stages(e, seed);
    bool staged = draw(seed, 3) > 0;
    e->t = (mg_tensor){.name = staged ? "w.{}.{}" : "w",
                       .slot = "",
                       .where = "x.mg:1",
                       .dtype = draw(seed, 2) ? MG_F32 : MG_F64,
                       .role = MG_PARAM,
                       .offset = 64 * draw(seed, 3),
                       .stacked = staged ? 2 : 0,
                       .at = staged ? MG_AT_ALL : (uint8_t)(1 + draw(seed, MG_AT_ALL))};
    mg_tensor *t = &e->t;
    if (e->pp == 2 && t->at == MG_AT_MIDDLE)
        t->at = MG_AT_LAST;
    if (staged) {
        t->size[0] = (int64_t)e->p.stages.chunks * e->p.stages.max_layers;
        for (int i = 0; i < e->p.stages.chunks * e->pp; i++)
            t->valid[0] += e->layers[i];
        t->axes[0] = e->p.stages.axis;
        t->size[1] = 1 + draw(seed, 2);
        t->valid[1] = t->size[1] * sizes[1];
        t->axes[1] = 1u << at[1];
    }
    t->rank = t->stacked;
    for (int k = (int)draw(seed, 3); k > 0; k--) {
        int i = t->rank++;
        t->size[i] = 1 + draw(seed, 4);
        t->axes[i] = k == 1 && draw(seed, 2) ? 1u << at[2] : 0;
        t->valid[i] = t->size[i] * (t->axes[i] ? sizes[2] : 1) - draw(seed, t->size[i]);
        t->order[i - t->stacked] = (uint8_t)i;
        t->merge[t->external_rank++] = 1;
    }
    e->p.tensors = t;
    e->p.ntensors = 1;
    e->p.arena_bytes = e->p.persistent_bytes = 1 << 16;
}

/* ---- the plain enumeration ------------------------------------------------------------------- */

/* The layer at index k of the ranks at a place, by counting; -1: there is only room. */
static int64_t layer_there(const example *e, int place, int64_t k)
{
    const mg_stages *s = &e->p.stages;
    for (int stage = 0, layer = 0; stage < s->chunks * e->pp; stage++)
        for (int i = 0; i < e->layers[stage]; i++, layer++)
            if (stage % e->pp == place && stage / e->pp * s->max_layers + i == k)
                return layer;
    return -1;
}

/* The index in the whole tensor of stored element `at` of a rank. False: it is no element. */
static bool index_of(const example *e, int rank, int64_t at, int64_t index[DIMS])
{
    const mg_tensor *t = &e->t;
    int place = rt_place_of(&e->p, rank, e->p.stages.axis);
    bool is_there = place == 0           ? t->at & MG_AT_FIRST
                    : place == e->pp - 1 ? t->at & MG_AT_LAST
                                         : t->at & MG_AT_MIDDLE;
    for (int i = t->rank - 1; i >= 0; i--) {
        int64_t own = at % t->size[i];
        at /= t->size[i];
        if (t->stacked && i == 0)
            index[i] = layer_there(e, place, own);
        else
            index[i] = rt_place_of(&e->p, rank, t->axes[i]) * t->size[i] + own;
        is_there = is_there && index[i] >= 0 && index[i] < t->valid[i];
    }
    return is_there;
}

/* A number for each element of the whole tensor, from 1. */
static double number(const example *e, const int64_t *index)
{
    int64_t n = 0;
    for (int i = 0; i < e->t.rank; i++)
        n = n * e->t.valid[i] + index[i];
    return (double)(n + 1);
}

/* ---- against it ------------------------------------------------------------------------------ */

static double get(const example *e, const char *at, int64_t i)
{
    return e->t.dtype == MG_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

static void put(const example *e, char *at, int64_t i, double x)
{
    if (e->t.dtype == MG_F64)
        ((double *)at)[i] = x;
    else
        ((float *)at)[i] = (float)x;
}

enum {
    OTHER = -7
}; /* what a rank has where it does not have the tensor, and in what room is left */

static void fill(const example *e, char *arenas, int64_t elements, bool with_values)
{
    int64_t index[DIMS];
    for (int k = 0; k < e->ranks; k++) {
        char *at = arenas + k * rt_arena_stride(&e->p) + e->t.offset;
        for (int64_t i = 0; i < elements; i++)
            put(e, at, i, with_values && index_of(e, k, i, index) ? number(e, index) : OTHER);
    }
}

/* Of each external tensor, element by element in its own order. */
static void read_all(const example *e, const rt_catalog *c, const char *arenas, double *out)
{
    for (int i = 0; i < c->n; i++) {
        const rt_external *x = &c->item[i];
        double values[1 << 10];
        const char *stored = arenas + e->t.offset + x->offset * mg_dtype_bytes(e->t.dtype);
        int64_t half = x->form->elements / 2, first = 0, layer = 0, expert = 0;
        if (e->t.stacked)
            assert_int_equal(sscanf(x->name, "w.%ld.%ld", &layer, &expert), 2);
        if (e->t.stacked)
            first = layer * e->t.valid[1] + expert;
        first *= x->form->elements;
        rt_external_get(x, stored, 0, half, values);
        rt_external_get(x, stored, half, x->form->elements - half,
                        (char *)values + half * mg_dtype_bytes(e->t.dtype));
        for (int64_t k = 0; k < x->form->elements; k++)
            out[first + k] = get(e, (char *)values, k);
    }
}

static void write_all(const example *e, const rt_catalog *c, char *arenas, const double *in)
{
    for (int i = 0; i < c->n; i++) {
        const rt_external *x = &c->item[i];
        double values[1 << 10];
        int64_t first = 0, layer = 0, expert = 0;
        if (e->t.stacked)
            assert_int_equal(sscanf(x->name, "w.%ld.%ld", &layer, &expert), 2);
        if (e->t.stacked)
            first = layer * e->t.valid[1] + expert;
        first *= x->form->elements;
        for (int64_t k = 0; k < x->form->elements; k++)
            put(e, (char *)values, k, in[first + k]);
        rt_external_put(x, arenas + e->t.offset + x->offset * mg_dtype_bytes(e->t.dtype), 0,
                        x->form->elements, values);
    }
}

static void check(const example *e)
{
    static double all[1 << 12];
    int64_t elements = 1, whole = 1, index[DIMS];
    for (int i = 0; i < e->t.rank; i++) {
        elements *= e->t.size[i];
        whole *= e->t.valid[i];
    }
    char *arenas = calloc((size_t)e->ranks, (size_t)rt_arena_stride(&e->p));
    rt_catalog c = rt_catalog_new(&e->p, MG_PARAM);
    fill(e, arenas, elements, true);
    read_all(e, &c, arenas, all);
    for (int64_t i = 0; i < whole; i++)
        assert_true(all[i] == (double)(i + 1));
    fill(e, arenas, elements, false);
    write_all(e, &c, arenas, all);
    for (int k = 0; k < e->ranks; k++)
        for (int64_t i = 0; i < elements; i++)
            assert_true(get(e, arenas + k * rt_arena_stride(&e->p) + e->t.offset, i) ==
                        (index_of(e, k, i, index) ? number(e, index) : OTHER));
    rt_catalog_free(&c);
    free(arenas);
}

static void shares(void **state)
{
    (void)state;
    uint64_t seed = 21;
    for (int iteration = 0; iteration < 1500; iteration++) {
        example e;
        draw_example(&e, &seed);
        check(&e);
    }
}

/* Initial values are those of one rank, whatever the stages are, and what room is left stays 0. */
static void initial_values(void **state)
{
    enum { LAYERS = 5, ELEMENTS = 6 };
    static const int32_t two[] = {3, 2}, four[] = {2, 0, 1, 2};
    const mg_stages stages[] = {{0}, {1, 1, 3, two}, {1, 2, 2, four}};
    float drawn[3][LAYERS * ELEMENTS];
    (void)state;
    for (int i = 0; i < 3; i++) {
        const int ranks = stages[i].axis ? 2 : 1;
        const int64_t room = stages[i].axis ? stages[i].chunks * stages[i].max_layers : LAYERS;
        const mg_tensor t = {.name = "w.{}",
                             .slot = "",
                             .where = "",
                             .dtype = MG_F32,
                             .role = MG_PARAM,
                             .rank = 2,
                             .stacked = 1,
                             .external_rank = 1,
                             .size = {room, ELEMENTS},
                             .valid = {LAYERS, ELEMENTS},
                             .order = {1},
                             .merge = {1},
                             .init = MG_INIT_NORMAL,
                             .b = 1,
                             .axes = {stages[i].axis},
                             .at = MG_AT_ALL};
        mg_program p = {.tensors = &t,
                        .ntensors = 1,
                        .arena_bytes = 1 << 12,
                        .persistent_bytes = 1 << 12,
                        .stages = stages[i],
                        .naxes = ranks > 1,
                        .axes = {{"pp", 2}}};
        mg_run r = {.program = &p, .state.seed = 5};
        r.params = rt_catalog_new(&p, MG_PARAM);
        r.pool = rt_pool_new(1, false);
        r.arena = calloc(2, (size_t)rt_arena_stride(&p));
        rt_init(&r);
        for (int k = 0; k < LAYERS; k++) {
            const rt_external *x = &r.params.item[k];
            rt_external_get(x, rt_stored_open(&r, x, true), 0, ELEMENTS, &drawn[i][k * ELEMENTS]);
        }
        int64_t written = 0;
        for (int64_t k = 0; k < ranks * rt_arena_stride(&p) / 4; k++)
            written += ((const float *)r.arena)[k] != 0;
        assert_int_equal(written, LAYERS * ELEMENTS);
        assert_memory_equal(drawn[i], drawn[0], sizeof drawn[0]);
        free(r.arena);
        rt_pool_free(r.pool);
        rt_catalog_free(&r.params);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares),
        cmocka_unit_test(initial_values),
    };
    return cmocka_run_group_tests_name("stages", tests, NULL, NULL);
}
