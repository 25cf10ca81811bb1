/* fuzz_start.c - libFuzzer target: what a run starts from. Any bytes as the index of a sharded set
 * of weights, as state.json under its right seal, and as a safetensors file of named inputs. */
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/batch.h"
#include "tests/fuzz/caught.h"

static const mg_tensor tensors[] = {{.name = "w.{}.a",
                                     .slot = "",
                                     .where = "x.mg:1",
                                     .dtype = MG_F32,
                                     .role = MG_PARAM,
                                     .rank = 2,
                                     .stacked = 1,
                                     .external_rank = 1,
                                     .size = {2, 3},
                                     .valid = {2, 3},
                                     .order = {1},
                                     .merge = {1},
                                     .init = MG_INIT_CONST}};
static const mg_program program = {
    .abi = MG_ABI,
    .name = "fuzzed",
    .compiler = "mgc",
    .compute = MG_F32,
    .arena_bytes = 4096,
    .persistent_bytes = 64,
    .tensors = tensors,
    .ntensors = 1,
    .step = {.batch = 2,
             .rows = 2,
             .ninputs = 2,
             .inputs = {{"x", MG_F32, 1024, 3, 0}, {"y", MG_I32, 2048, 1, 5}}},
};

static FuzzPart input;

/* Two tensors of three numbers, in the file that an index may name. */
static void make_shard(void)
{
    rt_st_tensor t[] = {{.name = "w.0.a", .dtype = "F32", .rank = 1, .shape = {3}},
                        {.name = "w.1.a", .dtype = "F32", .rank = 1, .shape = {3}}};
    char file[4096] = {0};
    size_t n;
    char *header = rt_st_header(t, 2, &n);
    memcpy(file, header, n);
    fuzz_file("a.safetensors", file, n + 24);
    free(header);
}

static void open_index(void *ctx)
{
    mg_run *r = ctx;
    fuzz_file("model.safetensors.index.json", input.data, input.size);
    rt_weights *w = rt_weights_open(r, fuzz_folder(), NULL, false);
    rt_weights_close(w);
}

static void read_state(void *ctx)
{
    char text[(1 << 13) + RT_SEAL_BYTES + 1];
    rt_state state;
    size_t n = input.size < 1 << 13 ? input.size : 1 << 13;
    if (n)
        memcpy(text, input.data, n);
    snprintf(text + n, RT_SEAL_BYTES + 1, RT_SEAL, rt_crc32c(0, text, n));
    fuzz_file(RT_STATE_FILE, text, n + RT_SEAL_BYTES);
    free(rt_checkpoint_verify(ctx, fuzz_folder(), &state));
}

static void read_rows(void *ctx)
{
    mg_run *r = ctx;
    char path[128];
    snprintf(path, sizeof path, "%s/rows", fuzz_folder());
    const char *item[] = {path};
    fuzz_file("rows", input.data, input.size);
    rt_data *d = rt_table_open(&(rt_list){item, 1}, "data", &program.step);
    rt_batch *b = rt_batch_new(&program.step);
    for (int64_t i = 0; i < d->windows && i < 64; i++) {
        rt_table_row(d, b, &program.step, i, i % 2);
        rt_batch_put(r, b);
        if (((uint32_t *)(r->arena + 2048))[i % 2] >= 5)
            abort();
    }
    rt_batch_free(b);
    rt_data_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(void *) = {open_index, read_state, read_rows};
    static _Alignas(64) char arena[4096];
    static mg_run run;
    static const rt_options options; /* as if none were given */
    if (!run.program) {
        run.program = &program;
        run.options = &options;
        run.arena = arena;
        run.params = rt_catalog_new(&program, MG_PARAM);
        run.slots = rt_catalog_new(&program, MG_STATE);
        make_shard();
    }
    if (size < 1)
        return 0;
    input = (FuzzPart){data + 1, size - 1};
    caught(readers[data[0] % 3], &run);
    return 0;
}
