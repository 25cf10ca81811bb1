/* fake.c - a program as the compiler might emit it, small enough to check by hand: a bigram model
 * with two biases, SGD with momentum, in float32 (FAKE_F64: float64).
 *
 *   z = table[token] + bias[0] + bias[1];  loss = mean cross-entropy of the next byte
 *
 * Its tensors use what a layout can do: `table` is stored transposed and padded, `bias` is stacked
 * over layers and its two stored dims are one outside. MGC_FAKE_NAN=N makes step N (from 1) put a
 * NaN into the logits of its 6th row; MGC_FAKE_DIE=N ends the process there. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/abi.h"

enum { V = 256, PAD = 264, LAYERS = 2, A = 4, B = V / A, SEQ = 16, BATCH = 4, ROWS = BATCH * SEQ };

#ifdef FAKE_F64
typedef double real;
#define REAL MG_F64
#else
typedef float real;
#define REAL MG_F32
#endif

typedef struct memory {                      /* the arena */
    real table[V][PAD], bias[LAYERS][V];     /* parameters */
    real table_m[V][PAD], bias_m[LAYERS][V]; /* momentum */
    real table_g[V][PAD], bias_g[V];
    int32_t tokens[BATCH][SEQ + 1], window[SEQ], pos;
    double lr, loss, norm, total, hits, rate, row_loss[ROWS];
    int64_t step, seed, filled, before;
    real z[ROWS][V], logits[V];
} memory;

#define AT(field) (int64_t)offsetof(memory, field)

/* Values that a test can make wrong. */
#ifndef FAKE_ABI
#define FAKE_ABI MG_ABI
#endif
#ifndef FAKE_FEATURES
#define FAKE_FEATURES ""
#endif
#ifndef FAKE_FINGERPRINT
#define FAKE_FINGERPRINT 0x0123456789abcdefu
#endif
#ifndef FAKE_ARENA
#define FAKE_ARENA (int64_t)sizeof(memory)
#endif
#ifndef FAKE_VOCAB
#define FAKE_VOCAB V
#endif
#ifndef FAKE_NAME
#define FAKE_NAME "table.weight"
#endif
#ifdef FAKE_SPLIT /* the bias is a matrix outside */
#define BIAS_RANK  2
#define BIAS_MERGE 1, 1
#else
#define BIAS_RANK  1
#define BIAS_MERGE 2
#endif
#ifndef FAKE_HIGH
#define FAKE_HIGH 0.1
#endif

static const mg_tensor tensors[] = {
    {.name = FAKE_NAME,
     .slot = "",
     .where = "fake.mg:3",
     .dtype = REAL,
     .role = MG_PARAM,
     .offset = AT(table),
     .rank = 2,
     .external_rank = 2,
     .size = {V, PAD},
     .valid = {V, V},
     .order = {1, 0},
     .merge = {1, 1},
     .init = MG_INIT_NORMAL,
     .a = 0,
     .b = 0.02},
    {.name = "layers.{}.bias",
     .slot = "",
     .where = "fake.mg:4",
     .dtype = REAL,
     .role = MG_PARAM,
     .offset = AT(bias),
     .rank = 3,
     .stacked = 1,
     .external_rank = BIAS_RANK,
     .size = {LAYERS, A, B},
     .valid = {LAYERS, A, B},
     .order = {1, 2},
     .merge = {BIAS_MERGE},
     .init = MG_INIT_UNIFORM,
     .a = -0.1,
     .b = FAKE_HIGH},
    {.name = FAKE_NAME,
     .slot = "momentum",
     .where = "fake.mg:3",
     .dtype = REAL,
     .role = MG_STATE,
     .offset = AT(table_m),
     .rank = 2,
     .external_rank = 2,
     .size = {V, PAD},
     .valid = {V, V},
     .order = {1, 0},
     .merge = {1, 1},
     .init = MG_INIT_CONST},
    {.name = "layers.{}.bias",
     .slot = "momentum",
     .where = "fake.mg:4",
     .dtype = REAL,
     .role = MG_STATE,
     .offset = AT(bias_m),
     .rank = 3,
     .stacked = 1,
     .external_rank = BIAS_RANK,
     .size = {LAYERS, A, B},
     .valid = {LAYERS, A, B},
     .order = {1, 2},
     .merge = {BIAS_MERGE},
     .init = MG_INIT_CONST},
};

static const mg_action actions[] = {
    {.name = "logits",
     .kind = "kernel",
     .where = "fake.mg:6",
     .predicted_us = 10,
     .flops = 3.0 * ROWS * V,
     .bytes = 4.0 * ROWS * V,
     .nout = 1,
     .out = {{1, REAL, (int64_t)ROWS *V}}},
    {.name = "loss",
     .kind = "kernel",
     .where = "fake.mg:7",
     .predicted_us = 50,
     .flops = 4.0 * ROWS * V,
     .bytes = 4.0 * ROWS * V,
     .nout = 1,
     .out = {{3, MG_F64, ROWS}}},
    {.name = "zero \"grads\"",
     .kind = "zero",
     .where = "fake.mg:8",
     .predicted_us = 20,
     .bytes = 4.0 * V * PAD},
    {.name = "guard", .kind = "guard", .where = "fake.mg:9"},
};

const mg_program mg_main = {
    .abi = FAKE_ABI,
    .name = "fake",
    .source = "fake.mg",
    .compiler = "mgc 0.1.0",
    .layout = "default",
    .fingerprint = FAKE_FINGERPRINT,
    .cpu_features = FAKE_FEATURES,
    .compute = REAL,
    .arena_bytes = FAKE_ARENA,
    .persistent_bytes = AT(table_g),
    .scratch_bytes = 1000,
    .batch = BATCH,
    .seq = SEQ,
    .vocab = FAKE_VOCAB,
    .tensors = tensors,
    .ntensors = 4,
    .actions = actions,
    .nactions = 4,
    .lr = {MG_LR_COSINE, 2, 0.2, 5, 60, 0, MG_SHAPE_LINEAR, false},
    .optimizer = "sgd",
    .step = {true,     AT(tokens), -1, -1,  BATCH, SEQ + 1,      AT(lr), AT(step),
             AT(seed), -1,         -1, -1,  -1,    -1,           -1,     AT(loss),
             AT(norm), -1,         0,  0.5, 1e6,   .rows = BATCH},
    .eval = {true,
             AT(tokens),
             -1,
             -1,
             BATCH,
             SEQ + 1,
             -1,
             -1,
             -1,
             -1,
             -1,
             AT(filled),
             AT(before),
             -1,
             -1,
             AT(loss),
             -1,
             -1,
             0,
             0.3,
             5e5,
             .rows = BATCH,
             .ntotals = 2,
             .total = (const mg_total[]){{AT(total), 1, false}, {AT(hits), 1, false}},
             .nmetrics = 1,
             .metric = (const mg_metric[]){{"rate", AT(rate)}}},
    .sample = {true, AT(window), -1, -1, 1,  SEQ, -1,         -1, -1,  -1,  AT(pos),
               -1,   -1,         -1, -1, -1, -1,  AT(logits), V,  0.1, 1e4, .rows = 1},
    .config_json = "{\n  \"model_type\": \"fake\"\n}\n",
    .config = "sgd lr = cosine",
};

static void logits_kernel(void *const *p, int64_t begin, int64_t end)
{
    memory *m = p[0];
    real(*z)[V] = p[1];
    for (int64_t r = begin; r < end; r++)
        for (int c = 0; c < V; c++)
            z[r][c] = m->table[m->tokens[r / SEQ][r % SEQ]][c] + m->bias[0][c] + m->bias[1][c];
    const char *at = getenv("MGC_FAKE_NAN");
    if (at && m->step + 1 == atoll(at) && begin <= 5 && 5 < end)
        z[5][7] = NAN;
}

/* Loss of each row; z becomes its gradient. */
static void loss_kernel(void *const *p, int64_t begin, int64_t end)
{
    memory *m = p[0];
    real(*z)[V] = p[1];
    double *loss = p[3];
    for (int64_t r = begin; r < end; r++) {
        int target = m->tokens[r / SEQ][r % SEQ + 1];
        double sum = 0;
        for (int c = 0; c < V; c++)
            sum += exp((double)z[r][c]);
        loss[r] = log(sum) - (double)z[r][target];
        for (int c = 0; c < V; c++)
            z[r][c] = (real)((exp((double)z[r][c]) / sum - (c == target)) / ROWS);
    }
}

static void forward(mg_run *r, memory *m)
{
    void *p[] = {m, m->z, m->tokens, m->row_loss};
    mg_launch(r, 0, logits_kernel, ROWS, 1, p);
    mg_launch(r, 1, loss_kernel, ROWS, 1, p);
    m->loss = 0;
    for (int i = 0; i < ROWS; i++)
        m->loss += m->row_loss[i] / ROWS;
}

static void descend(real *w, real *v, const real *g, int n, double lr)
{
    for (int i = 0; i < n; i++) {
        v[i] = (real)0.9 * v[i] + g[i];
        w[i] -= (real)lr * v[i];
    }
}

void mg_step(mg_run *r)
{
    memory *m = (memory *)mg_arena(r);
    const char *slow = getenv("MGC_FAKE_US"), *dies = getenv("MGC_FAKE_DIE");
    struct timespec left = {0, slow ? atol(slow) * 1000 : 0};
    while (nanosleep(&left, &left)) /* a signal does not shorten a step */
        continue;
    if (dies && m->step + 1 == atol(dies))
        raise(SIGKILL);
    forward(r, m);
    mg_zero(r, 2, m->table_g, sizeof m->table_g + sizeof m->bias_g);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < V; c++) {
            m->table_g[m->tokens[i / SEQ][i % SEQ]][c] += m->z[i][c];
            m->bias_g[c] += m->z[i][c];
        }
    double sum = 0;
    for (int t = 0; t < V; t++)
        for (int c = 0; c < V; c++)
            sum += (double)m->table_g[t][c] * (double)m->table_g[t][c];
    m->norm = sqrt(sum);
    if (!mg_guard(r, 3, &m->loss, &m->norm))
        return;
    descend(m->table[0], m->table_m[0], m->table_g[0], V * PAD, m->lr);
    for (int l = 0; l < LAYERS; l++)
        descend(m->bias[l], m->bias_m[l], m->bias_g, V, m->lr);
}

void mg_eval(mg_run *r)
{
    memory *m = (memory *)mg_arena(r);
    forward(r, m);
    for (int64_t i = 0; i < m->filled * SEQ; i++)
        m->total += m->row_loss[i] / SEQ;
    m->loss = m->total / (double)(m->before + m->filled);
    for (int64_t i = 0; i < m->filled * SEQ; i++)
        m->hits += m->row_loss[i] < 3;
    m->rate = m->hits / (double)((m->before + m->filled) * SEQ);
}

void mg_sample(mg_run *r)
{
    memory *m = (memory *)mg_arena(r);
    for (int c = 0; c < V; c++)
        m->logits[c] = m->table[m->window[m->pos]][c] + m->bias[0][c] + m->bias[1][c];
}

void mg_round(mg_run *r)
{
    (void)r;
}
