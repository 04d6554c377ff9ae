//! Runs that a client keeps: what it puts behind results, calls that would repeat themselves, agents that hand over, and calls that
//! depend on each other.

use super::*;

/// A model that would call for the weather whenever it is asked about it, and answers in view of a result alone.
fn weather_model() -> Scripted {
    let again = call("get_weather", "{\"city\": \"Oslo\"}");
    Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("Result of get_weather", "It rains in Oslo.")
        .on("Weather", again)
}

fn asked_and_told(behind: &[Value]) -> Value {
    let mut told = vec![json!({"type": "tool_result", "tool_use_id": "a", "content": "rain in Oslo"})];
    told.extend_from_slice(behind);
    json!([
        {"role": "user", "content": "Weather in Oslo?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "get_weather", "input": {"city": "Oslo"}}]},
        {"role": "user", "content": told},
    ])
}

#[test]
fn what_a_client_puts_behind_a_result_is_no_new_request() {
    let options = engine::Options::guided()
        .thresholds(engine::Thresholds { after_success: 2.0, ..engine::Thresholds::default() });
    let served = start(scripted(weather_model(), options), None, serve::Options::default());
    let text = |text: &str| json!({"type": "text", "text": text});
    for behind in [
        vec![],
        vec![text("")],
        vec![text("<system-reminder>Your todo list is empty.</system-reminder>")],
        vec![
            text("  \n"),
            text("<system-reminder>a</system-reminder>\n<environment_details>b</environment_details>"),
        ],
    ] {
        let body =
            json!({"max_tokens": 200, "tools": anthropic_tools(), "messages": asked_and_told(&behind)});
        let (status, answer) = post(&served, MESSAGES, &body);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["stop_reason"], "end_turn", "{behind:?} {answer}");
        assert_eq!(answer["content"][0]["text"], "It rains in Oslo.", "{behind:?}");
    }
    let body = json!({"messages": [
        {"role": "user", "content": "Weather in Oslo?"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}}
        ]},
        {"role": "tool", "tool_call_id": "a", "content": "rain in Oslo"},
        {"role": "user", "content": ""},
    ], "tools": openai_tools()});
    let (_, answer) = post(&served, CHAT, &body);
    assert_eq!(answer["choices"][0]["message"]["content"], "It rains in Oslo.", "{answer}");
}

#[test]
fn a_look_that_has_its_result_is_not_made_again_and_a_required_call_is_another_one() {
    // It would rather call than answer, whatever it has.
    let served = start(scripted(weather_model(), engine::Options::guided()), None, serve::Options::default());
    let body = json!({"max_tokens": 200, "tools": anthropic_tools(), "messages": asked_and_told(&[])});
    let (_, answer) = post(&served, MESSAGES, &body);
    assert_eq!(answer["stop_reason"], "end_turn", "{answer}");

    let finish = json!({"name": "final_answer", "description": "d", "input_schema": parameters()});
    let tools = json!([anthropic_tools()[0], finish]);
    let body = json!({
        "max_tokens": 200, "tools": tools, "tool_choice": {"type": "any"}, "messages": asked_and_told(&[])
    });
    let (_, answer) = post(&served, MESSAGES, &body);
    assert_eq!(answer["content"][0]["name"], "final_answer", "{answer}");
    let only = json!({"tools": [anthropic_tools()[0]]});
    let (_, answer) = post(&served, MESSAGES, &merged(body, only));
    assert_eq!(answer["content"][0]["name"], "get_weather", "there is no other: {answer}");
}

#[test]
fn to_an_agent_that_was_handed_the_conversation_the_request_is_new() {
    let refund = call("refund_order", "{\"city\": \"12\"}");
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("\nKind:", " change")
        .on("Result of", "Nothing was done.")
        .on("Refund", refund);
    let options = engine::Options::guided().thresholds(engine::Thresholds {
        first: 0.2,
        after_success: 2.0,
        ..engine::Thresholds::default()
    });
    let served = start(scripted(model, options), None, serve::Options::default());
    let tools = json!([{"type": "function", "function": {
        "name": "refund_order", "description": "d", "parameters": parameters()
    }}]);
    let body = json!({"tools": tools, "messages": [
        {"role": "user", "content": "Refund order 12."},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "transfer_to_billing", "arguments": "{}"}}
        ]},
        {"role": "tool", "tool_call_id": "a", "content": "{\"assistant\": \"Billing\"}"},
    ]});
    let (_, answer) = post(&served, CHAT, &body);
    assert_eq!(
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "refund_order",
        "{answer}"
    );
}

#[test]
fn a_turn_ends_in_front_of_a_call_that_made_up_what_another_one_could_give() {
    let find = call("find_customer", "{\"city\": \"Vela\"}");
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("Orders of Vela", [find.clone(), call("list_orders", "{\"city\": \"7431\"}")].concat())
        .on("Vela and Brix", [find, call("find_customer", "{\"city\": \"Brix\"}")].concat());
    let options = engine::Options::guided().parallel(8.try_into().ok());
    let served = start(scripted(model, options), None, serve::Options::default());
    let tool =
        |name: &str| json!({"type": "function", "function": {"name": name, "parameters": parameters()}});
    let tools = json!([tool("find_customer"), tool("list_orders")]);
    let asked = json!({"tools": tools, "parallel_tool_calls": true});
    let names = |question: &str| {
        let (_, answer) = post(&served, CHAT, &chat(question, asked.clone()));
        let calls = answer["choices"][0]["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
        let told = chunks(&served, chat(question, asked.clone()));
        let told = told
            .iter()
            .filter(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0]["id"].is_string())
            .count();
        assert_eq!(told, calls.len(), "a stream tells the same calls");
        calls
            .iter()
            .map(|call| call["function"]["arguments"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("Orders of Vela?").len(), 1, "the number is made up");
    assert_eq!(names("Vela and Brix: who are they?").len(), 2, "both were named");
}

#[test]
fn a_change_that_failed_is_not_made_again_and_again() {
    let again = call("edit_note", "{\"name\": \"b\", \"old\": \"x\"}");
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("\nKind:", " change")
        .on("Failure of", "The note has no x.")
        .on("Result of", "The note has no x.")
        .on("Put y for x", again);
    let served = start(scripted(model, engine::Options::guided()), None, serve::Options::default());
    let tools = json!([{"name": "edit_note", "description": "d", "input_schema": {
        "type": "object", "required": ["name", "old"], "properties": {
            "name": {"type": "string"}, "old": {"type": "string"}, "all": {"type": "boolean", "default": false}}
    }}]);
    // Claude Code writes what is the default into the calls that it sends back.
    let used = json!({"type": "tool_use", "id": "a", "name": "edit_note", "input": {"all": false, "name": "b", "old": "x"}});
    let told = |is_error: bool| json!({"type": "tool_result", "tool_use_id": "a", "is_error": is_error, "content": "told"});
    let body = |told: &[Value]| {
        let mut messages = vec![json!({"role": "user", "content": "Put y for x in the notes a and b."})];
        for told in told {
            messages.push(json!({"role": "assistant", "content": [used]}));
            messages.push(json!({"role": "user", "content": [told]}));
        }
        json!({"max_tokens": 200, "tools": tools, "messages": messages})
    };
    let (_, answer) = post(&served, MESSAGES, &body(&[]));
    assert_eq!(answer["content"][0]["name"], "edit_note", "{answer}");
    for told in [told(true), told(false)] {
        let (_, answer) = post(&served, MESSAGES, &body(&[told]));
        assert_eq!(answer["content"][0]["text"], "The note has no x.", "{answer}");
    }
}

#[test]
fn a_turn_makes_one_call_unless_more_are_asked_for() {
    let both = [call("get_weather", "{\"city\": \"Oslo\"}"), call("get_weather", "{\"city\": \"Rome\"}")];
    let model =
        Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384).on("Weather", both.concat());
    let options = engine::Options::guided().parallel(8.try_into().ok());
    let served = start(scripted(model, options), None, serve::Options::default());
    let count = |fields: Value| {
        let body = chat("Weather in Oslo and Rome?", merged(json!({"tools": openai_tools()}), fields));
        post(&served, CHAT, &body).1["choices"][0]["message"]["tool_calls"].as_array().map(Vec::len)
    };
    assert_eq!(count(json!({})), Some(1));
    assert_eq!(count(json!({"parallel_tool_calls": true})), Some(2));
}
