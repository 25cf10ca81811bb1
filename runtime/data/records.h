/* records.h - the records of a token file as rows of a named input. */
#ifndef RT_RECORDS_H
#define RT_RECORDS_H

#include "runtime/run.h"

/* Records of a file. `index`: the descriptor of the Megatron index that says where each lies; -1:
 * they follow one another, each as long as a row. */
typedef struct rt_records {
    int index;
    int64_t rows;
} rt_records;

/* Opens f->path and counts its records. Each has as many tokens as a row of `in`, or fewer where
 * rows are filled up; all tokens are below in->limit. Every failure ends the program with 65. */
rt_records rt_records_open(rt_file *f, const mg_input *in, bool filled);
/* Record number `row` as in->elements numbers; `fill` behind its end. */
void rt_records_read(const rt_file *f, const rt_records *r, const mg_input *in, int64_t row,
                     int64_t fill, int32_t *to);
void rt_records_close(rt_records *r);

#endif
