//! Items of a history in the orders and forms in which programs send them, also broken ones: the conversation is carried on with.

use super::*;

fn answer(served: &Served, input: Value) -> Value {
    ask(served, &asked(input, json!({"tools": tools()})))
}

#[test]
fn items_may_say_the_same_in_several_forms() {
    let served = full();
    let part = |kind: &str, text: &str| json!([{"type": kind, "text": text}]);
    for input in [
        json!("Hello"),
        json!([user("Hello")]),
        json!([{"type": "message", "role": "user", "content": part("input_text", "Hello")}]),
        json!([{"role": "developer", "content": "Be kind."}, {"role": "system", "content": part("input_text", "Be brief.")}, user("Hello")]),
        json!([user("Hi"), {"role": "assistant", "content": "Hi."}, user("Hello")]),
        json!([user("Hi"), {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "Hi.", "annotations": []}, {"type": "refusal", "refusal": "No."}]}, user("Hello")]),
        json!([user("Hi"), {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "A greeting."}]},
            {"role": "assistant", "content": "Hi."}, user("Hello")]),
    ] {
        let response = answer(&served, input.clone());
        assert_eq!(
            (text(&response).as_str(), pointers(&response)),
            ("Hello there. How are you?", vec![]),
            "{input}"
        );
    }
    let response = ask(&served, &json!({"model": "scripted", "instructions": "Say Hello."}));
    assert_eq!(text(&response), "Hello there. How are you?");
}

#[test]
fn results_go_with_their_calls_wherever_they_stand() {
    let served = full();
    let alone = |mut items: Vec<Value>| {
        items.insert(0, user("Weather"));
        answer(&served, json!(items))
    };
    let parts = json!([{"type": "input_text", "text": "rain in Oslo"}]);
    for items in [
        vec![called("a", "Oslo"), result("a", "rain in Oslo")],
        vec![called("a", "Oslo"), result("a", parts)],
        vec![
            called("b", "Rome"),
            called("a", "Oslo"),
            result("a", "rain in Oslo"),
            result("b", "sun in Rome"),
        ],
        vec![
            called("b", "Rome"),
            result("b", "sun in Rome"),
            called("a", "Oslo"),
            result("a", "rain in Oslo"),
        ],
        vec![
            json!({"role": "assistant", "content": "I look."}),
            called("a", "Oslo"),
            result("a", "rain in Oslo"),
        ],
        // Of an earlier turn a call may have the same id.
        vec![
            called("a", "Rome"),
            result("a", "sun in Rome"),
            called("a", "Oslo"),
            result("a", "rain in Oslo"),
        ],
        vec![
            called("a", "Oslo"),
            json!({"role": "developer", "content": "Go on."}),
            result("a", "rain in Oslo"),
        ],
    ] {
        let response = alone(items.clone());
        let said = text(&response) + &json!(calls(&response)).to_string();
        assert!(said.contains("It rains in Oslo.") || items[0]["call_id"] == "b", "{items:?} {said}");
        assert_eq!(pointers(&response), [""; 0], "{items:?}");
    }
}

#[test]
fn what_is_broken_in_a_history_costs_itself_alone() {
    let served = full();
    let bad_arguments =
        json!({"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": "{\"city\": "});
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"});
    for (items, pointer) in [
        (vec![user("Hi"), bad_arguments, result("a", "no JSON"), user("Hello")], "/input/1/arguments"),
        (vec![user("Hi"), called("a", "Oslo"), user("Hello")], "/input/1"),
        (vec![user("Hi"), result("a", "rain"), user("Hello")], "/input/1/call_id"),
        (
            vec![user("Hi"), called("a", "Oslo"), called("a", "Rome"), result("a", "rain"), user("Hello")],
            "/input/2",
        ),
        (
            vec![
                user("Hi"),
                json!({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
                user("Hello"),
            ],
            "/input/1",
        ),
        (
            vec![json!({"role": "user", "content": [picture, {"type": "input_text", "text": "Hello"}]})],
            "/input/0/content/0",
        ),
        (
            vec![user("Hi"), called("a", "Oslo"), result("a", json!([picture])), user("Hello")],
            "/input/2/output/0",
        ),
    ] {
        let response = answer(&served, json!(items));
        assert_eq!(
            (text(&response).as_str(), pointers(&response)),
            ("Hello there. How are you?", vec![pointer]),
            "{items:?}"
        );
    }
    // A call at the very end, too.
    let response = answer(&served, json!([user("Hello"), called("a", "Oslo")]));
    assert_eq!(pointers(&response), ["/input/1"]);
}

#[test]
fn what_is_no_item_is_refused_with_its_place() {
    let served = full();
    for (input, pointer) in [
        (json!(3), "/input"),
        (json!(["Hello"]), "/input/0/type"),
        (json!([{"role": "guest", "content": "Hello"}]), "/input/0/role"),
        (json!([user("Hi"), {"type": "function_call", "name": "f", "arguments": "{}"}]), "/input/1/call_id"),
        (json!([]), "/input"),
    ] {
        refused(&served, &asked(input, json!({"tools": tools()})), pointer);
    }
}

#[test]
fn tools_may_come_as_an_item() {
    let served = full();
    let input = json!([{"type": "additional_tools", "role": "developer", "tools": tools()}, user("Weather")]);
    assert_eq!(calls(&ask(&served, &asked(input, json!({})))).len(), 1);
}

#[test]
fn a_call_of_free_text_is_told_with_its_result() {
    let served = full();
    let made = json!({"type": "custom_tool_call", "call_id": "c", "name": "lookup", "input": "Oslo"});
    let gave = json!({"type": "custom_tool_call_output", "call_id": "c", "output": "rain in Oslo"});
    let response = answer(&served, json!([user("Weather"), made, gave]));
    assert_eq!((text(&response).as_str(), pointers(&response)), ("It rains in Oslo.", vec![]));
}
