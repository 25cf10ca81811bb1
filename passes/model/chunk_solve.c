/* chunk_solve.c - the inverse of a unit triangle, by products.
 *
 * Of halves of a block, [[A, 0], [-B, D]] has the inverse [[A', 0], [D' B A', D']]. So from the
 * inverses of the blocks of 2^k positions follow those of 2^(k+1): x' + x' b x', b being what of x
 * is between the halves of a block. Each of the log2 steps is as exact as a substitution; the
 * powers of x, of which the inverse is the sum, may be larger than it by many orders. */
#include "passes/model/chunk.h"

#include "passes/walk.h"

/* The number of the block of `size` positions that each position of d is in. */
static Value block_of(Chunk *c, Dim d, int64_t size)
{
    const Dim block = {.name = name_intern(c->m->names, "block"), .size = d.size / size};
    const Dim inner = {.name = d.name, .size = size};
    const Type t = {.dtype = DT_i32, .rank = 2, .dims = {block, inner}};
    const Attrs a = {.dim = inner, .to = block};
    const Value v = build_as(&c->b, build_iota(&c->b, DT_i32, block), t);
    return build(&c->b, OP_merge, &a, 1, &v);
}

/* The part of x that is between the two halves of each block of 2 * size positions. */
static Value between(Chunk *c, Value x, int64_t size)
{
    const Value zero = build_const(&c->b, type_of(c->m, x)->dtype, 0);
    const Value whole =
        build2(&c->b, OP_eq, block_of(c, c->t, 2 * size), block_of(c, c->s, 2 * size));
    const Value half = build2(&c->b, OP_ne, block_of(c, c->t, size), block_of(c, c->s, size));
    const Type t = *type_of(c->m, x);
    Value in[] = {half, x, zero};
    in[1] = build_typed(&c->b, OP_select, NULL, 3, in, 1, &t, NULL)->out[0];
    in[0] = whole;
    return build_typed(&c->b, OP_select, NULL, 3, in, 1, &t, NULL)->out[0];
}

/* a b, as matrices of t and s. */
static Value product(Chunk *c, Value a, Value b)
{
    const Dim mid = {.name = name_intern(c->m->names, "between"), .size = c->t.size};
    return build_dot(&c->b, chunk_renamed(c, a, c->s, mid), chunk_renamed(c, b, c->t, mid),
                     &(DimList){.n = 1, .dim = {mid}});
}

Value chunk_inverse(Chunk *c, Value x)
{
    const DType dtype = type_of(c->m, x)->dtype;
    const Value t = build_iota(&c->b, DT_i32, c->t), s = build_iota(&c->b, DT_i32, c->s);
    const Value one = build_const(&c->b, dtype, 1), zero = build_const(&c->b, dtype, 0);
    const Value in[] = {build2(&c->b, OP_eq, t, s), one, zero};
    const Value unit = build(&c->b, OP_select, NULL, 3, in);
    Value r = chunk_plus(c, between(c, x, 1), unit);
    for (int64_t size = 2; size < c->t.size; size *= 2)
        r = chunk_plus(c, r, product(c, product(c, r, between(c, x, size)), r));
    return r;
}
