/* text.h - what the printer and the parser of the text share; private to ir/. */
#ifndef MGC_IR_TEXT_H
#define MGC_IR_TEXT_H

#include <stddef.h>

/* How much of a label is the value's hint: all of it, but for the ".N" that makes it unique. */
size_t label_stem(const char *label, size_t length);

/* Per kind of attribute: is it printed where it is set alone; is it not set? */
#define TEXT_MARK_DIMS     false
#define TEXT_MARK_DIM      false
#define TEXT_MARK_INT      false
#define TEXT_MARK_REAL     false
#define TEXT_MARK_FLAG     false
#define TEXT_MARK_NAME     false
#define TEXT_MARK_AXES     false
#define TEXT_MARK_MARK     true
#define TEXT_UNSET_DIMS(v) false
#define TEXT_UNSET_DIM(v)  false
#define TEXT_UNSET_INT(v)  false
#define TEXT_UNSET_REAL(v) false
#define TEXT_UNSET_FLAG(v) false
#define TEXT_UNSET_NAME(v) false
#define TEXT_UNSET_AXES(v) false
#define TEXT_UNSET_MARK(v) (!(v))

#endif
