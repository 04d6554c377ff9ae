//! Real chat templates, given by a directory: each must render conversations with tools and without.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_chat::fallback::extract_typed;
use toolgate_chat::format::derive;
use toolgate_chat::template::{Ending, Render};
use toolgate_chat::{Derived, Template, TemplateTokens, ToolCall, ToolSpec, TurnRequest};
use toolgate_grammar::{Automaton, Limits, Vocabulary};

fn tools() -> Vec<Value> {
    vec![
        json!({"type": "function", "function": {"name": "get_weather", "description": "Weather & wind <now>", "parameters": {
            "type": "object", "properties": {
                "city": {"type": "string", "description": "It's the \"city\""},
                "days": {"type": "integer"},
                "unit": {"type": "string", "enum": ["c", "f"]},
            }, "required": ["city"]}}}),
        json!({"type": "function", "function": {"name": "now", "description": "The time", "parameters": {
            "type": "object", "properties": {}}}}),
    ]
}

fn conversations() -> Vec<(&'static str, Vec<Value>, Vec<Value>)> {
    let system = json!({"role": "system", "content": "Be brief."});
    let user = json!({"role": "user", "content": "Weather in Łódź?"});
    let call = json!({"role": "assistant", "content": "", "tool_calls": [{"id": "call00000", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Łódź", "days": 2}}}]});
    let result =
        json!({"role": "tool", "name": "get_weather", "tool_call_id": "call00000", "content": "12 degrees"});
    let answer = json!({"role": "assistant", "content": "It is 12 degrees."});
    let thanks = json!({"role": "user", "content": "Thanks"});
    let (with, without) = (tools(), Vec::new());
    vec![
        ("question", vec![user.clone()], without.clone()),
        ("chat", vec![user.clone(), answer.clone(), thanks.clone()], without.clone()),
        ("system", vec![system.clone(), user.clone()], without),
        ("tools", vec![system.clone(), user.clone()], with.clone()),
        ("call", vec![system.clone(), user.clone(), call.clone(), result.clone()], with.clone()),
        ("run", vec![system, user, call, result, answer, thanks], with),
    ]
}

#[test]
fn real_templates_render() {
    let Some(directory) = crate::skip::corpus("TOOLGATE_TEMPLATES", "a directory of .jinja files") else {
        return;
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jinja"));
    paths.sort();
    assert!(!paths.is_empty(), "no templates");
    let mut unparsed = Vec::new();
    let mut renders = serde_json::Map::new();
    let mut refused = Vec::new();
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let tokens = TemplateTokens { bos: "<s>".into(), eos: "</s>".into() };
        let template = match Template::new(std::fs::read_to_string(path).unwrap(), tokens) {
            Ok(template) => template,
            Err(error) => {
                unparsed.push(format!("{name}: {error}"));
                continue;
            }
        };
        let derived = derive(&template);
        println!(
            "{name}: {} ({}){}",
            derived.format.name(),
            derived.why,
            if derived.wants_text { ", arguments as text" } else { "" }
        );
        if derived.knows_tools && !turn_is_accepted(&template, &derived, true) {
            refused.push(name.clone());
        }
        for (kind, messages, tools) in conversations() {
            let now = "2026-11-03T10:00:00".parse().unwrap();
            let rendered = template.render(&Render {
                messages: &messages,
                tools: &tools,
                ending: Ending::Generation,
                now: Some(now),
                extra: Value::Null,
            });
            let shown = match rendered {
                Ok(text) => json!({"ok": text}),
                Err(error) => {
                    println!("  {kind}: {error}");
                    json!({"error": error.to_string()})
                }
            };
            renders.insert(format!("{name}/{kind}"), shown);
        }
    }
    if let Ok(path) = std::env::var("TOOLGATE_TEMPLATES_OUT") {
        std::fs::write(path, serde_json::to_string_pretty(&renders).unwrap()).unwrap();
    }
    let failed = renders.values().filter(|render| render.get("error").is_some()).count();
    println!("{} templates, {} renderings, {failed} refused", paths.len(), renders.len());
    assert!(unparsed.is_empty(), "{unparsed:#?}");
    assert!(refused.is_empty(), "the turn's grammar refuses what the template writes: {refused:#?}");
}

/// Whether the grammar of a turn takes the calls as the template itself writes them into the history, and the family and
/// the fallback parser read them back from the whole prompt.
pub(crate) fn turn_is_accepted(template: &Template, derived: &Derived, by_fallback: bool) -> bool {
    let specs: Vec<ToolSpec> = tools().iter().map(|tool| ToolSpec::from_openai(tool).unwrap()).collect();
    let calls = [
        ToolCall::new("get_weather", json!({"city": "Łódź", "days": 2}).as_object().unwrap().clone())
            .with_id("call00000"),
        ToolCall::new("now", serde_json::Map::new()).with_id("call00001"),
    ];
    let grammar = derived.format.turn(&specs, &TurnRequest::default()).unwrap().call.unwrap();
    let automaton = Automaton::new(&grammar, Arc::new(Vocabulary::bytes_only()), &Limits::default()).unwrap();
    let mut is_right = true;
    for n in 1..=calls.len() {
        let made: Vec<Value> = calls[..n].iter().map(|call| {
            let arguments = Value::Object(call.arguments.clone());
            let arguments = if derived.wants_text { Value::String(arguments.to_string()) } else { arguments };
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        }).collect();
        let messages = [
            json!({"role": "user", "content": "Weather in Łódź?"}),
            json!({"role": "assistant", "content": "", "tool_calls": made}),
        ];
        let given = tools();
        let render =
            |tools: &[Value]| template.render(&Render { messages: &messages, tools, ..Render::default() });
        // Some templates fail where a parameter has no description.
        let described = || {
            let mut tools = given.clone();
            for property in
                tools[0]["function"]["parameters"]["properties"].as_object_mut().unwrap().values_mut()
            {
                property["description"] = "A parameter".into();
            }
            tools
        };
        let rendered = render(&given).or_else(|_| render(&described()));
        let Ok(rendered) = rendered else {
            println!("  {n} calls: {}", rendered.unwrap_err());
            continue;
        };
        let (_, said) = rendered.rsplit_once("Łódź?").unwrap();
        if !said.contains("get_weather") {
            println!("  never writes calls");
            return true;
        }
        if n > 1 && !said.contains("now") {
            println!("  writes one call a turn alone");
            continue;
        }
        // Where in what follows the question a call begins and ends, the grammar says.
        let whole = (0..said.len()).filter(|at| said.is_char_boundary(*at)).any(|start| {
            let mut matcher = automaton.matcher();
            let mut complete = false;
            for c in said[start..].chars() {
                if matcher.accept_bytes(c.encode_utf8(&mut [0; 4]).as_bytes()).is_err() {
                    break;
                }
                complete |= matcher.is_complete();
            }
            let read = derived.format.parse(&said[start..], &specs);
            complete && read.calls.len() == n && read.calls.iter().zip(&calls).all(|(a, b)| a.same_request(b))
        });
        let found = extract_typed(said, &specs);
        let leaked = !by_fallback
            || found.calls.len() == n && found.calls.iter().zip(&calls).all(|(a, b)| a.same_request(b));
        if !whole || !leaked {
            println!("  {n} calls: accepted {whole}, read by the fallback parser {leaked}: {said:?}");
        }
        is_right &= whole && leaked;
    }
    is_right
}
