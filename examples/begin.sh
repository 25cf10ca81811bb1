# begin.sh - the start of each example's run, which reads it. Afterwards MGC is the compiler, HERE the example's folder, and the
# working folder is the one that was given ($1), or a new one that is removed at the end. show COMMAND... says it and runs it.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
MGC=${MGC:-$HERE/../../build/mgc}
case $MGC in
*/*) [ ! -x "$MGC" ] || MGC=$(cd "$(dirname "$MGC")" && pwd)/$(basename "$MGC") ;;
esac
command -v "$MGC" >/dev/null || {
    echo "$0: there is no compiler at $MGC: build it (cmake -B build -G Ninja && ninja -C build), or set MGC" >&2
    exit 69
}
if [ $# = 0 ]; then
    folder=$(mktemp -d "${TMPDIR:-/tmp}/mgc-example.XXXXXX")
    trap 'cd / && rm -rf "$folder"' EXIT
    trap 'exit 130' INT TERM
    echo "in $folder, which is removed at the end; '$0 FOLDER' works in FOLDER and keeps it"
elif [ $# = 1 ]; then
    folder=$1
    mkdir -p "$folder"
    [ -z "$(ls -A "$folder")" ] || {
        echo "$0: $folder is not empty: name a new folder, or an empty one" >&2
        exit 73
    }
else
    echo "usage: $0 [FOLDER]" >&2
    exit 64
fi
cd "$folder"

show() {
    printf '$'
    for word; do
        case $word in
        '' | *[!A-Za-z0-9_./=,:-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    echo
    "$@"
}
