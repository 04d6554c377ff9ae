//! Tasks of two steps as programs drive them: each sends what the one of its name was seen to send, and goes on as it does.

use super::stream::streamed;
use super::*;

/// A model that looks for a file, reads it and answers.
fn served() -> Served {
    let command = |command: &str| call("exec_command", &format!("{{\"cmd\": \"{command}\"}}"));
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(32_768)
        .on("The port is 8417.<user>Thanks", "You are welcome.")
        .on("port = 8417", "The port is 8417.")
        .on("server.toml\nusers.toml", command("cat server.toml"))
        .on("which port", command("ls"));
    full_of(model)
}

/// What the commands of the task give.
fn run(arguments: &str) -> &'static str {
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    match arguments["cmd"].as_str().unwrap() {
        "ls" => "server.toml\nusers.toml\n",
        "cat server.toml" => "[server]\nport = 8417\n",
        other => panic!("{other}"),
    }
}

fn command() -> Value {
    let parameters = json!({
        "type": "object", "additionalProperties": false, "required": ["cmd"],
        "properties": {"cmd": {"type": "string", "description": "Shell command to execute."}},
    });
    json!({"type": "function", "name": "exec_command", "description": "Runs a command.", "strict": false, "parameters": parameters})
}

/// How a program goes on from a response: the items of its next request, and the request's other fields.
type GoesOn<'a> = &'a dyn Fn(&mut Vec<Value>, &Value, Vec<Value>) -> Value;

/// Runs the calls of responses until there is none; the responses.
fn driven(
    mut items: Vec<Value>,
    more: Value,
    make: &dyn Fn(Value) -> Value,
    output: &dyn Fn(&str) -> Value,
    goes_on: GoesOn<'_>,
) -> Vec<Value> {
    let mut responses = Vec::new();
    let mut further = json!({});
    loop {
        let response = make(merged(merged(asked(json!(items), json!({})), more.clone()), further));
        let calls =
            response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "function_call");
        let results: Vec<Value> = calls
            .map(|item| {
                result(item["call_id"].as_str().unwrap(), output(run(item["arguments"].as_str().unwrap())))
            })
            .collect();
        responses.push(response);
        let response = responses.last().unwrap();
        if results.is_empty() {
            return responses;
        }
        assert!(responses.len() < 5, "it does not end");
        further = goes_on(&mut items, response, results);
    }
}

/// Two calls, one after the other, then an answer.
fn check(responses: &[Value]) {
    let made: Vec<_> =
        responses.iter().flat_map(calls).map(|(_, arguments)| arguments["cmd"].clone()).collect();
    assert_eq!(made, ["ls", "cat server.toml"]);
    let last = responses.last().unwrap();
    assert_eq!((text(last).as_str(), &last["status"]), ("The port is 8417.", &json!("completed")));
}

#[test]
fn codex_sends_all_items_each_time_and_has_nothing_kept() {
    let served = served();
    let message = |role: &str, text: &str| json!({"type": "message", "id": "msg_01a2", "role": role, "content": [{"type": "input_text", "text": text}]});
    let agent = |name: &str| {
        let parameters = json!({"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"], "additionalProperties": false});
        json!({"type": "function", "name": name, "description": "d", "strict": false, "parameters": parameters})
    };
    let agents = json!({"type": "namespace", "name": "multi_agent_v1", "description": "d", "tools": [agent("close_agent"), agent("resume_agent")]});
    let more = json!({
        "tools": [command(), agents, {"type": "web_search", "external_web_access": true}],
        "tool_choice": "auto", "parallel_tool_calls": true, "reasoning": {"summary": "auto"}, "store": false,
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "01a2", "client_metadata": {"turn_id": "01a2"},
    });
    let items = vec![
        message("developer", "You are a coding agent."),
        message("developer", "<skills_instructions>none</skills_instructions>"),
        message("user", "<environment_context><cwd>/w</cwd></environment_context>"),
        message("user", "which port does the server use?"),
    ];
    let make = |body: Value| {
        let events = streamed(&served, body);
        // It goes on from the ends of items, not from the response's own list.
        let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
        let items: Vec<Value> = done.map(|event| event["item"].clone()).collect();
        assert_eq!(events.last().unwrap()["response"]["output"], json!(items));
        events.last().unwrap()["response"].clone()
    };
    let output = |text: &str| json!(format!("Chunk ID: b5\nProcess exited with code 0\nOutput:\n{text}"));
    let responses = driven(items, more, &make, &output, &|items, response, results| {
        items.extend(response["output"].as_array().unwrap().iter().cloned());
        items.extend(results.into_iter().map(|result| merged(result, json!({"id": "fco_01a2"}))));
        json!({})
    });
    check(&responses);
    for response in &responses {
        assert_eq!(pointers(response), ["/tools/2/type"]);
        assert_eq!(fetch(&served, &format!("{RESPONSES}/{}", response["id"].as_str().unwrap())).0, 404);
    }
}

#[test]
fn openai_agents_sends_items_as_they_came() {
    let served = served();
    let handoff = json!({
        "type": "function", "name": "transfer_to_helper", "strict": true, "description": "Handoff to the Helper agent.",
        "parameters": {"additionalProperties": false, "type": "object", "properties": {}, "required": []},
    });
    let more = json!({
        "tools": [command(), handoff], "include": [], "instructions": "Be brief.", "reasoning": {"effort": "none"},
        "text": {"verbosity": "low"},
    });
    let make = |body: Value| ask(&served, &body);
    let goes_on = |items: &mut Vec<Value>, response: &Value, results: Vec<Value>| {
        items.extend(response["output"].as_array().unwrap().iter().cloned());
        items.extend(results);
        json!({})
    };
    let responses = driven(vec![user("which port is it?")], more, &make, &|text| json!(text), &goes_on);
    check(&responses);
}

#[test]
fn vercel_s_sdk_sends_calls_without_ids_and_names_what_was_said() {
    let served = served();
    let part = |text: &str| json!({"role": "user", "content": [{"type": "input_text", "text": text}]});
    let mut items = vec![json!({"role": "system", "content": "Be brief."}), part("which port is it?")];
    let more = json!({"tools": [command()], "tool_choice": "auto"});
    let make = |body: Value| streamed(&served, body).last().unwrap()["response"].clone();
    let told = |item: &Value| {
        let key = |key: &str| item[key].clone();
        json!({"type": "function_call", "call_id": key("call_id"), "name": key("name"), "arguments": key("arguments")})
    };
    let responses =
        driven(items.clone(), more.clone(), &make, &|text| json!(text), &|items, response, results| {
            items.extend(response["output"].as_array().unwrap().iter().map(told));
            items.extend(results);
            json!({})
        });
    check(&responses);
    let said = &responses.last().unwrap()["output"][0]["id"];
    items.extend([json!({"type": "item_reference", "id": said}), part("Thanks, that is all.")]);
    let response = make(asked(json!(items), more));
    assert_eq!((text(&response).as_str(), pointers(&response)), ("You are welcome.", vec![]));
}

#[test]
fn client_responses_goes_on_from_the_response_before() {
    let served = served();
    let make = |body: Value| ask(&served, &body);
    let output = |text: &str| json!([{"type": "input_text", "text": text}]);
    let more = json!({"tools": [command()]});
    let goes_on = |items: &mut Vec<Value>, response: &Value, results: Vec<Value>| {
        *items = results;
        json!({"previous_response_id": response["id"]})
    };
    let responses = driven(vec![user("which port is it?")], more, &make, &output, &goes_on);
    check(&responses);
    for pair in responses.windows(2) {
        assert_eq!(pair[1]["previous_response_id"], pair[0]["id"]);
    }
}
