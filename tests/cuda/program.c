/* program.c - the program that checks of kernels are in place of: nothing but its arena. */
#include "tests/cuda/check.h"

extern const unsigned char mg_cuda_image[];

static const mg_action action = {.name = "check", .kind = "check", .where = "here"};
const mg_program mg_main = {.abi = MG_ABI,
                            .name = "check",
                            .compiler = "",
                            .layout = "",
                            .config = "",
                            .optimizer = "",
                            .cpu_features = "",
                            .compute = MG_F32,
                            .arena_bytes = ARENA,
                            .persistent_bytes = ARENA,
                            .actions = &action,
                            .nactions = 1,
                            .cuda_image = mg_cuda_image};
/* The runtime's main() is not used: these only satisfy it. */
void mg_step(mg_run *r)
{
    (void)r;
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
