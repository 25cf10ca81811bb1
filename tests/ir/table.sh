#!/bin/sh
# table.sh TOOL README LANGUAGE [--write] - the part of README between its two marks is what TOOL
# prints (--write puts it there), and LANGUAGE says of every function and every optimizer that is a row what it is.
set -eu
if [ "${4-}" = --write ]; then
    "$1" | sed -i -e '/<!-- written by/r /dev/stdin' -e '/<!-- written by/,/<!-- end/{/<!--/!d}' "$2"
fi
sed -n '/<!-- written by/,/<!-- end/p' "$2" | sed '1d;$d' >"$1.have"
if ! "$1" | diff "$1.have" -; then
    echo "$2 is not what ir/ops.def says: ninja op-tables writes it"
    exit 1
fi
for function in $("$1" functions); do
    if ! sed -n '/^## Functions/,/^## /p' "$3" | grep -q "^|.*[\` ]$function[\`( ]"; then
        echo "$3 does not say what the function '$function' is"
        exit 1
    fi
done
for optimizer in $("$1" optimizers); do
    if ! sed -n '/^## Train/,/^## /p' "$3" | grep -q "^| \`$optimizer("; then
        echo "$3 does not say what the optimizer '$optimizer' is"
        exit 1
    fi
done
