//! Responses that are kept: requests that go on from them, and what is said of those that are not there.

use super::*;

fn id(response: &Value) -> &str {
    response["id"].as_str().unwrap()
}

fn remove(served: &Served, path: &str) -> (u16, Value) {
    let mut response =
        agent_for(Duration::from_secs(60)).delete(format!("{}{path}", served.base)).call().unwrap();
    let body = response.body_mut().read_to_string().unwrap();
    (response.status().as_u16(), serde_json::from_str(&body).unwrap())
}

#[test]
fn a_request_goes_on_from_a_response() {
    let served = full();
    let first = ask(&served, &asked("Weather", json!({"tools": tools(), "instructions": "Be brief."})));
    let call = first["output"][0]["call_id"].as_str().unwrap();
    let more = json!({"previous_response_id": id(&first), "tools": tools()});
    let second = ask(&served, &asked(json!([result(call, "rain in Oslo")]), more));
    assert_eq!(
        (text(&second).as_str(), &second["previous_response_id"]),
        ("It rains in Oslo.", &first["id"])
    );
    // All that was said before stands in front of it, and the instructions of then do not.
    let tokens = |response: &Value| response["usage"]["input_tokens"].as_u64().unwrap();
    let whole =
        json!([user("Weather"), first["output"][0], result(call, "rain in Oslo"), second["output"][0]]);
    let whole = json!([whole[0], whole[1], whole[2], whole[3], user("Hello")]);
    let third = ask(&served, &asked("Hello", json!({"previous_response_id": id(&second), "tools": tools()})));
    let same = ask(&served, &asked(whole, json!({"tools": tools()})));
    assert_eq!(tokens(&third), tokens(&same));
    let streamed =
        super::stream::streamed(&served, asked("Hello", json!({"previous_response_id": id(&third)})));
    let streamed = &streamed.last().unwrap()["response"];
    let (status, kept) = fetch(&served, &format!("{RESPONSES}/{}", id(streamed)));
    assert_eq!(
        (status, &serde_json::from_str::<Value>(&kept).unwrap()),
        (200, streamed),
        "a stream is kept, too"
    );
}

#[test]
fn an_item_may_be_named_instead_of_sent() {
    let served = full();
    let first = ask(&served, &asked("Weather", json!({"tools": tools()})));
    let item = &first["output"][0];
    let named = |id: &Value| json!([user("Weather"), {"type": "item_reference", "id": id}, result(item["call_id"].as_str().unwrap(), "rain in Oslo")]);
    let second = ask(&served, &asked(named(&item["id"]), json!({"tools": tools()})));
    assert_eq!((text(&second).as_str(), pointers(&second)), ("It rains in Oslo.", vec![]));
    let message =
        refused(&served, &asked(named(&json!("fc_gone")), json!({"tools": tools()})), "/input/1/id");
    assert!(message.contains("fc_gone") && message.contains("send the item itself"), "{message}");
    // What was resolved is kept as it is.
    let more = json!({"previous_response_id": id(&second), "tools": tools()});
    assert_eq!(text(&ask(&served, &asked("Hello", more))), "It rains in Oslo.");
}

#[test]
fn what_is_not_there_is_said_in_the_words_that_programs_know() {
    let served = served();
    let body = asked("Hello", json!({"previous_response_id": "resp_gone"}));
    let (status, error) = post(&served, RESPONSES, &body);
    assert_eq!(status, 400);
    assert_eq!(error["error"]["code"], "previous_response_not_found");
    assert_eq!(error["error"]["param"], "/previous_response_id");
    assert!(error["error"]["message"].as_str().unwrap().contains("resp_gone"), "{error}");
    let (status, error) = fetch(&served, "/v1/responses/resp_gone");
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!((status, &error["error"]["type"]), (404, &json!("invalid_request_error")));
    assert_eq!(remove(&served, "/v1/responses/resp_gone").0, 404);
}

#[test]
fn a_response_is_kept_unless_it_is_not_to_be() {
    let served = served();
    let kept = ask(&served, &asked("Hello", json!({})));
    let path = format!("{RESPONSES}/{}", id(&kept));
    assert_eq!(serde_json::from_str::<Value>(&fetch(&served, &path).1).unwrap(), kept);
    let (status, gone) = remove(&served, &path);
    assert_eq!((status, gone), (200, json!({"id": id(&kept), "object": "response", "deleted": true})));
    assert_eq!(fetch(&served, &path).0, 404);
    let more = json!({"previous_response_id": id(&kept)});
    refused(&served, &asked("Hello", more), "/previous_response_id");

    let passing = ask(&served, &asked("Hello", json!({"store": false})));
    assert_eq!(passing["store"], false);
    assert_eq!(fetch(&served, &format!("{RESPONSES}/{}", id(&passing))).0, 404);
}

#[test]
fn who_has_no_key_reads_no_response() {
    let options = serve::Options::default().key(Some("secret".into()));
    let served = start(scripted(model(), engine::Options::guided()), None, options);
    let key = [("authorization", "Bearer secret")];
    let (status, _, text) = send(&served, RESPONSES, &asked("Hello", json!({})).to_string(), &key);
    assert_eq!(status, 200, "{text}");
    let response: Value = serde_json::from_str(&text).unwrap();
    let path = format!("{RESPONSES}/{}", id(&response));
    assert_eq!((fetch(&served, &path).0, remove(&served, &path).0), (401, 401));
}
