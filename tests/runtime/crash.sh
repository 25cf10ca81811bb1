# A crash, a full disk or a failing disk at every system call of a run that saves: strace injects them.
here=$(cd "$(dirname "$0")" && pwd)
command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null || {
    echo "skipped: strace is not there, or may not trace"
    exit 77
}
. "$here/lib.sh"
fake=$bin/fake
export ASAN_OPTIONS=detect_leaks=0 # where there is one: it cannot look for leaks under strace
run="--data text --steps 4 --save-every 1 --keep 2 --threads 1 --log-every 4"

expect 0 "$fake" $run --out whole

# resumes WHAT: a second run goes on from what the first left, and ends as `whole` did.
resumes() {
    "$fake" $run --out run --resume=auto >out 2>err </dev/null ||
        { cat err >&2; fail "$1: cannot be resumed"; }
    for f in model.safetensors optimizer.safetensors; do
        cmp run/ckpt/step-00000004/$f whole/ckpt/step-00000004/$f || fail "$1: $f differs"
    done
    says_not err "passed over"
    left=$(ls -A run/ckpt | tr '\n' ' ')
    case $left in
    "step-00000003 step-00000004 ") ;;
    "step-0000000"[12]" step-00000004 ") # step 3 could not be saved
        grep -q 'no checkpoint of step 3' warned 2>/dev/null || fail "$1: left $left" ;;
    *) fail "$1: left $left" ;;
    esac
}

strace -f -o trace -P run/ckpt -e trace=write,fsync,openat,mkdirat,renameat,renameat2,unlinkat "$fake" $run --out run \
    >/dev/null 2>&1 </dev/null
points=0 parts=1
[ -z "${MGC_SANITIZED-}" ] || parts=3
for call in write pwrite64 fsync openat mkdirat renameat2 renameat unlinkat; do
    k=1
    while :; do
        [ $call = openat ] && [ $k -gt 3 ] && [ $k -lt 20 ] && k=20 # the loader's own
        [ $k -lt 200 ] || fail "$call never ends"
        sampled $k $parts || { k=$((k + 1)); continue; }
        rm -rf run
        strace -f -o trace -e trace=$call -e inject=$call:signal=KILL:when=$k "$fake" $run --out run \
            >/dev/null 2>&1 </dev/null
        code=$?
        [ $code -eq 0 ] && break # fewer than k such calls
        points=$((points + 1))
        resumes "killed at $call $k"
        k=$((k + 1))
    done
done
[ $points -gt $((60 / parts)) ] || fail "only $points crash points were tried"

# Failing writes, syncs and renames: a warning, nothing lost, and the run goes on. The last save
# failing is exit 74: its result is not there.
calls="pwrite64 fsync renameat2 mkdirat" when="1 2 5 8"
if [ -n "${MGC_FULL-}" ]; then # each call there is; reading on from a checkpoint is no part of it
    calls="write pwrite64 fsync fallocate mkdirat renameat2 unlinkat" when=$(seq 1 60)
fi
for error in ENOSPC EIO; do
    for call in $calls; do
        for k in $when; do
            sampled $k $parts || continue
            rm -rf run
            strace -f -o trace -e trace=$call -e inject=$call:error=$error:when=$k "$fake" $run --out run \
                >out 2>err </dev/null
            code=$?
            points=$((points + 1))
            [ $code -eq 0 ] || [ $code -eq 74 ] || fail "$error at $call $k: exit $code"
            cp err warned
            [ $code -eq 0 ] || [ -d run/ckpt/step-00000003 ] || fail "$error at $call $k: step 3 is lost too"
            resumes "$error at $call $k"
        done
    done
    rm -rf run
    strace -f -o trace -e trace=fsync -e inject=fsync:error=$error:when=3+ "$fake" $run --out run >out 2>err </dev/null
    [ $? -eq 74 ] || fail "a disk that fails for good is exit 74"
    says err "no checkpoint of step 4"
    says err "the newest is none"
done
echo "$points crash points"
exit 0
