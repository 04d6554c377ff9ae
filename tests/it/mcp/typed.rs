//! What is more than tools and text: pictures of a server's tools through the program, and the resources, prompts and completions of
//! an embedder's server.

use std::time::Duration;

use serde_json::{Value, json};

use super::everything::Everything;
use super::{Client, Field, Http, PATIENCE, hello, with_server, words_of};

#[test]
fn a_picture_of_a_server_reaches_clients_as_one_and_models_as_its_name() {
    let field = Field::new();
    let Some(policy) = with_server(&field, "") else { return };
    let mut client = Client::start(&field.ws, &["--no-ask", "--policy", &policy]);
    let answer = client.ask("tools/call", &json!({"name": "paint", "arguments": {}}));
    let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    assert_eq!(answer["result"]["content"], json!([{"type": "text", "text": "a dot"}, image]), "{answer}");
    assert_eq!(client.end(), 0);
    let (_, result, _) = field.run(&["tool", "call", "paint", "{}", "--policy", &policy]);
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["content"], "a dot\n[image image/png, 3 bytes, not shown]");
    assert!(result.get("parts").is_none(), "{result}");
}

/// A session at the library's server, greeted.
fn greeted(url: &str) -> (Http, Value) {
    let mut client = Http { url: url.to_owned(), key: "none", session: None };
    let (status, events) =
        client.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello()}), None);
    assert_eq!(status, 200, "{events:?}");
    client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), None);
    let hello = events.into_iter().find(|event| event["id"] == 1).unwrap();
    (client, hello["result"].clone())
}

fn ask(client: &mut Http, method: &str, params: Value) -> Value {
    let (_, events) =
        client.post(&json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params}), None);
    events.into_iter().find(|event| event["id"] == 2).unwrap()
}

/// Changes the resource that is watched.
fn touch(client: &mut Http) {
    let touched = ask(client, "tools/call", json!({"name": "touch", "arguments": {}}));
    assert_eq!(touched["result"]["content"][0]["text"], "touched", "{touched}");
}

#[test]
fn what_is_there_is_declared_and_what_is_not_is_unknown() {
    let everything = Everything::start();
    let (mut client, hello) = greeted(&everything.url);
    let declared = json!({"completions": {}, "prompts": {}, "resources": {"subscribe": true}, "tools": {}});
    assert_eq!(hello["capabilities"], declared);
    let listed = ask(&mut client, "resources/templates/list", json!({}));
    assert_eq!(listed["result"]["resourceTemplates"][0]["uriTemplate"], "test://template/{id}/data");
    let missing = ask(&mut client, "resources/read", json!({"uri": "test://none"}));
    assert_eq!(missing["error"]["code"], -32002, "{missing}");
    let missing = ask(&mut client, "prompts/get", json!({"name": "test_prompt_with_arguments"}));
    assert_eq!(missing["error"]["message"], "the prompt test_prompt_with_arguments needs: arg1, arg2");
    // The program itself has tools alone.
    let field = Field::new();
    let mut client = Client::start(&field.ws, &["--no-ask"]);
    assert_eq!(client.hello["capabilities"], json!({"tools": {}}));
    for method in ["resources/list", "resources/templates/list", "prompts/list"] {
        assert_eq!(client.ask(method, &json!({}))["error"]["code"], -32601, "{method}");
    }
    for (method, params) in [
        ("resources/read", json!({"uri": "a:b"})),
        ("resources/subscribe", json!({"uri": "a:b"})),
        ("prompts/get", json!({"name": "a"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "a"}, "argument": {"name": "b", "value": ""}}),
        ),
    ] {
        assert_eq!(client.ask(method, &params)["error"]["code"], -32601, "{method}");
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn a_session_is_told_of_the_resources_that_it_asked_for_and_no_other_is() {
    let everything = Everything::start();
    let (mut asks, _) = greeted(&everything.url);
    let (mut other, _) = greeted(&everything.url);
    let (words, nothing) = (asks.words(), other.words());
    let watched = json!({"uri": "test://watched-resource"});
    assert_eq!(ask(&mut asks, "resources/subscribe", watched.clone())["result"], json!({}));
    assert_eq!(
        ask(&mut other, "resources/subscribe", json!({"uri": "test://static-text"}))["result"],
        json!({})
    );
    touch(&mut other);
    let word = words.recv_timeout(PATIENCE).expect("no word");
    assert_eq!(word["method"], "notifications/resources/updated");
    assert_eq!(word["params"], watched);
    // Whoever wants no more is told no more, until they ask again.
    ask(&mut asks, "resources/unsubscribe", watched.clone());
    touch(&mut asks);
    assert!(words.recv_timeout(Duration::from_millis(300)).is_err(), "told after it asked for no more");
    ask(&mut asks, "resources/subscribe", watched.clone());
    touch(&mut asks);
    assert_eq!(words.recv_timeout(PATIENCE).expect("no word")["params"], watched);
    assert!(nothing.try_recv().is_err(), "told what it did not ask for");
}

#[test]
fn a_request_that_listens_is_told_of_the_resources_that_it_names() {
    let everything = Everything::start();
    let (mut client, _) = greeted(&everything.url);
    let listen = |uri: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"_meta": meta, "notifications": {"resourceSubscriptions": [uri]}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
        let response = ureq::post(&everything.url)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2026-07-28")
            .header("Mcp-Method", "subscriptions/listen")
            .send(body.to_string())
            .unwrap();
        let words = words_of(response.into_body());
        let word = words.recv_timeout(PATIENCE).expect("no word");
        assert_eq!(word["method"], "notifications/subscriptions/acknowledged", "{word}");
        words
    };
    let (words, nothing) = (listen("test://watched-resource"), listen("test://static-text"));
    // It is heard a moment after it is acknowledged.
    let told = (0..10).find_map(|_| {
        touch(&mut client);
        words.recv_timeout(Duration::from_secs(2)).ok()
    });
    let word = told.expect("no word");
    assert_eq!(word["method"], "notifications/resources/updated");
    assert_eq!(word["params"]["uri"], "test://watched-resource");
    assert!(nothing.try_recv().is_err(), "told what it did not ask for");
}
