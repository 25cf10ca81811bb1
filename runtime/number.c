/* number.c - reads numbers of the types of safetensors; see number.h. All are little-endian. */
#include "runtime/number.h"

#include <math.h>
#include <string.h>

#include "runtime/half.h"

static const char *const kinds[] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16",
                                    "I8",  "U64", "U32", "U16",  "U8",  "BOOL"};
typedef enum kind { F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, KINDS } kind;

static kind kind_of(const char *dtype)
{
    int k = 0;
    while (k < KINDS && strcmp(kinds[k], dtype))
        k++;
    return k;
}

bool rt_number_known(const char *dtype)
{
    return kind_of(dtype) < KINDS;
}

bool rt_number_is_whole(const char *dtype)
{
    return kind_of(dtype) >= I64 && kind_of(dtype) < KINDS;
}

#define AT(type)                                                                                   \
    ({                                                                                             \
        type v_;                                                                                   \
        memcpy(&v_, from + (int64_t)sizeof v_ * i, sizeof v_);                                     \
        v_;                                                                                        \
    })

static inline double number(kind of, const char *from, int64_t i)
{
    switch (of) {
    case F64:
        return AT(double);
    case F32:
        return AT(float);
    case F16:
        return mg_from_f16(AT(uint16_t));
    case BF16:
        return mg_from_bf16(AT(uint16_t));
    case I64:
        return (double)AT(int64_t);
    case I32:
        return AT(int32_t);
    case I16:
        return AT(int16_t);
    case I8:
        return AT(int8_t);
    case U64:
        return (double)AT(uint64_t);
    case U32:
        return AT(uint32_t);
    case U16:
        return AT(uint16_t);
    case U8:
    case BOOL:
        return AT(uint8_t);
    case KINDS:
        break; /* rt_number_known says no */
    }
    return NAN;
}

double rt_number(const char *dtype, const char *from, int64_t i)
{
    return number(kind_of(dtype), from, i);
}

void rt_numbers(const char *dtype, const char *from, int64_t i, int64_t n, double *to)
{
    const kind of = kind_of(dtype);
    for (int64_t k = 0; k < n; k++)
        to[k] = number(of, from, i + k);
}
