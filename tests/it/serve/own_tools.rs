//! Servers with tools of their own, and what becomes of calls that are given out or not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use serde_json::{Value, json};
use toolgate::agent::{self, Approval};
use toolgate::engine::{self, Thresholds};
use toolgate::serve::{self, Execute, Workbench};
use toolgate::tools::{Registry, typed};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;

use super::*;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City {
    city: String,
}

#[test]
fn a_server_with_tools_of_its_own_runs_them_to_the_answer() {
    let mut registry = Registry::new();
    let weather = typed("get_weather", "The weather in a city.", |city: City| {
        Ok::<_, String>(format!("rain in {}", city.city))
    });
    registry.add(weather.unwrap().read_only()).unwrap();
    let began = Arc::new(AtomicUsize::new(0));
    let counted = began.clone();
    let count = move |_: &str| {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let benches = vec![Workbench::new(registry).telling(count)];
    let execute = Execute::new(benches);
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("rain in Oslo", "It rains in Oslo.")
        .on("Weather", call("get_weather", "{\"city\": \"Oslo\"}"));
    let served = start(scripted(model, engine::Options::guided()), Some(execute), serve::Options::default());
    let (status, body) = post(&served, CHAT, &chat("Weather", json!({})));
    assert_eq!(status, 200, "{body}");
    let choice = &body["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("It rains in Oslo."), &json!("stop"))
    );
    assert_eq!(choice["toolgate"]["calls"][0]["name"], "get_weather");

    let chunks = chunks(&served, chat("Weather", json!({})));
    let events: Vec<&str> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["toolgate"]["event"].as_str()).collect();
    assert!(events.contains(&"tool_call") && events.contains(&"tool_result"), "{events:?}");
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "It rains in Oslo.");
    let (_, _, text) = send(&served, MESSAGES, &message("Weather", json!({"stream": true})).to_string(), &[]);
    let told =
        super::events(&text).into_iter().filter(|(_, data)| data.contains("\"toolgate\":{\"event\":\"tool_"));
    // Under a name that the API has, or some clients would give up the stream.
    assert!(told.map(|(name, _)| name).eq(["ping", "ping"]), "{text}");
    assert_eq!(began.load(Ordering::SeqCst), 3);
    let (status, body) = post(&served, CHAT, &chat("Weather", json!({"tools": openai_tools()})));
    assert_eq!((status, &body["error"]["param"]), (400, &json!("/tools")));
}

/// Two runs at a time, each held up in its tool until the other is there: each is at a bench of its own.
#[test]
fn runs_at_the_same_time_have_tools_of_their_own() {
    let meeting = Arc::new(Barrier::new(2));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let bench = |number: usize| {
        let (meeting, used, begun) = (meeting.clone(), seen.clone(), seen.clone());
        let mut registry = Registry::new();
        let weather = typed("get_weather", "The weather in a city.", move |city: City| {
            meeting.wait();
            used.lock().unwrap().push((number, city.city.clone()));
            Ok::<_, String>(format!("rain in {}", city.city))
        });
        registry.add(weather.unwrap()).unwrap();
        let began = move |task: &str| begun.lock().unwrap().push((number, task.to_owned()));
        Workbench::new(registry).telling(began)
    };
    let options = agent::Options::default().approval(Approval::Auto);
    let execute = Execute::new(vec![bench(0), bench(1)]).options(options);
    let cities = ["Oslo", "Rome"];
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384);
    let model = cities.iter().fold(model, |model, city| {
        model
            .on(format!("rain in {city}"), format!("It rains in {city}."))
            .on(format!("Weather {city}"), call("get_weather", &format!("{{\"city\": \"{city}\"}}")))
    });
    let at_once = serve::Options::default().at_once(2);
    let served = start(scripted(model, engine::Options::guided()), Some(execute), at_once);
    std::thread::scope(|scope| {
        for city in cities {
            let served = &served;
            scope.spawn(move || {
                let (status, body) = post(served, CHAT, &chat(&format!("Weather {city}"), json!({})));
                assert_eq!(status, 200, "{body}");
                let answer = body["choices"][0]["message"]["content"].as_str().unwrap();
                assert_eq!(answer, format!("It rains in {city}."));
            });
        }
    });
    let seen = seen.lock().unwrap();
    let at = |said: &str| seen.iter().find(|(_, what)| what == said).map(|(number, _)| *number).unwrap();
    for city in cities {
        assert_eq!(at(city), at(&format!("Weather {city}")), "{seen:?}");
    }
    assert_ne!(at("Oslo"), at("Rome"), "{seen:?}");
}

/// What no grammar holds, and no other way of writing the call mends, is an error and no call.
#[test]
fn a_call_that_fits_its_schema_in_no_way_is_not_given_out() {
    let twice =
        json!({"type": "array", "items": {"enum": [1]}, "minItems": 2, "maxItems": 2, "uniqueItems": true});
    let tool = |unique: bool| {
        let mut numbers = twice.clone();
        numbers["uniqueItems"] = unique.into();
        let parameters =
            json!({"type": "object", "properties": {"numbers": numbers}, "required": ["numbers"]});
        json!([{"type": "function", "function": {"name": "sum", "description": "d", "parameters": parameters}}])
    };
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("Sum", call("sum", "{\"numbers\": [1, 1]}"));
    let served = start(scripted(model, engine::Options::guided()), None, serve::Options::default());
    let ask =
        |unique| post(&served, CHAT, &chat("Sum", json!({"tools": tool(unique), "tool_choice": "required"})));
    let (status, body) = ask(false);
    assert_eq!(
        (status, &body["choices"][0]["finish_reason"]),
        (200, &json!("tool_calls")),
        "control: {body}"
    );
    let (status, body) = ask(true);
    assert_eq!(status, 500, "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("no arguments for sum that fit"), "{body}");
}

#[test]
fn a_client_s_run_goes_on_while_its_request_names_what_no_call_took_up() {
    let weather = |city: &str| call("get_weather", &format!("{{\"city\": \"{city}\"}}"));
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("sun in Rome", "Rain in Oslo, sun in Rome.")
        .on("rain in Oslo</tool_response>", weather("Rome"))
        .on("Weather", weather("Oslo"));
    // As those of small models: after a result they answer, unless something is open.
    let thresholds = Thresholds { after_success: 2.0, while_pending: 0.01, ..Thresholds::default() };
    let served = start(
        scripted(model, engine::Options::guided().thresholds(thresholds)),
        None,
        serve::Options::default(),
    );
    let mut messages = vec![json!({"role": "user", "content": "Weather in Oslo and in Rome?"})];
    for (city, told) in [("Oslo", "rain in Oslo"), ("Rome", "sun in Rome")] {
        let request = json!({"model": "scripted", "messages": messages, "tools": openai_tools()});
        let (_, body) = post(&served, CHAT, &request);
        let said = &body["choices"][0]["message"];
        let made = &said["tool_calls"][0];
        assert_eq!(made["function"]["arguments"], json!({"city": city}).to_string(), "{body}");
        messages.push(said.clone());
        messages.push(json!({"role": "tool", "tool_call_id": made["id"], "content": told}));
    }
    let request = json!({"model": "scripted", "messages": messages, "tools": openai_tools()});
    let (_, body) = post(&served, CHAT, &request);
    assert_eq!(body["choices"][0]["message"]["content"], "Rain in Oslo, sun in Rome.");
}

#[test]
fn nothing_is_put_behind_what_a_model_says_of_results() {
    let run = |answer_view, answer: &'static str| {
        let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384).on("", answer);
        let engine = engine::Options::guided().answer_view(answer_view);
        let served = start(scripted(model, engine), None, serve::Options::default());
        let made = json!({"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}});
        let messages = json!([
            {"role": "user", "content": "How is the weather in Oslo just now?"},
            {"role": "assistant", "content": null, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "a", "content": "rain in Oslo"},
        ]);
        let request = json!({"model": "scripted", "tools": openai_tools(), "messages": messages});
        post(&served, CHAT, &request).1["choices"][0]["message"]["content"].clone()
    };
    for view in [engine::AnswerView::Quoted, engine::AnswerView::Results] {
        assert_eq!(run(view, "You find it above."), "You find it above.", "{view:?}");
    }
    let echo = "How is the weather in Oslo just now?";
    assert_ne!(run(engine::AnswerView::Compact, echo), echo, "the request is no answer");
}

#[test]
fn the_tokens_of_a_prompt_are_counted_without_a_turn() {
    let served = served();
    let asked = chat("Weather", json!({"tools": anthropic_tools(), "system": "Be brief."}));
    let (status, counted) = post(&served, COUNT, &asked);
    assert_eq!(status, 200, "{counted}");
    let longer = merged(asked.clone(), json!({"messages": [{"role": "user", "content": "Weather in Oslo"}]}));
    let tokens = |body: &Value| body["input_tokens"].as_u64().unwrap();
    assert_eq!(tokens(&post(&served, COUNT, &longer).1), tokens(&counted) + " in Oslo".len() as u64);
    // As many as a turn says that it has read.
    let (_, made) = post(&served, MESSAGES, &merged(asked.clone(), json!({"max_tokens": 400})));
    let usage = &made["usage"];
    assert_eq!(
        tokens(usage) + usage["cache_read_input_tokens"].as_u64().unwrap(),
        tokens(&counted),
        "{made}"
    );

    let (status, other) = post(&served, COUNT, &merged(asked, json!({"model": "other"})));
    assert_eq!((status, &other), (200, &counted), "there is one model, whatever it is called");
}
