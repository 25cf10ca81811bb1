# SIGTERM and SIGINT save and exit 75; SIGUSR1 saves and goes on; a second SIGINT leaves.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake

expect 0 "$fake" --data text --out whole
export MGC_FAKE_US=20000

# start DIR: the program in the background, once it has made some steps. A background job of a
# script ignores SIGINT, which a program started by hand does not: env sets it back.
start() {
    dir=$1
    rm -rf "$dir"
    env --default-signal=INT "$fake" --data text --out "$dir" >out 2>err </dev/null &
    pid=$!
    until grep -q '"step":5,' "$dir/metrics.jsonl" 2>/dev/null; do
        sleep 0.01
        kill -0 $pid || fail "it did not start"
    done
}

for signal in TERM INT HUP; do
    start run
    kill -$signal $pid
    wait $pid
    code=$?
    [ $code -eq 75 ] || { cat err >&2; fail "SIG$signal: exit $code"; }
    says out "saved run/ckpt/step-"
    says err "--resume goes on from there"
    MGC_FAKE_US=0 expect 0 "$fake" --data text --out run --resume
    same_run whole run
done

start run
kill -USR1 $pid
sleep 0.3
ls run/ckpt/step-* >/dev/null || fail "SIGUSR1 did not save"
kill -0 $pid || fail "SIGUSR1 ended the run"
kill -TERM $pid
wait $pid
[ $? -eq 75 ] || fail "SIGTERM after SIGUSR1"

# SIGUSR2 tells where the run is, in the middle of a step and without disturbing it.
start run
kill -USR2 $pid
sleep 0.2
kill -0 $pid || fail "SIGUSR2 ended the run"
grep -Eq 'after step [0-9]+ of [0-9]+, ' err || { cat err >&2; fail "SIGUSR2 said nothing"; }
kill -TERM $pid
wait $pid

# --max-time stops in time, saves, and can be gone on from.
rm -rf run
env "$fake" --data text --out run --steps 100000 --max-time 1 >out 2>err </dev/null
code=$?
[ $code -eq 75 ] || fail "--max-time: exit $code"
says out "max-time after step"
ls run/ckpt/step-* >/dev/null || fail "--max-time did not save"
for wrong in 0 x 5x 1:60 3h20 20m3h -1 1: :5; do
    MGC_FAKE_US=0 expect 2 "$fake" --data text --max-time "$wrong"
    says err "a time is 90"
done

# The second interrupt comes while the step of the first is not over.
export MGC_FAKE_US=900000
rm -rf run
env --default-signal=INT "$fake" --data text --out run >out 2>err </dev/null &
pid=$!
until [ -e run/metrics.jsonl ]; do sleep 0.05; done
sleep 0.2
kill -INT $pid
sleep 0.2
kill -INT $pid
wait $pid
code=$?
[ $code -eq 130 ] || fail "second SIGINT: exit $code"
says err "leaving without saving"
exit 0
