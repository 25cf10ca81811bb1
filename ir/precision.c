/* precision.c - the precision of a program in words; see precision.h. */
#include "ir/ir.h"

const char *const scales_names[SCALES_count] = {"tensor", "tile", "mx"};
const char *const base_names[BASE_count] = {"as_computed", "nf4", "int8"};
const char *const reward_scale_names[REWARD_count] = {"group", "batch", "none"};

const char *precision_name(const Train *t)
{
    return t->fp8                 ? "fp8"
           : t->half              ? dtype_name(t->half)
           : t->compute == DT_f64 ? "f64"
           : t->tf32              ? "tf32"
                                  : "f32";
}

const char *precision_reason(const Train *t)
{
    static const char *const reasons[] = {
        [PRECISION_by_text] = "the text of the program says so",
        [PRECISION_by_source] = "the train block says so",
        [PRECISION_by_option] = "--precision says so",
        [PRECISION_by_gpu] = "the default of a GPU; `precision f32` in the train block changes it",
        [PRECISION_by_processor] =
            "the default of a processor; `precision bf16` in the train block changes it"};
    return reasons[t->precision_by];
}
