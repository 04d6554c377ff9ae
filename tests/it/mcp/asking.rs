//! `toolgate mcp ask`: whole tasks for a client, with what they tell of themselves and how they end.

use super::*;

/// A model that does in order what `turns` say, a turn for each count of results.
fn model(turns: impl Fn(usize, &Asked) -> Reply + Send + Sync + 'static) -> ModelServer {
    ModelServer::start(move |asked| match asked.path.as_str() {
        "/v1/models" => models(),
        "/v1/chat/completions" => turns(results(asked), asked),
        _ => Reply::Refusal(404, Value::Null),
    })
}

/// Reads a file, edits another, tries what the policy refuses, and answers with what came of the last.
pub(crate) fn editor() -> ModelServer {
    model(|turn, asked| match turn {
        0 => calls("read_file", &json!({"path": "a.txt"})),
        1 => calls("write_file", &json!({"path": "b.txt", "content": "alpha and beta"})),
        2 => calls("write_file", &json!({"path": "../secret.txt", "content": "gone"})),
        _ => {
            let last = asked.body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
            says(&format!("Done, but: {}", last.as_str().unwrap()))
        }
    })
}

#[test]
fn ask_says_which_context_takes_a_task_that_is_too_long() {
    let Some(weights) = crate::models::weights("smollm2-135m") else { return };
    let field = Field::new();
    let arguments = ["--no-cache", "--context", "512", "--model", weights.to_str().unwrap()];
    let mut client = Client::start(&field.ws, &arguments);
    let (text, is_error) = client.call("ask", &json!({"task": "lantern ".repeat(2_000)}));
    assert!(is_error && text.starts_with("prompt is too long: "), "{text}");
    assert!(
        text.contains(" tokens > 256 maximum") && text.contains("load the model with --context "),
        "{text}"
    );
    assert_eq!(client.end(), 0);
}

#[test]
fn ask_does_a_whole_task_and_tells_how_it_goes() {
    let (field, server) = (Field::new(), editor());
    let arguments = ["--mode", "edit", "--approve", "auto", "--engine", &server.url];
    let mut client = Client::start(&field.ws, &arguments);
    let tools = client.tools();
    let ask = by_name(&tools, "ask");
    assert_eq!(
        (&ask["annotations"]["destructiveHint"], &ask["inputSchema"]["required"]),
        (&json!(true), &json!(["task"]))
    );
    let call =
        json!({"name": "ask", "arguments": {"task": "Copy a.txt to b.txt"}, "_meta": {"progressToken": 7}});
    let answer = client.ask("tools/call", &call)["result"].clone();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Done, but: ") && text.contains("outside"), "{answer}");
    let statuses: Vec<_> = answer["structuredContent"]["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["status"].clone())
        .collect();
    assert_eq!(statuses, ["ok", "ok", "denied"]);
    assert_eq!(std::fs::read_to_string(field.ws.join("b.txt")).unwrap(), "alpha and beta");
    assert_eq!(std::fs::read_to_string(field.base.path().join("secret.txt")).unwrap(), "CANARY");
    let progress: Vec<&Value> =
        client.told.iter().filter(|told| told["method"] == "notifications/progress").collect();
    let messages: Vec<_> = progress.iter().map(|told| told["params"]["message"].as_str().unwrap()).collect();
    assert!(messages.iter().any(|message| message.starts_with("calls write_file")), "{messages:?}");
    assert!(progress.iter().all(|told| told["params"]["progressToken"] == 7));
    let counts: Vec<f64> = progress.iter().map(|told| told["params"]["progress"].as_f64().unwrap()).collect();
    assert!(counts.windows(2).all(|pair| pair[0] < pair[1]), "{counts:?}");
}

#[test]
fn ask_never_has_more_than_the_server() {
    let (field, server) = (Field::new(), editor());
    let mut client = Client::start(&field.ws, &["--engine", &server.url]);
    let (refused, is_error) = client.call("ask", &json!({"task": "write", "mode": "edit"}));
    assert!(is_error && refused.contains("intel mode"), "{refused}");
    assert!(server.asked("/v1/chat/completions").is_empty(), "no model was asked");
    // Within its mode it runs; what would write is not there.
    let (answer, _) = client.call("ask", &json!({"task": "write"}));
    assert!(answer.starts_with("Done, but: "), "{answer}");
    assert!(!field.ws.join("b.txt").exists());
    // In edit mode nobody can be asked, so what the policy has asked about is denied to runs too.
    let mut client = Client::start(&field.ws, &["--mode", "edit", "--engine", &server.url]);
    client.call("ask", &json!({"task": "write"}));
    assert!(!field.ws.join("b.txt").exists());
    let (answer, _) = client.call("ask", &json!({"task": "look", "mode": "intel"}));
    assert!(answer.starts_with("Done, but: "), "{answer}");
    let (empty, is_error) = client.call("ask", &json!({"task": " "}));
    assert!(is_error && empty.contains("empty"), "{empty}");
}

#[test]
fn ask_says_how_much_the_model_thinks_and_else_the_server_does() {
    let (field, server) = (Field::new(), model(|_, _| says("Here.")));
    let mut client = Client::start(&field.ws, &["--engine", &server.url, "--reasoning", "off"]);
    for (arguments, is_on) in
        [(json!({"task": "look"}), false), (json!({"task": "look", "reasoning": "30"}), true)]
    {
        assert_eq!(client.call("ask", &arguments), ("Here.".to_owned(), false));
        let body = server.asked("/v1/chat/completions").pop().unwrap().body;
        assert_eq!(body["chat_template_kwargs"], json!({"enable_thinking": is_on}), "{arguments}");
    }
    let (refused, is_error) = client.call("ask", &json!({"task": "look", "reasoning": "very"}));
    assert!(is_error && refused.contains("\"auto\""), "{refused}");
}

#[test]
fn a_cancelled_ask_stops_its_run_and_the_server_goes_on() {
    let field = Field::new();
    let server = model(|_, _| Reply::Waiting);
    let mut client = Client::start(&field.ws, &["--engine", &server.url]);
    let id = client.send("tools/call", &json!({"name": "ask", "arguments": {"task": "think"}}));
    server.wait_for_request("/v1/chat/completions");
    client.tell(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    server.wait_for_leaver();
    assert_eq!(client.call("read_file", &json!({"path": "a.txt"})).0, "alpha\n");
}

#[cfg(unix)]
#[test]
fn a_cancelled_command_is_ended() {
    let field = Field::new();
    let policy = field.policy("version = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace\", \"@system\"]\nwrite = [\"@workspace\"]\n");
    let mut client =
        Client::start(&field.ws, &["--no-ask", "--mode", "edit", "--approve", "auto", "--policy", &policy]);
    if !crate::cli::commands_work() {
        return;
    }
    let lifeline = crate::lifeline::Lifeline::at(&field.ws.join("alive"));
    let command = json!({"command": "exec 3>alive; echo begun >&3; sleep 600; touch after"});
    let id = client.send("tools/call", &json!({"name": "run_command", "arguments": command}));
    assert_eq!(lifeline.line(), "begun");
    client.tell(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    lifeline.end();
    assert!(!field.ws.join("after").exists());
    assert_eq!(client.call("run_command", &json!({"command": "echo on"})).0, "on\n");
}

#[test]
fn a_client_that_goes_takes_its_runs_and_the_program_with_it() {
    let field = Field::new();
    let server = model(|_, _| Reply::Waiting);
    let mut client = Client::start(&field.ws, &["--engine", &server.url]);
    client.send("tools/call", &json!({"name": "ask", "arguments": {"task": "think"}}));
    server.wait_for_request("/v1/chat/completions");
    assert_eq!(client.end(), 0);
    server.wait_for_leaver();
}

#[test]
fn a_model_that_is_not_there_is_told_with_the_call_and_not_before() {
    let field = Field::new();
    let mut client = Client::start(&field.ws, &["--model", "no-such-model"]);
    assert_eq!(client.call("read_file", &json!({"path": "a.txt"})).0, "alpha\n");
    let (why, is_error) = client.call("ask", &json!({"task": "x"}));
    assert!(is_error && why.contains("no-such-model"), "{why}");
}
