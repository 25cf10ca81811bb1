/* parameters.c - the parameters of the kernels of kernels/cuda, by the letters of what they are. A
 * test compares their bytes with the kernels' C++, and scripts/gpu_bounds with nvcc's. */
#include "tests/record/parameters.h"

#include "runtime/abi.h"
#include "runtime/launches.h"

#include <string.h>

/* Structures that kernels take by value and abi.h does not have: mg_laying of shares.h, and the
 * masks of sight.h, which are alike. */
typedef struct laying {
    int64_t first, count, n, rows, row;
    int32_t zigzag, cut;
} laying;
typedef struct sight {
    const int32_t *seen, *first;
    const void *bias;
} sight;

/* p: a pointer; i: 32 bits; l: 64 bits; capitals: descriptors. */
static int bytes_of(char letter)
{
    switch (letter) {
    case 'p':
        return sizeof(void *);
    case 'i':
        return sizeof(int32_t);
    case 'l':
        return sizeof(int64_t);
    case 'A':
        return sizeof(mg_attention_desc);
    case 'C':
        return sizeof(mg_conv_desc);
    case 'E':
        return sizeof(mg_experts_desc);
    case 'G':
        return sizeof(mg_gather_desc);
    case 'D':
        return sizeof(mg_grouped_desc);
    case 'H':
        return sizeof(mg_conv_how);
    case 'L':
        return sizeof(laying);
    case 'M':
        return sizeof(mg_gemm_desc);
    case 'Q':
        return sizeof(mg_round_tiles_desc);
    case 'R':
        return sizeof(mg_random_desc);
    case 'S':
        return sizeof(sight);
    case 'T':
        return sizeof(mg_top_desc);
    case 'X':
        return sizeof(mg_xent_desc);
    default:
        return 0;
    }
}

/* By the first part of a name; a longer one comes before a shorter one that it begins with. */
static const struct {
    const char *name, *parameters;
} kernels[] = {{"mg_gather_", "Gippp"},
               {"mg_put_", "Gippp"},
               {"mg_sort_count", "Giilppp"},
               {"mg_sort_scan", "ilp"},
               {"mg_sort_place", "Giilpppp"},
               {"mg_scatter_add_", "Gippp"},
               {"mg_slots_", "Epp"},
               {"mg_ends_", "Epp"},
               {"mg_top_", "Tpp"},
               {"mg_dispatch_", "Eppppp"},
               {"mg_combine_weight_", "Eppppp"},
               {"mg_combine_", "Eppppp"},
               {"mg_random_", "Rpppp"},
               {"mg_round_mx_", "Qppp"},
               {"mg_round_rows_", "Qppp"},
               {"mg_round_squares_", "Qppp"},
               {"mg_xent_grad_", "Xppppp"},
               {"mg_xent_", "Xpppp"},
               {"mg_head_rows_", "Xlpppp"},
               {"mg_fill_rows_", "Mipp"},
               {"mg_sum_rows_", "Miipp"},
               {"mg_sum_parts", "lipp"},
               {"mg_gelu_grad_", "Mipp"},
               {"mg_gelu_", "Mipp"},
               {"mg_lay_", "Lpp"},
               {"mg_sum_shares_", "lllpp"},
               {"mg_add_shares_", "lllpp"},
               {"mg_mark", "pi"},
               {"mg_conv_sum_", "CHpp"},
               {"mg_conv_", "CHpppp"},
               {"mg_grouped_", "DCHpppp"},
               {"mg_attention_forward_", "ASppppp"},
               {"mg_attention_dq_", "ASppppppp"},
               {"mg_attention_dkv_", "ASpppppppp"},
               {"mg_attention_dbias_", "ASppppppp"},
               {"mg_flash_delta_", "Aiippp"},
               {"mg_flash_forward_", "ASpppppi"},
               {"mg_flash_dq_", "ASpppppppi"},
               {"mg_flash_dkv_", "ASppppppppi"},
               {"mg_flash_dbias_", "ASpppppppi"},
               {"mg_flash90_forward_", "ASppppp"},
               {"mg_flash90_dq_", "ASppppppp"},
               {"mg_flash90_dkv_", "ASpppppppp"}};

enum { KERNELS = sizeof kernels / sizeof *kernels };

const char *record_kernel(int i)
{
    return i < KERNELS ? kernels[i].name : NULL;
}

int record_kernel_parameters(const char *kernel, int bytes[RECORD_ARGUMENTS])
{
    for (int i = 0; i < KERNELS; i++)
        if (!strncmp(kernel, kernels[i].name, strlen(kernels[i].name))) {
            const int n = (int)strlen(kernels[i].parameters);
            for (int k = 0; k < n; k++)
                bytes[k] = bytes_of(kernels[i].parameters[k]);
            return n;
        }
    return -1;
}
