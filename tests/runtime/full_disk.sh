# Files that may not grow (a quota, a full disk): saves fail with a warning, the run goes on.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake
(ulimit -f 256 && exec "$fake" --data text --out run --steps 8 --save-every 4) >out 2>err </dev/null
code=$?
[ $code -eq 74 ] || fail "exit $code"
says err "no checkpoint of step 4: writing model.safetensors in run/ckpt: File too large; the newest is none"
says err "no checkpoint of step 8"
[ -z "$(ls -A run/ckpt)" ] || fail "left behind: $(ls -A run/ckpt)"
[ "$(losses run | wc -l)" -eq 8 ] || fail "the run did not go on"

# The checkpoint before the disk was full is still there, and resumes.
expect 0 "$fake" --data text --out run --steps 4
(ulimit -f 256 && exec "$fake" --data text --out run --steps 8 --save-every 2 --resume) >out 2>err </dev/null
[ $? -eq 74 ] || fail "not 74"
says err "the newest is step-00000004"
expect 0 "$fake" --data text --out run --steps 8 --resume
says out "resumed from run/ckpt/step-00000004"
exit 0
