/* gemm_half_body.h - a tile of a matrix as floats and back, on one type and vector unit
 * (each_isa.h). For f64 it only completes the tables. */

/* to[rows, cols], dense, = rows of `from`, ld elements apart. */
static void NAME(tile_in)(const void *from, int64_t ld, int64_t rows, int64_t cols, float *to)
{
    for (int64_t i = 0; i < rows; i++, to += cols)
        ecopy((T *)to, (const E *)from + i * ld, cols);
}

/* The way back. */
static void NAME(tile_out)(const float *from, int64_t rows, int64_t cols, void *to, int64_t ld)
{
    for (int64_t i = 0; i < rows; i++, from += cols) {
        const T *row = (const T *)from;
        E *put = (E *)to + i * ld;
        int64_t c = 0;
        for (; c + VL <= cols; c += VL)
            estore(put + c, vload(row + c));
        if (c < cols)
            estore_n(put + c, vload_n(row + c, cols - c, 0), cols - c);
    }
}

/* Adds a row to each row. */
static void NAME(add_row)(const float *row, int64_t rows, int64_t cols, float *to)
{
    for (int64_t i = 0; i < rows; i++, to += cols)
        for (int64_t c = 0; c < cols; c++)
            to[c] += row[c];
}

/* Adds all rows to a row, in their order. */
static void NAME(sum_columns)(const float *from, int64_t rows, int64_t cols, float *sum)
{
    for (int64_t i = 0; i < rows; i++, from += cols)
        for (int64_t c = 0; c < cols; c++)
            sum[c] += from[c];
}

/* Adds to sum[i] what is in row i. */
static void NAME(sum_rows)(const float *from, int64_t rows, int64_t cols, float *sum)
{
    for (int64_t i = 0; i < rows; i++, from += cols)
        for (int64_t c = 0; c < cols; c++)
            sum[i] += from[c];
}
