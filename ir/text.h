/* text.h - what the printer and the parser of the text share; private to ir/. */
#ifndef MGC_IR_TEXT_H
#define MGC_IR_TEXT_H

#include <stddef.h>

/* How much of a label is the value's hint: all of it, but for the ".N" that makes it unique. */
size_t label_stem(const char *label, size_t length);

#endif
