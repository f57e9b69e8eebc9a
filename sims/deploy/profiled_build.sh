#!/usr/bin/env bash
# Builds `trainyard` by a profile of itself: first a program that counts what runs, then the one that the
# compiler lays out by these counts. The program to use is target/profiled/trainyard. Takes three times as
# long as `cargo build --release` (docs/deploying.md). Needs `rustup component add llvm-tools`.
#
#   sims/deploy/profiled_build.sh [FLAGS FOR CARGO, LIKE --features object-store]
set -euo pipefail
cd "$(dirname "$0")/../.."

host=$(rustc -vV | sed -n 's/^host: //p')
merge=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
if [ ! -x "$merge" ]; then
    echo "llvm-profdata is missing: rustup component add llvm-tools" >&2
    exit 1
fi

folder=$PWD/target/profiled
counts=$folder/counts
built=$folder/$host/dist/trainyard

# With a target, build scripts and macros are built without these flags.
build() {
    RUSTFLAGS="${RUSTFLAGS:-} $1" cargo build --profile dist --target "$host" --target-dir "$folder" \
        --bin trainyard "${@:2}"
}

rm -rf "$counts"
build "-Cprofile-generate=$counts" "$@"

# What matters to speed: the loop of the simulator, all that coordinates and recovers, and QUIC.
export LLVM_PROFILE_FILE=$counts/%m_%p.profraw
sim() { "$built" sim "sims/$1" --quiet "${@:2}"; }
launch() { "$built" launch sims/deploy/profile.toml --quiet --set cluster.ps=1 --set cluster.worker=2 "$@"; }
sim deploy/profile.toml
sim deploy/profile.toml --set cluster.worker=64 --set stop.steps=200
sim sync_vs_async.toml
sim chaos.toml --chaos 20
launch --run sync --run async
launch --run async --set program.bytes=40MB --set stop.steps=40
unset LLVM_PROFILE_FILE
"$merge" merge -o "$counts/all" "$counts"/*.profraw
profile=$folder/$(cksum <"$counts/all" | cut -d' ' -f1).profdata # cargo sees another flag, not another file
rm -f "$folder"/*.profdata
mv "$counts/all" "$profile"
rm -r "$counts"

build "-Cprofile-use=$profile" "$@"
ln -f "$built" "$folder/trainyard"
