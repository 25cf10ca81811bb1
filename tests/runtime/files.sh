# Nothing is written or removed through a symbolic link, nothing outside the run's folder is
# removed, and what is no regular file is refused at once instead of waited for.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake="timeout 20 $bin/fake"

# whole DIR: nothing was taken from it.
whole() {
    [ "$(cat "$1/thesis" 2>&1)" = precious ] || fail "$1 was changed: $2"
}
victim() {
    rm -rf victim && mkdir victim && echo precious >victim/thesis
}

# A link that looks like the rest of an interrupted save: the link goes, its target stays.
for kind in .tmp-step-00000004 .old-step-00000004 .tmp-step-x; do
    rm -rf run && mkdir -p run/ckpt && victim
    ln -s ../../victim run/ckpt/$kind
    expect 0 $fake --data text --out run --steps 4 --save-every 4 --resume
    whole victim "$kind at the start"
    [ ! -L run/ckpt/$kind ] || fail "$kind is still there"
done

# So does one inside what is removed, and one that appears where a save is to be written.
rm -rf run && mkdir -p run/ckpt/.tmp-step-00000002 && victim
ln -s ../../../victim run/ckpt/.tmp-step-00000002/model.safetensors
ln -s "$PWD/victim/thesis" run/ckpt/.tmp-step-00000002/state.json
expect 0 $fake --data text --out run --steps 4 --save-every 2 --resume
whole victim "inside a stale directory"

# A checkpoint that is kept elsewhere and linked is resumed from; --keep removes the link.
rm -rf run backup
expect 0 $fake --data text --out run --steps 4 --save-every 2
mkdir backup && mv run/ckpt/step-00000004 backup/ && ls backup/step-00000004 >had
ln -s ../../backup/step-00000004 run/ckpt/step-00000004
expect 0 $fake --data text --out run --steps 10 --save-every 2 --keep 1 --resume
says out "resumed from run/ckpt/step-00000004"
[ ! -L run/ckpt/step-00000004 ] || fail "--keep left the link"
[ -s had ] && ls backup/step-00000004 | cmp - had || fail "--keep removed files behind the link"

# One of the name of the next save is replaced as a link, and set aside as a link.
victim
ln -s ../../victim run/ckpt/step-00000012
expect 0 $fake --data text --out run --steps 12 --save-every 2 --resume=run/ckpt/step-00000010
whole victim "a link where a save is published"
[ -L run/previous-1/ckpt/step-00000012 ] || fail "the link was not set aside as one"
[ -f run/ckpt/step-00000012/state.json ] && [ ! -L run/ckpt/step-00000012 ] || fail "no save"

# ckpt itself is a directory of the run.
rm -rf elsewhere && mkdir elsewhere
rm -rf run && mkdir run && ln -s ../elsewhere run/ckpt
expect 74 $fake --data text --out run --steps 2
says err "run/ckpt is a symbolic link"
expect 74 $fake --data text --out run --steps 2 --dry-run
says out "run/ckpt is a symbolic link"
rm -rf run && ln -s elsewhere run # the folder that the user names may be reached by one
expect 0 $fake --data text --out run --steps 2
[ -f elsewhere/ckpt/step-00000002/state.json ] || fail "--out through a link"
rm run

# Nothing that the run writes goes through a link.
for file in metrics.jsonl loss.svg.tmp; do
    rm -rf run && mkdir run && victim
    ln -s ../victim/thesis run/$file
    expect 0 $fake --data text --out run --steps 2
    whole victim "$file"
done
rm -rf run && mkdir run && victim && ln -s ../victim/thesis run/.lock
expect 74 $fake --data text --out run --steps 2
whole victim .lock
rm -rf run && mkdir run && victim && ln -s ../victim run/dump
expect 0 $fake --data text --out run --steps 2 --dump '*'
whole victim dump
expect 0 $fake --data text --out run --steps 2 --dump '*' # and again over what is there

# A checkpoint's own files are no links.
rm -rf run && expect 0 $fake --data text --out run --steps 4 --save-every 2
for file in state.json model.safetensors optimizer.safetensors; do
    mv run/ckpt/step-00000004/$file kept && ln -s ../../../kept run/ckpt/step-00000004/$file
    expect 65 $fake --data text --out other --resume=run/ckpt/step-00000004
    says err "$file: it is a symbolic link"
    rm run/ckpt/step-00000004/$file && mv kept run/ckpt/step-00000004/$file
done

# Weights that a user names are read through links, as those of Hugging Face's cache are; what an
# index names is beside it.
mkdir -p hub/blobs hub/snapshots/1
cp run/ckpt/step-00000004/model.safetensors hub/blobs/0
ln -s ../../blobs/0 hub/snapshots/1/model.safetensors
expect 0 $fake --data text --out init --steps 2 --init hub/snapshots/1
tensors=$(head -c 4000 hub/blobs/0 | grep -ao '"[^"]*":{"dtype"' | sed 's/:{.*//')
index() {
    rm -rf sharded && mkdir sharded && cp hub/blobs/0 sharded/part && cp hub/blobs/0 beside
    for t in $tensors; do printf '%s%s:"%s"' "$comma" "$t" "$1" && comma=,; done >map
    comma=
    echo "{\"weight_map\":{$(cat map)}}" >sharded/model.safetensors.index.json
}
comma=
index part
expect 0 $fake --data text --out init2 --steps 2 --init sharded
for name in ../beside "$PWD/beside" sub/../part .. . '' ./part; do
    index "$name"
    expect 65 $fake --data text --out init3 --steps 2 --init sharded
    says err "is not the name of a file beside it"
done

# ---- what is no regular file ----------------------------------------------------------------

# in_place FILE: a pipe that nobody writes, a directory and a device in its place, one after another.
kinds='pipe directory device'
in_place() {
    rm -rf "$2"
    case $1 in
    pipe) mkfifo "$2" ;;
    directory) mkdir "$2" ;;
    device) ln -s /dev/zero "$2" ;;
    esac
}
rm -rf run good && expect 0 $fake --data text --out good --steps 4 --save-every 2
for kind in $kinds; do
    for file in state.json model.safetensors optimizer.safetensors; do
        rm -rf run && cp -r good run && in_place $kind run/ckpt/step-00000004/$file
        expect 65 $fake --data text --out other --resume=run/ckpt/step-00000004
        expect 0 $fake --data text --out run --steps 4 --resume
        says err "passed over: run/ckpt/step-00000004/$file"
        says out "resumed from run/ckpt/step-00000002"
    done
    rm -rf run && cp -r good run && in_place $kind run/metrics.jsonl
    expect 0 $fake --data text --out run --steps 6 --resume
    says err "metrics.jsonl cannot be written"
    rm -rf run && cp -r good run && in_place $kind run/.lock
    expect 74 $fake --data text --out run --steps 6 --resume
    says err "run/.lock: "
    rm -rf run && cp -r good run && in_place $kind run/ckpt/step-00000006
    expect 0 $fake --data text --out run --steps 6 --resume
    in_place $kind odd && expect 65 $fake --data odd --out other --steps 2
    in_place $kind odd.bin && expect 65 $fake --data odd.bin --out other --steps 2
    cp text some.bin && in_place $kind some.idx && expect 65 $fake --data some.bin --out other --steps 2
    [ $kind = directory ] || { in_place $kind odd && expect 65 $fake --data text --init odd --out other; }
    mkdir -p weights && for file in model.safetensors model.safetensors.index.json; do
        in_place $kind weights/$file && expect 65 $fake --data text --init weights --out other
        says err "weights/$file: "
        rm -r weights/$file
    done
done

# A folder that is taken away while the program runs: each save is a warning, the last an error.
rm -rf run
timeout 60 $bin/fake --data text --out run --steps 2000000 --save-every 50 >out 2>err </dev/null &
for i in $(seq 100); do [ -d run/ckpt/step-00000050 ] && break || sleep 0.05; done
mv run taken
sleep 0.2 # a save that had begun is over
kill -TERM $!
wait $!
[ $? -eq 74 ] || { cat err >&2; fail "a folder that is gone"; }
says err "no checkpoint of step"
# One to resume from that is not there.
expect 65 $fake --data text --out run --resume=gone/ckpt/step-00000001
says err "gone/ckpt/step-00000001: No such file or directory"
exit 0
