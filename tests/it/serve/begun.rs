//! Answers that a client has begun: they go on in the header of a family that has one, and behind servers of every kind.

use std::sync::Mutex;

use toolgate::engine;
use toolgate::remote::{self, RemoteEngine};
use toolgate_chat::format::Family;

use super::*;
use crate::model_server::{Asked, ModelServer, Reply, models, says};
use crate::remote::llama_server;

/// What a client gets of a conversation that ends in the model's own words: whole, and joined from its stream.
fn content(served: &Served, begun: &str) -> String {
    let body = body(begun);
    let whole = answered(served, &body)["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let streamed: String = chunks(served, body)
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(whole, streamed);
    whole
}

fn body(begun: &str) -> Value {
    let messages = json!([{"role": "user", "content": "Capital?"}, {"role": "assistant", "content": begun}]);
    json!({"model": "scripted", "max_tokens": 60, "messages": messages, "tools": openai_tools()})
}

fn answered(served: &Served, body: &Value) -> Value {
    let (status, answer) = post(served, CHAT, body);
    assert_eq!(status, 200, "{answer}");
    answer
}

fn warned(served: &Served, begun: &str) -> bool {
    let answer = answered(served, &merged(body(begun), json!({"model": "m"})));
    let warnings = answer["warnings"].as_array().cloned().unwrap_or_default();
    warnings.iter().any(|warning| warning["pointer"] == "/messages")
}

fn behind(server: &ModelServer) -> Served {
    let options = remote::Options::new(&server.url).engine(engine::Options::guided());
    start(RemoteEngine::connect(options).unwrap(), None, serve::Options::default())
}

#[test]
fn an_answer_of_a_family_with_a_header_goes_on_behind_it() {
    let source = "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}\
        {% if add_generation_prompt %}<|start|>assistant{% endif %}";
    let template = Template::new(source, TemplateTokens::default()).unwrap();
    let dialogue = Dialogue::new(template, Arc::new(Family::named("harmony").unwrap()));
    // The scripted model goes on behind the last of these that stands in its prompt.
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("<|start|>assistant<|channel|>final<|message|>The capital is", " Oslo.")
        .on("Capital?", "Without a header.");
    let engine = LocalEngine::new("scripted", model, dialogue, engine::Options::guided());
    let served = start(engine, None, serve::Options::default());
    assert_eq!(content(&served, "The capital is"), " Oslo.");
    let (status, refused) = post(&served, CHAT, &body("It is to=functions.book"));
    assert_eq!(status, 400, "what opens a call begins no answer: {refused}");
}

#[test]
fn an_answer_goes_on_behind_a_server_that_takes_prompts() {
    let prompts: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = prompts.clone();
    let server = llama_server(
        |_| vec![('<', 0.9), ('I', 0.1)],
        move |grammar, prompt| {
            seen.lock().unwrap().push(prompt.to_owned());
            // Any text follows, also none, but no call.
            let grammar = toolgate_grammar::Grammar::parse(grammar).unwrap();
            let takes = |text: &str| grammar.match_text(text, &Default::default()).unwrap().matched;
            assert!(takes("") && takes(" Oslo.") && !takes("<tool_call>"));
            " Oslo.".to_owned()
        },
    );
    let served = behind(&server);
    assert_eq!(content(&served, "The capital is"), " Oslo.");
    assert_eq!(content(&served, "The capital is "), "Oslo.", "the blank is there already");
    assert!(!warned(&served, "The capital is"));
    assert!(prompts.lock().unwrap().iter().all(|prompt| prompt.ends_with("<assistant>The capital is")));
    assert!(
        server.asked("/completion").iter().all(|asked| asked.body["n_predict"] != 1),
        "nothing is decided"
    );
    let (status, refused) = post(&served, CHAT, &body("<tool_call>"));
    assert_eq!(status, 400, "a call is no answer: {refused}");
}

/// Whether a request says that its last message is to be gone on from.
fn goes_on(asked: &Asked) -> bool {
    let last = asked.body["messages"].as_array().unwrap().last().unwrap();
    let is_last = last["role"] == "assistant" && last["content"] == "The capital is";
    let is_told =
        asked.body["continue_final_message"] == true && asked.body["add_generation_prompt"] == false;
    is_last && is_told
}

#[test]
fn vllm_is_told_to_go_on_from_the_last_message() {
    let server = ModelServer::start(|asked| match asked.path.as_str() {
        "/v1/models" => Reply::Json(json!({"data": [{"id": "scripted", "owned_by": "vllm"}]})),
        "/v1/chat/completions" if goes_on(asked) => says(" Oslo."),
        "/v1/chat/completions" => says("I do not know."),
        _ => Reply::Refusal(404, Value::Null),
    });
    let served = behind(&server);
    assert_eq!(content(&served, "The capital is"), " Oslo.");
    assert!(!warned(&served, "The capital is"));
    assert!(server.asked(CHAT).iter().all(|asked| asked.body["structured_outputs"].is_object()));
}

#[test]
fn a_server_that_nothing_is_known_of_is_asked_to_go_on_and_the_client_told_that_it_may_not() {
    for (takes, said) in [(true, " Oslo."), (true, "The capital is Oslo."), (false, "The weather is fine.")] {
        let server = ModelServer::start(move |asked| match asked.path.as_str() {
            "/v1/models" => models(),
            "/v1/chat/completions" => {
                let refused = ["continue_final_message", "add_generation_prompt"]
                    .into_iter()
                    .find(|field| asked.body.get(field).is_some());
                match refused.filter(|_| !takes) {
                    Some(field) => {
                        let message = format!("Unrecognized request argument supplied: {field}");
                        Reply::Refusal(400, json!({"error": {"message": message}}))
                    }
                    None => {
                        let begun = asked.body["messages"].as_array().unwrap().len() > 2;
                        assert!(!begun || asked.body.get("tools").is_none(), "an answer is wanted");
                        assert_eq!(goes_on(asked), takes && begun);
                        says(said)
                    }
                }
            }
            _ => Reply::Refusal(404, Value::Null),
        });
        let served = behind(&server);
        // What a server says again is left out; an answer of its own stays as it is.
        let follows = said.strip_prefix("The capital is").unwrap_or(said);
        assert_eq!(content(&served, "The capital is"), follows, "{said}");
        assert!(warned(&served, "The capital is"));
        let plain = answered(&served, &chat("Capital?", json!({"model": "m"})));
        assert!(!plain["warnings"].to_string().contains("\"/messages\""), "control: nothing was begun");
    }
}

#[test]
fn another_toolgate_goes_on_as_it_would_here() {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("The capital is", " Oslo.")
        .on("Capital", "I do not know.");
    let there = start(scripted(model, engine::Options::guided()), None, serve::Options::default());
    let engine = RemoteEngine::connect(remote::Options::new(&there.base)).unwrap();
    assert_eq!(engine.grammar(), "toolgate");
    let served = start(engine, None, serve::Options::default());
    assert_eq!(content(&served, "The capital is"), " Oslo.");
}
