# Sourced after scripts/lib/prerequisites.sh: makes sure that commands can be confined here.
#
# On Linux run_command needs bubblewrap. It is installed by apt where that may be done without asking; without it
# everything else works, run_command is refused, and "toolgate doctor" says so.

can_install() {
    has apt-get && { [ "$(id -u)" = 0 ] || { has sudo && sudo -n true 2>/dev/null; }; }
}

prepare_sandbox() {
    [ "$(uname -s)" = Linux ] || return 0
    if ! has bwrap && can_install; then
        say "installing bubblewrap by apt"
        install_bubblewrap || { as_root apt-get update -q >&2 && install_bubblewrap; } || true
    fi
    has bwrap || say "bubblewrap is missing: run_command will be refused (Debian, Fedora, Alpine: package bubblewrap)"
}

install_bubblewrap() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends bubblewrap >&2
}
