/* cm.h - cmocka with the headers it asks for. */
#ifndef TEST_CM_H
#define TEST_CM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
