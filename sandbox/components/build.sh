#!/bin/sh
# Builds the components from their C sources beside them, and the guest of the tests, and says what they are.
#
# Needs clang with its WebAssembly target, wasi-libc, and a Rust toolchain, which brings the linkers. On Debian:
#   apt-get install clang wasi-libc libclang-rt-14-dev-wasm32
# CLANG names another clang.
set -eu
cd "$(dirname "$0")"
clang=${CLANG:-$(command -v clang || command -v clang-14)}
host=$(rustc -vV | sed -n 's/^host: //p')
linkers=$(rustc --print sysroot)/lib/rustlib/$host/bin
libc=/usr/lib/wasm32-wasi
target="--target=wasm32-wasi -O2 -std=gnu11 -Wall -Wextra -Werror"
runtime=$($clang --target=wasm32-wasi -print-libgcc-file-name)
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT

# shellcheck disable=SC2086 # the options are several words
$clang $target -c tool.c -o "$objects/tool.o"
for name in calculator text_statistics; do
    # shellcheck disable=SC2086
    $clang $target -c "$name.c" -o "$objects/$name.o"
    "$linkers/wasm-component-ld" --wasm-ld-path "$linkers/gcc-ld/wasm-ld" --wasi-adapter reactor \
        --component-type ../wit/tool.wit --entry=_initialize --strip-debug -z stack-size=262144 \
        "-L$libc" "$libc/crt1-reactor.o" "$objects/$name.o" "$objects/tool.o" -lc "$runtime" -o "$name.wasm"
done
# The tests' guest, as a preview 1 module and as a component.
guests=../tests/guests
# shellcheck disable=SC2086
$clang $target -c $guests/probe.c -o "$objects/probe.o"
parts="-L$libc $libc/crt1-command.o $objects/probe.o -lc $runtime --strip-debug -z stack-size=1048576"
# shellcheck disable=SC2086
"$linkers/rust-lld" -flavor wasm $parts -o $guests/probe.p1.wasm
# shellcheck disable=SC2086
"$linkers/wasm-component-ld" --wasm-ld-path "$linkers/gcc-ld/wasm-ld" $parts -o $guests/probe.p2.wasm

sha256sum ./*.wasm $guests/*.wasm | sed 's|  \./|  |' | tee SHA256SUMS
