/* check_conv.c - convolutions of all ways that runtime/conv.h chooses from, against loops in
 * double: drawn ones, which the tests of processors take too, and some that fill tiles. */
#include "tests/conv_case.h"
#include "tests/cuda/check.h"

#include <math.h>
#include <stdlib.h>

/* The result, and in *terms and *size the numbers that bound how far off sums may be. */
static double *loops(const mg_conv_desc *d, const Array *x, const double *xs, const double *ws,
                     const Array *y)
{
    double *want = malloc((size_t)y->n * sizeof *want);
    int64_t index[MG_CONV_DIMS] = {0};
    const int term = mg_conv_first_term(d);
    (void)x;
    for (int64_t i = 0; i < y->n; i++)
        want[i] = y->x[i];
    do {
        const int64_t to = conv_place(d, d->y, index);
        double sum = d->accumulate ? y->x[to] : 0;
        do {
            const int64_t from = conv_seen(d, index);
            if (from >= 0)
                sum += xs[from] * ws[conv_place(d, d->w, index)];
        } while (conv_step(d, index, term, mg_conv_dims(d)));
        want[to] = sum;
    } while (conv_step(d, index, 0, term));
    return want;
}

static void check_case(Bench *b, const char *what, const ConvCase *c)
{
    const mg_conv_desc *d = &c->d;
    /* Operands may begin anywhere in their buffers. */
    const int64_t way[] = {draw_int(b, 0, 3) ? 0 : draw_int(b, 1, 9),
                           draw_int(b, 0, 3) ? 0 : draw_int(b, 1, 9)};
    Array x = numbers_of(b, c->nx + way[0], d->dtype), w = numbers_of(b, c->nw + way[1], d->dtype),
          y = numbers_of(b, c->ny, d->out), work = numbers_of(b, mg_conv_work(d) / 4 + 1, MG_F32);
    const int64_t width = mg_dtype_bytes(d->dtype);
    mg_conv(&b->run, 0, d, (char *)at(b, &x) + way[0] * width, (char *)at(b, &w) + way[1] * width,
            at(b, &y), at(b, &work));
    double *want = loops(d, &x, x.x + way[0], w.x + way[1], &y);
    compare(b, what, &y, want,
            (double)mg_conv_size(d, mg_conv_first_term(d), d->terms) + d->accumulate, 0);
    free(want);
    done(b, 4, (Array *[]){&x, &w, &y, &work});
}

/* A convolution of images with a stride, its gradient of x (turned taps), or of w: of whole tiles
 * and of sums that are cut. */
typedef enum Gradient { FORWARD, DX, DW } Gradient;
static ConvCase image(Bench *b, Gradient of, mg_dtype out)
{
    const int64_t stride = draw_int(b, 1, 2), dilation = draw_int(b, 1, 2), taps = 3,
                  side = of == DW ? draw_int(b, 5, 18) : draw_int(b, 5, 9),
                  down = (side - 1) / stride + 1, images = draw_int(b, 2, 3),
                  in = 8 * draw_int(b, 1, of == FORWARD ? 9 : 4),
                  filters = 8 * draw_int(b, 1, of == DW ? 4 : 18);
    /* Dims of forward: image, row, column; filter; tap, tap, colour. x, w and y are dense. */
    const int64_t xs = in, ys = filters, ws = filters;
    ConvCase c = {.nx = images * side * side * in,
                  .nw = taps * taps * in * filters,
                  .ny = images * down * down * filters};
    mg_conv_desc *d = &c.d;
    *d = (mg_conv_desc){.dtype = b->t, .out = out, .columns = 1, .axes = 2};
    d->accumulate = draw_int(b, 0, 3) == 0;
    const int64_t x_step[2] = {side * xs, xs}, y_step[2] = {down * ys, ys},
                  w_step[2] = {taps * in * ws, in * ws};
    d->rows = d->terms = 3;
    for (int a = 0; a < 2; a++) {
        mg_conv_axis *axis = &d->axis[a];
        const int row = of == DW ? a : 1 + a, term = of == DW ? 5 + a : 4 + a;
        if (of == FORWARD) {
            *axis = (mg_conv_axis){side, x_step[a], -dilation, 1, {0}};
            d->size[row] = down, d->y[row] = y_step[a], axis->by[row] = (int32_t)stride;
            d->size[term] = taps, d->w[term] = w_step[a], axis->by[term] = (int32_t)dilation;
        } else if (of == DX) {
            *axis = (mg_conv_axis){down, y_step[a], dilation, stride, {0}};
            d->size[row] = side, d->y[row] = x_step[a], axis->by[row] = 1;
            d->size[term] = taps, d->w[term] = w_step[a], axis->by[term] = -(int32_t)dilation;
        } else {
            *axis = (mg_conv_axis){side, x_step[a], -dilation, 1, {0}};
            d->size[row] = taps, d->y[row] = w_step[a], axis->by[row] = (int32_t)dilation;
            d->size[term] = down, d->w[term] = y_step[a], axis->by[term] = (int32_t)stride;
        }
    }
    if (of == FORWARD) {
        d->size[0] = images, d->x[0] = side * side * xs, d->y[0] = down * down * ys;
        d->size[3] = filters, d->w[3] = d->y[3] = 1;
        d->size[6] = in, d->x[6] = 1, d->w[6] = filters;
    } else if (of == DX) { /* x is the result's gradient, y that of x */
        d->size[0] = images, d->x[0] = down * down * ys, d->y[0] = side * side * xs;
        d->size[3] = in, d->w[3] = filters, d->y[3] = 1;
        d->size[6] = filters, d->x[6] = d->w[6] = 1;
        const int64_t nx = c.nx;
        c.nx = c.ny, c.ny = nx;
    } else { /* w is the result's gradient, y that of w */
        d->size[2] = in, d->x[2] = 1, d->y[2] = filters;
        d->size[3] = filters, d->w[3] = d->y[3] = 1;
        d->size[4] = images, d->x[4] = side * side * xs, d->w[4] = down * down * ys;
        const int64_t nw = c.nw;
        c.nw = c.ny, c.ny = nw;
    }
    return c;
}

void check_convolutions(Bench *b)
{
    static const char *const name[] = {"conv", "conv dx", "conv dw"};
    const mg_program *was = b->run.program;
    mg_program tf32 = *was;
    uint64_t seed = (uint64_t)(draw(b) * 0x1p53);
    tf32.tf32 = true;
    for (int i = 0; i < 4; i++) {
        const mg_dtype out = draw_int(b, 0, 1) ? b->t : statistic(b->t);
        ConvCase c = i < 3 ? image(b, (Gradient)i, out) : conv_case(&seed, b->t, out);
        check_case(b, i < 3 ? name[i] : "conv, drawn", &c);
    }
    for (int i = 0; i < 3 && b->t == MG_F32; i++) {
        ConvCase c = image(b, (Gradient)i, MG_F32);
        b->run.program = &tf32;
        check_case(b, "conv, tf32", &c);
        b->run.program = was;
    }
}
