#!/bin/sh
# test_text.sh TOOL CASES PASSES - what passes-text says of files that are wrong, what its -u
# repairs, and that every pass has a file of cases and a row in the table of PASSES/README.md. Works on copies, below the current directory.
set -eu
tool=$1 cases=$2 table=$3/passes.def page=$3/README.md
dir=$(mktemp -d "$PWD/passes_text.XXXXXX")
trap 'rm -rf "$dir"' EXIT
name=dce # the file that is copied
good=$cases/$name.mgir file=$dir/case.mgir said=$dir/said

fail() {
    echo "$1" >&2
    cat "$said" >&2
    exit 1
}

# refused WHAT LINE MESSAGE: the file is a failed test, and the message names that line of it.
refused() {
    if "$tool" "$file" >"$said" 2>&1; then
        fail "$1: not found"
    fi
    grep -qF "$file:$2:$3" "$said" || fail "$1: it is not said of line $2 that$3"
}

# The number of the first line that is TEXT.
line_of() {
    grep -nxFm1 -e "$1" "$file" | cut -d: -f1
}

"$tool" "$good" >"$said" 2>&1 || fail "a file that holds"
if "$tool" >"$said" 2>&1; then
    fail "no file is no test"
fi

# A wrong "after" is found, shown, and repaired to what it was, byte for byte.
awk '/^-----$/ && !after++ { print; getline; sub("sin", "cos") } { print }' "$good" >"$file"
if cmp -s "$good" "$file"; then
    fail "nothing was planted"
fi
refused "a wrong after" $(($(line_of -----) + 1)) " pass '$name' gives something else: "
grep -q '^ *[0-9][0-9]* -   %c: .* = cos %x$' "$said" || fail "what is wrong is not shown"
grep -q '^ * +   %c: .* = sin %x$' "$said" || fail "what it is to be is not shown"
"$tool" -u "$file" >"$said" 2>&1 || fail "-u does not repair it"
cmp "$good" "$file" || fail "-u makes another file of it"
"$tool" "$file" >"$said" 2>&1 || fail "what -u wrote does not hold"

# An empty part is filled, too: so a new case is written.
awk '/^# case: / { skip = 0 } !skip { print } /^-----$/ { skip = 1 }' "$good" >"$file"
"$tool" -u "$file" >"$said" 2>&1 || fail "-u does not fill what is empty"
cmp "$good" "$file" || fail "-u fills it with something else"

# A file without cases is a failed test, with -u as well.
sed "1s/$name/un$name/" "$good" >"$file"
refused "an unknown pass" 1 " no pass is called 'un$name'"
if "$tool" -u "$file" >"$said" 2>&1; then
    fail "-u passes over an unknown pass"
fi
sed 1d "$good" >"$file"
refused "no pass" 1 " the first line is to be '# pass: NAME'"
sed '/^-----$/d' "$good" >"$file"
refused "no middle" "$(grep -nm1 '^# case: ' "$file" | cut -d: -f1)" " this case has no line '-----'"
sed 's/^-----$/&\n&/' "$good" >"$file"
refused "two middles" $(($(line_of -----) + 1)) " this case has a second line '-----'"
sed '/^# case: /,$d' "$good" >"$file"
refused "no case" $(($(wc -l <"$file") + 1)) " there is no '# case: SENTENCE'"
sed '0,/= sin %x/s//= sine %x/' "$good" >"$file"
refused "no IR" "$(grep -nm1 '= sine %x' "$file" | cut -d: -f1)" "23: error[MG0408]: there is no op 'sine'"
sed '0,/f32\[i=4\] = sum/s//f32[i=5] = sum/' "$good" >"$file"
refused "a program that is none" "$(grep -nm1 '^# case: ' "$file" | cut -d: -f1)" \
    " the program before the pass is none"

# Every pass has a file, and a row.
: >"$said"
passes=$(sed -n 's/^PASS(\([a-z_]*\),.*/\1/p' "$table")
[ -n "$passes" ] || fail "there are no passes in $table"
for pass in $passes; do
    grep -qx "# pass: $pass" "$cases"/*.mgir || fail "no file of cases is for pass '$pass'"
    grep -q "^| $pass | " "$page" || fail "$page has no row for pass '$pass'"
done
