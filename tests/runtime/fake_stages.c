/* fake_stages.c - a program with a pipeline as the compiler might emit it, small enough to check by
 * hand: layers that scale, SGD with momentum. Compiled with RANKS and CHUNKS, also with one rank,
 * whose numbers the others are to have to the bit.
 *
 *   x = sum of table[token];  x = x * w[layer] for each layer;  loss = (mean of x * head - 1)^2 / 2
 *
 * A microbatch is a sequence. The table is the first rank's, and the head the last one's, at the
 * same place of the arena; stages have different numbers of layers. */
#include <math.h>
#include <stddef.h>

#include "stage_table.h"

#ifndef RANKS
#define RANKS 1
#endif
#ifndef CHUNKS
#define CHUNKS 1
#endif

enum { VOCAB = 256, D = 12, LAYERS = 5, SEQ = 16, BATCH = 8, STAGES = RANKS * CHUNKS, BUFFERS = 8 };
#define LIMIT (STAGES == 1 ? LAYERS : STAGES == 2 ? 3 : 2)
#define ROOM  (CHUNKS * LIMIT)

static const int32_t layers[STAGES] = {
#if RANKS * CHUNKS == 1
    5
#elif RANKS * CHUNKS == 2
    3, 2
#else
    2, 0, 2, 1
#endif
};

typedef struct ends {
    float table[VOCAB][D], table_m[VOCAB][D];
} ends;
typedef struct end {
    float head[D], head_m[D];
} end;

typedef struct memory { /* the arena */
    float w[ROOM][D], w_m[ROOM][D];
#if RANKS > 1
    union {
        ends first;
        end last;
    };
#else
    ends first;
    end last;
#endif
    float table_g[VOCAB][D], head_g[D], w_g[ROOM][D];
    float act[ROOM + CHUNKS][BATCH][D]; /* what goes into each layer, and out of each chunk */
    float send[2][BUFFERS][D], receive[2][BUFFERS][D];
    int32_t tokens[BATCH][SEQ + 1];
    double lr, loss, norm, last_loss;
} memory;

#define AT(field) (int64_t)offsetof(memory, field)
#if RANKS > 1
#define AXES  {1}
#define FIRST MG_AT_FIRST
#define LAST  MG_AT_LAST
#else
#define AXES  {0}
#define FIRST MG_AT_ALL
#define LAST  MG_AT_ALL
#endif

/* A parameter and its momentum. */
#define TENSOR(NAME, SLOT, ROLE, FIELD, INIT, ...)                                                 \
    {.name = NAME,                                                                                 \
     .slot = SLOT,                                                                                 \
     .where = "fake.mg:3",                                                                         \
     .dtype = MG_F32,                                                                              \
     .role = ROLE,                                                                                 \
     .offset = AT(FIELD),                                                                          \
     .init = INIT,                                                                                 \
     .a = 0.9,                                                                                     \
     .b = 1.1,                                                                                     \
     __VA_ARGS__}
#define TABLE                                                                                      \
    .rank = 2, .external_rank = 2, .size = {VOCAB, D}, .valid = {VOCAB, D}, .order = {0, 1},       \
    .merge = {1, 1}, .at = FIRST
#define HEAD                                                                                       \
    .rank = 1, .external_rank = 1, .size = {D}, .valid = {D}, .order = {0}, .merge = {1}, .at = LAST
#define W                                                                                          \
    .rank = 2, .stacked = 1, .external_rank = 1, .size = {ROOM, D}, .valid = {LAYERS, D},          \
    .order = {1}, .merge = {1}, .axes = AXES, .at = MG_AT_ALL

static const mg_tensor tensors[] = {
    TENSOR("table", "", MG_PARAM, first.table, MG_INIT_UNIFORM, TABLE),
    TENSOR("head", "", MG_PARAM, last.head, MG_INIT_UNIFORM, HEAD),
    TENSOR("layers.{}.w", "", MG_PARAM, w, MG_INIT_UNIFORM, W),
    TENSOR("table", "momentum", MG_STATE, first.table_m, MG_INIT_CONST, TABLE),
    TENSOR("head", "momentum", MG_STATE, last.head_m, MG_INIT_CONST, HEAD),
    TENSOR("layers.{}.w", "momentum", MG_STATE, w_m, MG_INIT_CONST, W),
};

static const mg_action actions[] = {
    {.name = "layers.send", .kind = "send", .where = "fake.mg:5"},
    {.name = "layers.receive", .kind = "receive", .where = "fake.mg:5"},
    {.name = "layers.send_back", .kind = "send", .where = "fake.mg:5"},
    {.name = "layers.receive_back", .kind = "receive", .where = "fake.mg:5"},
    {.name = "loss", .kind = "broadcast", .where = "fake.mg:6"},
    {.name = "guard", .kind = "guard", .where = "fake.mg:7"},
};

const mg_program mg_main = {
    .abi = MG_ABI,
    .name = "fake",
    .source = "fake.mg",
    .compiler = "mgc 0.1.0",
    .layout = "default",
    .fingerprint = 0x123,
    .cpu_features = "",
    .compute = MG_F32,
    .arena_bytes = sizeof(memory),
    .persistent_bytes = AT(table_g),
    .batch = BATCH,
    .seq = SEQ,
    .vocab = VOCAB,
    .tensors = tensors,
    .ntensors = 6,
    .actions = actions,
    .nactions = 6,
    .lr = {MG_LR_CONSTANT, 1e-4, 0, 0, 60, 0, MG_SHAPE_LINEAR, false},
    .optimizer = "sgd",
    .step = {true, AT(tokens), -1, -1, BATCH,    SEQ + 1,  AT(lr), -1,  -1,  -1,           -1,
             -1,   -1,         -1, -1, AT(loss), AT(norm), -1,     0.5, 1e6, .rows = BATCH},
    .config = "sgd",
#if RANKS > 1
    .naxes = 1,
    .axes = {{"pp", RANKS}},
    .stages = {1, CHUNKS, LIMIT, layers},
#endif
};

/* ---- a stage and a microbatch ---------------------------------------------------------------- */

static void forward(memory *m, int stage, int mb, const float *in, float *out)
{
    const int chunk = stage / RANKS, at = chunk * LIMIT;
    float *x = m->act[at + chunk][mb];
    for (int d = 0; d < D; d++)
        x[d] = in ? in[d] : 0;
    for (int i = 0; i < SEQ && stage == 0; i++)
        for (int d = 0; d < D; d++)
            x[d] += m->first.table[m->tokens[mb][i]][d] / SEQ;
    for (int l = 0; l < layers[stage]; l++, x = m->act[at + chunk + l][mb])
        for (int d = 0; d < D; d++)
            m->act[at + chunk + l + 1][mb][d] = x[d] * m->w[at + l][d];
    for (int d = 0; d < D && out; d++)
        out[d] = x[d];
    if (stage != STAGES - 1)
        return;
    float y = 0;
    for (int d = 0; d < D; d++)
        y += x[d] * m->last.head[d] / D;
    m->last_loss += 0.5 * ((double)y - 1) * ((double)y - 1) / BATCH;
}

static void backward(memory *m, int stage, int mb, const float *in, float *out)
{
    const int chunk = stage / RANKS, at = chunk * LIMIT;
    float g[D], y = 0, (*x)[BATCH][D] = &m->act[at + chunk];
    for (int d = 0; d < D && !in; d++)
        y += x[layers[stage]][mb][d] * m->last.head[d] / D;
    for (int d = 0; d < D; d++)
        g[d] = in ? in[d] : (y - 1) * m->last.head[d] / D / BATCH;
    for (int d = 0; d < D && !in; d++)
        m->head_g[d] += (y - 1) * x[layers[stage]][mb][d] / D / BATCH;
    for (int l = layers[stage] - 1; l >= 0; l--)
        for (int d = 0; d < D; d++) {
            m->w_g[at + l][d] += g[d] * x[l][mb][d];
            g[d] *= m->w[at + l][d];
        }
    for (int i = 0; i < SEQ && stage == 0; i++)
        for (int d = 0; d < D; d++)
            m->table_g[m->tokens[mb][i]][d] += g[d] / SEQ;
    for (int d = 0; d < D && out; d++)
        out[d] = g[d];
}

/* ---- a step ---------------------------------------------------------------------------------- */

#if RANKS > 1
static mg_pipe pipe_of = {.axis = 1,
                          .bytes = {sizeof(float[D]), sizeof(float[D])},
                          .stride = {sizeof(float[D]), sizeof(float[D])},
                          .send = {AT(send[0]), AT(send[1])},
                          .receive = {AT(receive[0]), AT(receive[1])},
                          .action = {0, 1, 2, 3}};

static void iterations(mg_run *r, memory *m)
{
    static stage_table *t; /* emitted ones are in the program */
    if (!t)
        t = table_new(RANKS, CHUNKS, BATCH, CHUNKS > 1 ? INTERLEAVED : ONE_ONE, 0);
    if (t->buffers > BUFFERS)
        abort();
    pipe_of.ops = t->ops;
    for (const mg_pipe_op *o = mg_pipe_ops(r, &pipe_of); mg_phase(r, o); o++) {
        const int way = o->step != MG_PIPE_F;
        const float *in = table_takes(t, o) ? m->receive[way][o->in] : NULL;
        float *out = table_makes(t, o) ? m->send[way][o->out] : NULL;
        if (o->step == MG_PIPE_F)
            forward(m, o->stage, o->microbatch, in, out);
        else if (o->step == MG_PIPE_B)
            backward(m, o->stage, o->microbatch, in, out);
        else
            mg_pass(r, &pipe_of, o);
    }
    const mg_comm_desc d = {MG_BROADCAST, MG_F64,    .axes = 1,  .n = RANKS,
                            .outer = 1,   .size = 1, .inner = 1, .root = RANKS - 1};
    mg_comm(r, 4, &d, &m->last_loss, &m->loss, NULL);
}
#else
static void iterations(mg_run *r, memory *m)
{
    (void)r;
    for (int mb = 0; mb < BATCH; mb++) {
        forward(m, 0, mb, NULL, NULL);
        backward(m, 0, mb, NULL, NULL);
    }
    m->loss = m->last_loss;
}
#endif

static void descend(float *w, float *v, const float *g, int n, double lr)
{
    for (int i = 0; i < n; i++) {
        v[i] = 0.9f * v[i] + g[i];
        w[i] -= (float)lr * v[i];
    }
}

void mg_step(mg_run *r)
{
    memory *m = (memory *)mg_arena(r);
    const int place = RANKS > 1 ? mg_place(r, 1) : 0;
    memset(m->table_g, 0, sizeof m->table_g + sizeof m->head_g + sizeof m->w_g);
    m->last_loss = 0;
    iterations(r, m);
    m->norm = fabs(m->loss);
    if (!mg_guard(r, 5, &m->loss, &m->norm))
        return;
    if (place == 0)
        descend(m->first.table[0], m->first.table_m[0], m->table_g[0], VOCAB * D, m->lr);
    if (place == RANKS - 1)
        descend(m->last.head, m->last.head_m, m->head_g, D, m->lr);
    for (int stage = place; stage < STAGES; stage += RANKS)
        for (int l = 0; l < layers[stage]; l++) {
            int at = stage / RANKS * LIMIT + l;
            descend(m->w[at], m->w_m[at], m->w_g[at], D, m->lr);
        }
}

void mg_eval(mg_run *r)
{
    (void)r;
}

void mg_sample(mg_run *r)
{
    (void)r;
}

void mg_round(mg_run *r)
{
    (void)r;
}
