/* walk.h - what several passes do with instructions; private to passes/. */
#ifndef MGC_PASSES_WALK_H
#define MGC_PASSES_WALK_H

#include "ir/ir.h"

/* Every use of a value by an instruction: its operands, then those inside its region and that
 * region's results. The use may be overwritten. */
typedef void UseFn(void *ctx, Value *use);
void each_use(Ins *i, UseFn *f, void *ctx);

/* Every instruction of a region and of the regions in it, outer before inner. */
typedef void InsFn(void *ctx, Ins *i);
void each_ins(Region *r, InsFn *f, void *ctx);

/* A builder that appends instructions for `i` to `r`, with i's marks. */
Builder builder_at(Module *m, Region *r, const Ins *i);

/* A tensor of t's type filled with one number. */
Value build_filled(Builder *b, Type t, double value);

/* One more result of a loop's body is stacked: returns the loop's new result. */
Value repeat_stack(Module *m, Ins *loop, Value v);
/* Does it stack v already? */
bool repeat_stacks(const Ins *loop, Value v);
/* One more operand of a loop is handed to its body slice by slice: returns the slice, an argument
 * of the body before the index. */
Value repeat_slice(Module *m, Ins *loop, Value stacked);
/* One more value goes round a loop: returns the body's argument. What the next iteration is given
 * is set as the body's result of the same number, the last of those that are carried. */
Value repeat_carry(Module *m, Ins *loop, Value start);
/* `iterations` iterations of a loop on other operands, at the builder's end. number: of its first
 * iteration, if the body asks which one it is in (repeat_counts), else 0. */
Ins *repeat_part(Builder *b, const Ins *loop, int64_t iterations, const Value *in, Value number);
bool repeat_counts(Module *m, const Ins *loop);
/* Iteration `at` of a loop that only carries, and is not reversed, by itself at the builder's end,
 * from `in` of what it carries. out: what it gives, which may be `in`. */
void repeat_iteration(Builder *b, const Ins *loop, int64_t at, const Value *in, Value *out);
/* Iterations [first, first + n) of what a loop takes slices of; slice number `at` of that. */
Value build_window(Builder *b, Value stacked, Name dim, int64_t first, int64_t n);
Value build_pick(Builder *b, Value stacked, Dim dim, int64_t at);
/* A region's instructions once more, at the builder's end, of the same part of the program;
 * operands through map, results entered into it. */
void region_copy(Builder *b, const Region *r, ValueMap *map);
/* t without its dim d; t with d put first. */
Type type_without(const Type *t, Name d);
Type type_stacked(const Type *t, Dim d);

/* Terms that each element of a dot is the sum of. Of two dots that are added up the one of more
 * terms adds to the other's result, which it reads unnoticed; of as many, the second operand. */
int64_t dot_terms(const Module *m, const Ins *dot);

/* The value of which v is a cast, or the rounding to fp8 (passes/step/quantize.c): cast (mul (cast
 * of it) scale). v: it is neither. */
Value made_ahead_of(const Module *m, Value v);

/* Is v a constant, or one broadcast? */
bool value_is_const(const Module *m, Value v, double *value);
/* Are sorted rows multiplied by matrices of these experts in a region? */
bool rows_multiplied(const Region *r, Name experts);

#endif
