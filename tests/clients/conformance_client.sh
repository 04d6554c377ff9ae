#!/bin/sh
# Does as a client what the official conformance suite asks of one: greets the server, lists its tools, and calls the one of the
# scenario (MCP_CONFORMANCE_SCENARIO). Usage: conformance_client.sh PROGRAM URL
set -eu
program=$1
url=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cat >"$place/policy.toml" <<POLICY
version = 1
tier = "exec"
[mcp.suite]
url = "$url"
tools = ["*"]
POLICY
mkdir "$place/workspace"
toolgate() {
    "$program" tool "$@" --workspace "$place/workspace" --mode edit --policy "$place/policy.toml"
}
case $MCP_CONFORMANCE_SCENARIO in
    tools_call) toolgate call add_numbers '{"a": 5, "b": 3}' ;;
    sse-retry) toolgate call test_reconnection '{}' ;;
    elicitation-*) toolgate call test_client_elicitation_defaults '{}' ;;
    *) toolgate list ;;
esac
