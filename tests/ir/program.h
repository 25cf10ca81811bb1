/* program.h - small IR programs for the tests of ir/: written as text, read, run, compared. */
#ifndef MGC_TESTS_IR_PROGRAM_H
#define MGC_TESTS_IR_PROGRAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/interpret.h"

/* A place to read programs into: messages are kept, to be looked at. */
typedef struct World {
    Arena *a;
    Names *names;
    Diag *diag;
    FILE *out;
    char *text;
    size_t size;
} World;

void world_open(World *w);
void world_close(World *w);
const char *world_messages(World *w); /* what was said since it was opened */

enum { MAX_ARGS = 7, MAX_RESULTS = 4 };

/* The text of a module with one function @f. args: "x: f64[i=2, j=3]", up to a NULL; the tensor of
 * an argument has its name and type. body: instructions and `give`; results: how many it gives. */
char *program_text(Arena *a, const char *const *args, const char *body, int results);
extern const char program_head[]; /* what such a text begins with, up to the tensors */

Module *world_read(World *w, const char *text); /* NULL if it is not accepted */
char *module_text(Arena *a, const Module *m);

/* Runs ir_verify; its messages go into the world's. Returns the number of broken invariants. */
int world_verify(World *w, const Module *m);

/* Reads and verifies a program, failing the test if it does not hold. */
Module *must_read(World *w, const char *const *args, const char *body, int results);
/* Arguments for @f: numbers as text ("1 2 3" for each), or if data is NULL drawn from [-1, 1) by
 * argument and element (integers from 0, 1, 2). */
Tensor64 *program_args(World *w, const Module *m, const char *const *data);
Tensor64 *run_program(World *w, const Module *m, const char *const *data, bool iteration);

/* Fails unless the two agree to `tolerance` times the greatest element of the first. */
void assert_close(const Tensor64 *x, const Tensor64 *y, double tolerance, const char *what);
void assert_numbers(const Tensor64 *x, const char *want, const char *what); /* to 1e-12 */

#endif
