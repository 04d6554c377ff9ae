// Drives a server's Responses API as Vercel's AI SDK does by default, and as the official TypeScript package does.
//
// Usage: NODE_PATH=.../node_modules node responses_client.cjs URL MODEL; exit code 0 if all is as it should be.

const assert = require('node:assert/strict');
const { createOpenAI } = require('@ai-sdk/openai');
const { Output, generateText, stepCountIs, streamText, tool } = require('ai');
const { default: OpenAI } = require('openai');
const { z } = require('zod');

const [url, name] = process.argv.slice(2);
const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: 'unused' })(name);
const city = z.object({ city: z.enum(['Oslo', 'Rome']) });

// A tool that has to be called first, and may not be called again.
function task() {
    const called = [];
    const execute = async ({ city }) => {
        called.push(city);
        return '12 degrees and rain';
    };
    const tools = { get_weather: tool({ description: 'The weather in a city.', inputSchema: city, execute }) };
    const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' });
    return { called, tools, prepareStep, stopWhen: stepCountIs(4), maxOutputTokens: 60, maxRetries: 0, model };
}

async function vercel() {
    const messages = [{ role: 'user', content: 'What is the weather in Oslo?' }];
    const { called, ...whole } = task();
    const first = await generateText({ ...whole, system: 'Be brief.', messages });
    assert.equal(called.length, 1);
    assert.equal(first.steps.length, 2);
    assert.ok(first.text.trim() && first.totalUsage.inputTokens > 0, JSON.stringify(first));

    // The conversation goes on; what was said is named by its id.
    messages.push(...first.response.messages, { role: 'user', content: 'Thank you!' });
    const { called: again, prepareStep, ...streamed } = task();
    const second = streamText({ ...streamed, toolChoice: 'none', messages });
    let text = '';
    for await (const piece of second.textStream) text += piece;
    assert.ok(text.trim() && again.length === 0, text);
    const { called: pieces, ...more } = task();
    const third = streamText({ ...more, messages: [{ role: 'user', content: 'And in Rome?' }] });
    for await (const part of third.fullStream) assert.notEqual(part.type, 'error', JSON.stringify(part));
    assert.equal(pieces.length, 1);

    const { output } = await generateText({ model, output: Output.object({ schema: city }), prompt: 'Name a city.', maxRetries: 0 });
    assert.ok(['Oslo', 'Rome'].includes(output.city), JSON.stringify(output));
}

async function official() {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'unused', maxRetries: 0 });
    const parameters = { type: 'object', properties: { city: { enum: ['Oslo', 'Rome'] } }, required: ['city'], additionalProperties: false };
    const tools = [{ type: 'function', name: 'get_weather', parameters, strict: true }];
    const body = { model: name, input: 'What is the weather in Oslo?', tools, max_output_tokens: 60 };
    const stream = client.responses.stream({ ...body, tool_choice: 'required' });
    const response = await stream.finalResponse();
    const [call] = response.output;
    assert.equal(call.type, 'function_call');
    assert.ok(['Oslo', 'Rome'].includes(JSON.parse(call.arguments).city), JSON.stringify(call));
    const input = [{ type: 'function_call_output', call_id: call.call_id, output: '12 degrees' }];
    const answer = await client.responses.create({ ...body, input, previous_response_id: response.id, tool_choice: 'none' });
    assert.ok(answer.output_text.trim(), JSON.stringify(answer));
}

vercel().then(official).catch((error) => {
    console.error(error);
    process.exit(1);
});
