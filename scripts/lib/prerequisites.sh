# Sourced by scripts/demo and scripts/test: makes sure that llama.cpp can be built here.
#
# It needs cargo, a C and a C++ compiler, make or ninja, cmake, and libclang (for bindgen). What is missing is taken
# from apt where that may be done without asking, else from PyPI wheels into the target directory; what neither gives
# is named, with the way to install it. Nothing is printed and nothing is done where everything is there.
#
# Expects to be sourced from the repository's root. May set PATH, LIBCLANG_PATH, BINDGEN_EXTRA_CLANG_ARGS and
# CMAKE_GENERATOR for what the calling script runs.

prerequisites_dir="${CARGO_TARGET_DIR:-target}/prerequisites"

say() {
    printf '%s\n' "$*" >&2
}

die() {
    say "error: $*"
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Prints the directory of a libclang where bindgen would find it; the patterns are those of the clang-sys crate, which
# passes over libclang-cpp: another library, and often there alone.
libclang_dir() {
    for directory in ${LIBCLANG_PATH:-} "$(llvm-config --libdir 2>/dev/null || true)" \
        /usr/lib/llvm-*/lib /usr/local/llvm*/lib /usr/lib/*-linux-gnu* /usr/lib64 /usr/lib \
        /usr/local/lib /opt/homebrew/opt/llvm/lib /Library/Developer/CommandLineTools/usr/lib; do
        for library in "$directory"/libclang.so "$directory"/libclang.so.* "$directory"/libclang-*.so* \
            "$directory"/libclang.dylib; do
            case $library in
                *-cpp.*) continue ;;
            esac
            if [ -n "$directory" ] && [ -f "$library" ]; then
                printf '%s\n' "$directory"
                return 0
            fi
        done
    done
    return 1
}

# Names what is missing, as words: cxx make cmake libclang.
missing_prerequisites() {
    has "${CXX:-c++}" || has g++ || has clang++ || printf 'cxx '
    has make || has ninja || printf 'make '
    has "${CMAKE:-cmake}" || printf 'cmake '
    libclang_dir >/dev/null || printf 'libclang '
}

# Runs apt-get if that is possible without asking for a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

install_by_apt() {
    has apt-get || return 1
    [ "$(id -u)" = 0 ] || { has sudo && sudo -n true 2>/dev/null; } || return 1
    packages=
    for word in $1; do
        case $word in
            cxx) packages="$packages g++" ;;
            make) packages="$packages make" ;;
            cmake) packages="$packages cmake" ;;
            libclang) packages="$packages libclang-dev" ;;
        esac
    done
    say "installing$packages by apt"
    # The list of packages may be missing or old: fetched only when it has to be. It is a list of words.
    # shellcheck disable=SC2086
    {
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages >&2 ||
            { as_root apt-get update -q >&2 &&
                as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages >&2; }
    } || { say "apt could not install them; trying PyPI"; return 1; }
}

# Unpacks wheels into the target directory; needs no rights and leaves the system alone.
install_by_pip() {
    wheels=
    for word in $1; do
        case $word in
            # Major versions that are known to build llama.cpp and to suit bindgen.
            cmake) wheels="$wheels cmake>=3.28,<5" ;;
            libclang) wheels="$wheels libclang>=16,<19" ;;
            make) wheels="$wheels ninja>=1.11,<2" ;;
        esac
    done
    [ -n "$wheels" ] || return 1
    python3 -m pip --version >/dev/null 2>&1 || return 1
    say "fetching$wheels from PyPI into $prerequisites_dir"
    # shellcheck disable=SC2086
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --only-binary :all: --upgrade \
        --target "$prerequisites_dir" $wheels >&2
}

link_program() {
    if [ -x "$fetched/$1/data/bin/$1" ]; then
        ln -sf "$fetched/$1/data/bin/$1" "$fetched/path/$1"
    elif [ -x "$fetched/bin/$1" ]; then
        ln -sf "$fetched/bin/$1" "$fetched/path/$1"
    fi
}

# Makes what an earlier run fetched from PyPI visible.
use_fetched() {
    [ -d "$prerequisites_dir" ] || return 0
    fetched=$(cd "$prerequisites_dir" && pwd)
    # The wheels' own launchers need their Python package; the programs behind them do not.
    mkdir -p "$fetched/path"
    has cmake || link_program cmake
    has make || has ninja || link_program ninja
    case ":$PATH:" in
        *":$fetched/path:"*) ;;
        *) PATH="$fetched/path:$PATH" ;;
    esac
    export PATH
    if ! libclang_dir >/dev/null && [ -e "$fetched/clang/native" ]; then
        LIBCLANG_PATH="$fetched/clang/native"
        export LIBCLANG_PATH
    fi
}

# A libclang that came alone has no headers of its own (stddef.h, stdbool.h, ...): gcc's do.
give_libclang_headers() {
    directory=$(libclang_dir) || return 0
    for header in "$directory"/clang/*/include/stddef.h "$directory"/../lib/clang/*/include/stddef.h \
        /usr/lib/clang/*/include/stddef.h /usr/lib/llvm-*/lib/clang/*/include/stddef.h; do
        # Headers of another version than the library's may use builtins that it does not know.
        case $header in
            "$directory"*) [ ! -e "$header" ] || return 0 ;;
            *) [ ! -e "$header" ] || [ -n "${LIBCLANG_PATH:-}" ] || return 0 ;;
        esac
    done
    case "${BINDGEN_EXTRA_CLANG_ARGS:-}" in
        *-I* | *-isystem*) return 0 ;;
    esac
    include=$(gcc -print-file-name=include 2>/dev/null || cc -print-file-name=include 2>/dev/null) || return 0
    if [ -e "$include/stddef.h" ]; then
        BINDGEN_EXTRA_CLANG_ARGS="${BINDGEN_EXTRA_CLANG_ARGS:-} -I$include"
        export BINDGEN_EXTRA_CLANG_ARGS
    fi
}

# The whole of it.
prepare() {
    has cargo || die "cargo is missing: install Rust (https://rustup.rs), then run this again"
    use_fetched
    missing=$(missing_prerequisites)
    if [ -n "$missing" ]; then
        install_by_apt "$missing" || install_by_pip "$missing" || true
        use_fetched
        missing=$(missing_prerequisites)
    fi
    if [ -n "$missing" ]; then
        say "error: missing, and neither apt nor pip could install it: $missing"
        say "  on Debian or Ubuntu: apt-get install g++ make cmake libclang-dev"
        say "  on Fedora:           dnf install gcc-c++ make cmake clang-devel"
        say "  on Alpine:           apk add g++ make cmake clang-dev"
        say "  on macOS:            xcode-select --install && brew install cmake"
        exit 1
    fi
    if ! has make && has ninja && [ -z "${CMAKE_GENERATOR:-}" ]; then
        CMAKE_GENERATOR=Ninja
        export CMAKE_GENERATOR
    fi
    give_libclang_headers
}
