//! What is more than text, through the program: from a server's tool to a client, and to a model as words.

use serde_json::json;

use super::{Client, Field, with_server};

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
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["content"], "a dot\n[image image/png, 3 bytes, not shown]");
    assert!(result.get("parts").is_none(), "{result}");
}
