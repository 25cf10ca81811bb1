/* fuzz_recipe.c - libFuzzer target: any bytes as LLaMA-Factory's YAML, with a config of DeepSpeed's
 * and a model beside it, or as a config of DeepSpeed's. What is accepted is text that mgc reads. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/recipe/recipe.h"
#include "tests/fuzz/caught.h"

static const char data_sets[] =
    "{\"d\": {\"file_name\": \"d.json\"}, \"s\": {\"file_name\": \"s.json\", \"formatting\": "
    "\"sharegpt\", \"columns\": {\"messages\": \"conversations\"}}}";

static void import_yaml(Arena *a, FILE *errors, FuzzPart rest)
{
    const FuzzPart ds = fuzz_part(&rest);
    fuzz_file("ds.json", ds.data, ds.size);
    fuzz_file("train.yaml", rest.data, rest.size);
    Options o = {.out = arena_printf(a, "%s/out", fuzz_folder())};
    vec_push(a, &o.words, arena_printf(a, "%s/train.yaml", fuzz_folder()));
    Session s = {.arena = a, .names = names_new(a), .diag = diag_new(a, errors, false), .o = &o};
    command_import_yaml(&s);
}

static void import_ds(Arena *a, FILE *errors, FuzzPart rest)
{
    fuzz_file("ds.json", rest.data, rest.size);
    Options o = {.out = NULL};
    Session s = {.arena = a, .names = names_new(a), .diag = diag_new(a, errors, false), .o = &o};
    command_import_ds(&s, arena_printf(a, "%s/ds.json", fuzz_folder()));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *errors;
    Arena *a = arena_new();
    if (!errors) {
        errors = fopen("/dev/null", "w");
        setenv("MGC_HOME", HOME_OF_MGC, 0); /* devices, and templates of families */
        (void)!symlink(MODEL, arena_printf(a, "%s/model", fuzz_folder()));
        mkdir(arena_printf(a, "%s/data", fuzz_folder()), 0777);
        fuzz_file("data/dataset_info.json", data_sets, sizeof data_sets - 1);
        fuzz_file("data/d.json", "[]", 2);
        fuzz_file("data/s.json", "[]", 2);
    }
    if (!errors || !freopen("/dev/null", "w", stdout))
        abort();
    if (size && data[0] & 1)
        import_yaml(a, errors, (FuzzPart){data + 1, size - 1});
    else if (size)
        import_ds(a, errors, (FuzzPart){data + 1, size - 1});
    arena_free(a);
    return 0;
}
