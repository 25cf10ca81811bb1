# SIGKILL at twenty moments of a run that saves all the time: what is left always resumes, and the run
# ends with the bits of one that was never killed.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake

expect 0 "$fake" --data text --out whole
export MGC_FAKE_US=2000
kills=0 tries=0
while [ $kills -lt 20 ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || fail "only $kills of $tries runs were killed"
    "$fake" --data text --out run --resume=auto --save-every 1 --keep 2 >out 2>err </dev/null &
    pid=$!
    # 5 to 60 ms, in an order that covers them all: saving takes most of the time.
    sleep "0.0$(printf '%02d' $((5 + tries * 17 % 56)))"
    kill -KILL $pid 2>/dev/null && kills=$((kills + 1))
    wait $pid 2>/dev/null
    code=$?
    [ $code -eq 137 ] || [ $code -eq 0 ] || { cat err >&2; fail "exit $code after $kills kills"; }
    ls run/ckpt 2>/dev/null | grep -q step-00000060 && {
        same_run whole run
        rm -rf run
    }
done
expect 0 "$fake" --data text --out run --resume=auto --save-every 1 --keep 2
says_not err "passed over"
same_run whole run
[ "$(ls -A run/ckpt | tr '\n' ' ')" = "step-00000059 step-00000060 " ] || fail "left: $(ls -A run/ckpt)"
exit 0
