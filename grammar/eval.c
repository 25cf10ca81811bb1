/* eval.c - arithmetic on compile-time numbers, checked; see eval.h. */
#include "grammar/eval.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t size_limit = INT64_C(1) << 62;

Number number_int(int64_t i)
{
    return (Number){.exact = true, .i = i, .d = (double)i};
}

Number number_real(double d)
{
    return (Number){.d = d};
}

Number number_inverse(Number n)
{
    return (Number){.d = 1 / n.d, .rows = -n.rows};
}

Number number_literal(const char *text, double value)
{
    if (text[strspn(text, "0123456789")])
        return number_real(value);
    errno = 0;
    int64_t i = strtoll(text, NULL, 10);
    return errno ? number_real(value) : number_int(i);
}

bool number_integer(Number n, int64_t *i)
{
    const double exact = 9007199254740992.0; /* 2^53: below it a double has no gaps */
    *i = n.exact ? n.i : fabs(n.d) <= exact ? (int64_t)n.d : 0;
    return n.exact || (fabs(n.d) <= exact && n.d == floor(n.d));
}

const char *number_text(Arena *a, Number n)
{
    return n.exact ? arena_printf(a, "%lld", (long long)n.i) : arena_printf(a, "%g", n.d);
}

static const char *finish(double d, Number *r)
{
    *r = number_real(d);
    return isnan(d) ? "is not a number" : isinf(d) ? "overflows" : NULL;
}

/* Infinite although it is not large: log(0), rsqrt(0), pow(0, -1). */
static bool is_pole(Op op, double x)
{
    return x == 0 && (op == OP_log || op == OP_rsqrt || op == OP_pow);
}

static const char *negated(Number a, Number *r)
{
    if (!a.exact)
        return finish(-a.d, r);
    int64_t i;
    if (__builtin_sub_overflow((int64_t)0, a.i, &i))
        return "overflows";
    *r = number_int(i);
    return NULL;
}

const char *number_negate(Number a, Number *r)
{
    const char *wrong = negated(a, r);
    r->rows = a.rows;
    return wrong;
}

static const char *integers(BinaryOp op, int64_t a, int64_t b, Number *r)
{
    int64_t i = 0;
    bool over = op == B_ADD   ? __builtin_add_overflow(a, b, &i)
                : op == B_SUB ? __builtin_sub_overflow(a, b, &i)
                              : __builtin_mul_overflow(a, b, &i);
    *r = number_int(i);
    return over ? "overflows" : NULL;
}

/* From 0 to b - 1, also of a negative a. */
static const char *remainder_of(Number a, Number b, Number *r)
{
    int64_t x, y;
    *r = number_int(0);
    if (!number_integer(a, &x) || !number_integer(b, &y))
        return "is of integers only";
    if (y < 0)
        return "has a remainder of positive numbers only";
    *r = number_int((x % y + y) % y);
    return NULL;
}

static const char *binary(BinaryOp op, Number a, Number b, Number *r)
{
    static const Op of[] = {OP_add, OP_sub, OP_mul, OP_div, OP_none, OP_lt,
                            OP_le,  OP_gt,  OP_ge,  OP_eq,  OP_ne};
    if ((op == B_DIV || op == B_MOD) && b.d == 0)
        return "divides by zero";
    if (op == B_MOD)
        return remainder_of(a, b, r);
    if (a.exact && b.exact && op <= B_MUL)
        return integers(op, a.i, b.i, r);
    if (a.exact && b.exact && op == B_DIV && b.i != -1 && a.i % b.i == 0) {
        *r = number_int(a.i / b.i);
        return NULL;
    }
    if (op >= B_LT) {
        *r = number_int(op_evaluate(of[op], a.d, b.d, 0) != 0);
        return NULL;
    }
    return finish(op_evaluate(of[op], a.d, b.d, 0), r);
}

/* The batch's size stays a factor of products, and of sums whose terms all have it. */
static int rows_of(BinaryOp op, Number a, Number b)
{
    return op == B_MUL                                        ? a.rows + b.rows
           : op == B_DIV                                      ? a.rows - b.rows
           : (op == B_ADD || op == B_SUB) && a.rows == b.rows ? a.rows
                                                              : 0;
}

const char *number_binary(BinaryOp op, Number a, Number b, Number *r)
{
    const char *wrong = binary(op, a, b, r);
    r->rows = rows_of(op, a, b);
    return wrong;
}

const char *number_op(Op op, int n, const Number *x, Number *r)
{
    if (op == OP_max || op == OP_min) { /* of two integers one of them */
        *r = (op == OP_max) == (x[0].d >= x[1].d) ? x[0] : x[1];
        return NULL;
    }
    const char *wrong = finish(op_evaluate(op, x[0].d, n > 1 ? x[1].d : 0, n > 2 ? x[2].d : 0), r);
    return wrong && isinf(r->d) && is_pole(op, x[0].d) ? "is infinite" : wrong;
}

bool size_multiply(int64_t a, int64_t b, int64_t *r)
{
    return !__builtin_mul_overflow(a, b, r) && *r <= size_limit;
}
