#!/bin/sh
# table.sh TOOL README - the part of README between its two marks is what TOOL prints.
set -eu
sed -n '/<!-- written by/,/<!-- end/p' "$2" | sed '1d;$d' >"$1.have"
"$1" | diff "$1.have" -
