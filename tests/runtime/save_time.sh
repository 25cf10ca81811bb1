# --save-every with a time: checkpoints as the clock of rank 0 says, the same losses, and a run that goes on from any of
# them ends as the run that was not interrupted.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake

# Less than a step takes: each is saved. Longer than the run: the last alone.
expect 0 "$fake" --data text --steps 12 --save-every 1000h --out last
[ "$(ls last/ckpt)" = step-00000012 ] || fail "saved $(ls last/ckpt)"
expect 0 "$fake" --data text --steps 12 --save-every 0.000001s --keep 0 --out each
[ "$(ls each/ckpt | wc -l)" -eq 12 ] || fail "saved $(ls each/ckpt)"
same_run last each
expect 0 "$fake" --data text --steps 12 --save-every 1000:00:00 --out words
[ "$(ls words/ckpt)" = step-00000012 ] || fail "saved $(ls words/ckpt)"

# In between: some, not all, and time since the last save counts, not since the beginning.
expect 0 "$fake" --data text --steps 3000 --save-every 0.05s --keep 0 --out some
n=$(ls some/ckpt | wc -l)
[ "$n" -ge 2 ] && [ "$n" -lt 3000 ] || fail "$n of 3000 steps were saved"
expect 0 "$fake" --data text --steps 3000 --save-every 0 --out plain
same_run some plain
first=$(ls some/ckpt | head -1)
mkdir -p again/ckpt && cp some/metrics.jsonl again && cp -r "some/ckpt/$first" again/ckpt
expect 0 "$fake" --data text --steps 3000 --save-every 0.2s --out again --resume
says out "resumed from again/ckpt/$first"
same_run plain again
