// Drives `toolgate mcp` through the official TypeScript package `@modelcontextprotocol/client`, by pipes and by HTTP, in the
// protocol with sessions and in the one without (2026-07-28).
//
// Usage: NODE_PATH=.../node_modules node mcp_client.cjs PROGRAM WORKSPACE [POLICY]; exit code 0 if all is as it should be.
// WORKSPACE holds a.txt with "alpha\n". POLICY names a server whose tool `grow` gives it another tool, `grown`.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

const [program, workspace, policy] = process.argv.slice(2);
const options = ['mcp', '--no-ask', '--workspace', workspace, '--mode', 'edit', ...(policy ? ['--policy', policy] : [])];
// The protocols that were agreed on.
const versions = new Set();

const text = (result) => result.content.map((part) => part.text ?? '').join('');

function within(seconds, promise, what) {
    const late = new Promise((_, reject) => setTimeout(reject, seconds * 1000, new Error(`no ${what}`)).unref());
    return Promise.race([promise, late]);
}

// What every client is given, however it is connected.
async function check(mode, transport) {
    let heard;
    const changed = new Promise((resolve) => (heard = resolve));
    const onChanged = (error, tools) => heard(error ?? tools);
    const client = new Client(
        { name: 'test', version: '1' },
        { versionNegotiation: { mode }, listChanged: { tools: { onChanged } } },
    );
    await within(60, client.connect(transport), 'connection');
    versions.add(client.getNegotiatedProtocolVersion());
    assert.equal(client.getServerVersion().name, 'toolgate');

    const { tools } = await client.listTools();
    const named = Object.fromEntries(tools.map((tool) => [tool.name, tool]));
    assert.deepEqual(named.read_file.inputSchema.required, ['path']);
    assert.equal(named.read_file.annotations.readOnlyHint, true);
    assert.equal(named.write_file.annotations.destructiveHint, true);

    const call = (name, args) => client.callTool({ name, arguments: args });
    const read = await call('read_file', { path: 'a.txt' });
    assert.ok(!read.isError && text(read) === 'alpha\n', JSON.stringify(read));
    const outside = await call('read_file', { path: '../a.txt' });
    assert.ok(outside.isError && text(outside).includes('outside'), JSON.stringify(outside));
    // The policy has a person asked before writes, and nobody can be asked here.
    const write = await call('write_file', { path: 'b.txt', content: 'beta' });
    assert.ok(write.isError && text(write).includes('--approve auto'), JSON.stringify(write));
    assert.ok(!fs.existsSync(path.join(workspace, 'b.txt')));
    await assert.rejects(call('no_such_tool', {}), /read_file/);

    if (policy && !named.grown) {
        assert.equal(client.getServerCapabilities().tools.listChanged, true);
        assert.equal(text(await call('grow', {})), 'grew');
        const now = await within(60, changed, 'word that the list has changed');
        assert.ok(Array.isArray(now) && now.some((tool) => tool.name === 'grown'), String(now));
        assert.equal(text(await call('grown', {})), 'I am new');
    }
    await client.close();
}

async function http(mode) {
    const server = spawn(program, [...options, '--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] });
    try {
        let address;
        for await (const line of readline.createInterface({ input: server.stderr })) {
            address = /listening at (\S+)/.exec(line)?.[1];
            if (address) break;
        }
        server.stderr.resume();
        await check(mode, new StreamableHTTPClientTransport(new URL(address)));
        const ended = new Promise((resolve) => server.once('exit', resolve));
        server.kill('SIGTERM');
        assert.equal(await within(30, ended, 'end'), 0, 'it does not end in order');
    } finally {
        server.kill('SIGKILL');
    }
}

async function main() {
    for (const mode of ['legacy', 'auto']) {
        await check(mode, new StdioClientTransport({ command: program, args: options, env: process.env, stderr: 'ignore' }));
        await http(mode);
    }
    assert.equal(versions.size, 2, `not both protocols were spoken: ${[...versions]}`);
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
