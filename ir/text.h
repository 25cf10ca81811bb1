/* text.h - what the printer and the parser of the text share; private to ir/. */
#ifndef MGC_IR_TEXT_H
#define MGC_IR_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "ir/ir.h"

/* A name as it is where it is a word, else as a string; a string, quoted; a number. */
void text_put_name(FILE *out, const char *s);
void text_put_string(FILE *out, const char *s);
void text_put_real(FILE *out, double x);

/* How much of a label is the value's hint: all of it, but for the ".N" that makes it unique. */
size_t label_stem(const char *label, size_t length);

void text_print_dim(const Module *m, Dim d, FILE *out);
void text_print_axes(const Module *m, Axes axes, FILE *out);
void text_print_type(const Module *m, const Type *t, FILE *out);
/* " @line:column" of the model's source; nothing for another place. */
void text_print_place(const Module *m, Span s, FILE *out);

/* text_print_header.c: all that comes before the functions. */
void text_print_header(const Module *m, FILE *out);

/* text_taps.c: "=[row=8 at 2 half_row=4, 1 down=3, -1 every 1]" */
void text_print_taps(const Module *m, const Taps *t, FILE *out);

/* Per kind of attribute: is it said where it is set alone; and its name alone; is it not set? */
#define TEXT_OPTIONAL_DIMS    false
#define TEXT_OPTIONAL_DIM     false
#define TEXT_OPTIONAL_INT     false
#define TEXT_OPTIONAL_REAL    false
#define TEXT_OPTIONAL_FLAG    false
#define TEXT_OPTIONAL_NAME    false
#define TEXT_OPTIONAL_AXES    false
#define TEXT_OPTIONAL_FACTORS false
#define TEXT_OPTIONAL_TAPS    false
#define TEXT_OPTIONAL_MARK    true
#define TEXT_OPTIONAL_SHARE   true
#define TEXT_OPTIONAL_COUNT   true
#define TEXT_OPTIONAL_OTHER   true
#define TEXT_ALONE_DIMS       false
#define TEXT_ALONE_DIM        false
#define TEXT_ALONE_INT        false
#define TEXT_ALONE_REAL       false
#define TEXT_ALONE_FLAG       false
#define TEXT_ALONE_NAME       false
#define TEXT_ALONE_AXES       false
#define TEXT_ALONE_FACTORS    false
#define TEXT_ALONE_TAPS       false
#define TEXT_ALONE_SHARE      false
#define TEXT_ALONE_COUNT      false
#define TEXT_ALONE_OTHER      false
#define TEXT_ALONE_MARK       true
#define TEXT_UNSET_DIMS(v)    false
#define TEXT_UNSET_DIM(v)     false
#define TEXT_UNSET_INT(v)     false
#define TEXT_UNSET_REAL(v)    false
#define TEXT_UNSET_FLAG(v)    false
#define TEXT_UNSET_NAME(v)    false
#define TEXT_UNSET_AXES(v)    false
#define TEXT_UNSET_FACTORS(v) false
#define TEXT_UNSET_TAPS(v)    false
#define TEXT_UNSET_MARK(v)    (!(v))
#define TEXT_UNSET_SHARE(v)   ((v) == 0)
#define TEXT_UNSET_COUNT(v)   ((v) == 0)
#define TEXT_UNSET_OTHER(v)   ((v).name == 0)

#endif
