# Sourced after scripts/lib/prerequisites.sh: says what is skipped, and lists it at the end.
#
# Steps of scripts add a line by skip_optional or skip_required. Tests add lines to the same file (tests/support/skip.rs).
# Where CI is true, a step may not be skipped that this machine could have had.

TOOLGATE_SKIPPED="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)/skipped"
export TOOLGATE_SKIPPED
: >"$TOOLGATE_SKIPPED"
# Tests add to it that run as another user.
chmod a+rw "$TOOLGATE_SKIPPED"

# Skips the step $1; the rest says what to set or install.
skip_optional() {
    skipped_step=$1
    shift
    say "skipped: $skipped_step: $*"
    printf 'skipped: %s: %s\n' "$skipped_step" "$*" >>"$TOOLGATE_SKIPPED"
}

# The same for a step that the script can provide; in CI it ends the script.
skip_required() {
    [ "${CI:-}" != true ] || die "in CI $1 may not be skipped: $(shift && printf '%s' "$*")"
    skip_optional "$@"
}

# Prints each line once.
list_skipped() {
    if [ -s "$TOOLGATE_SKIPPED" ]; then
        say "$(sort -u "$TOOLGATE_SKIPPED")"
    else
        say "nothing was skipped"
    fi
}
