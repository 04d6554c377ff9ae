//! A server of the library with what the official conformance suite asks for: fixed tools, resources, prompts and completions, over
//! streamable HTTP.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use toolgate::Error;
use toolgate::engine::Cancel;
use toolgate::mcp::{
    Changed, Completing, Completions, HttpOptions, Prompt, PromptArgument, PromptMessage, Prompts, Resource,
    ResourceTemplate, Resources, Server, Speaker, Unasked, serve_http,
};
use toolgate::tools::{Args, Contents, Effect, Part, Registry, Tool, ToolResult};
use toolgate_chat::ToolSpec;

/// One red pixel.
const PNG: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\xdac\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xf7\x03AC\x00\x00\x00\x00IEND\xaeB`\x82";
/// One sample of silence.
const WAV: &[u8] = b"RIFF&\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00@\x1f\x00\x00\x80>\x00\x00\x02\x00\x10\x00data\x02\x00\x00\x00\x00\x00";

/// The server, which ends with the test.
pub(super) struct Everything {
    pub(super) url: String,
    cancel: Cancel,
    thread: Option<JoinHandle<()>>,
}

impl Everything {
    pub(super) fn start() -> Self {
        let files = Arc::new(Files::default());
        let server = Server::new(tools(&files), Unasked::Deny)
            .with_resources(files)
            .and_then(|server| server.with_prompts(Arc::new(Letters)))
            .and_then(|server| server.with_completions(Arc::new(Letters)))
            .unwrap();
        let options = HttpOptions::new(([127, 0, 0, 1], 0).into());
        let (cancel, (send, told)) = (Cancel::default(), channel());
        let stop = cancel.clone();
        let thread = std::thread::spawn(move || {
            serve_http(server, &options, &stop, |address| send.send(address).unwrap()).unwrap();
        });
        let url = format!("http://{}/mcp", told.recv().unwrap());
        Self { url, cancel, thread: Some(thread) }
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        self.cancel.cancel();
        // What went wrong there is told by the test.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

type Answer = Box<dyn Fn() -> ToolResult + Send + Sync>;
type MakeParts = fn() -> Vec<Part>;

/// A tool that always answers the same.
struct Fixed {
    spec: ToolSpec,
    answer: Answer,
}

impl Tool for Fixed {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn call(&self, _: &Args) -> ToolResult {
        (self.answer)()
    }
}

fn tools(files: &Arc<Files>) -> Registry {
    let mut registry = Registry::new();
    let none = json!({"type": "object", "properties": {}});
    let mut add = |name: &str, schema: &Value, answer: Answer| {
        let spec = ToolSpec::new(name, "Answers what the suite expects.", schema.clone()).unwrap();
        registry.add(Fixed { spec, answer }).unwrap();
    };
    let parts: [(&str, MakeParts); 5] = [
        ("test_simple_text", || vec![text("This is a simple text response for testing.")]),
        ("test_image_content", || vec![image()]),
        ("test_audio_content", || {
            vec![Part::Audio { mime_type: "audio/wav".to_owned(), bytes: WAV.to_vec() }]
        }),
        ("test_embedded_resource", || {
            vec![embedded("test://embedded-resource", "This is an embedded resource content.")]
        }),
        ("test_multiple_content_types", || {
            let data = Contents::text("test://mixed-content-resource", r#"{"test":"data","value":123}"#);
            let data = Part::Resource(data.with_mime_type("application/json"));
            vec![text("Multiple content types test:"), image(), data]
        }),
    ];
    for (name, made) in parts {
        add(name, &none, Box::new(move || ToolResult::of(made())));
    }
    add(
        "test_error_handling",
        &none,
        Box::new(|| ToolResult::failed("This tool intentionally returns an error for testing")),
    );
    add("test_reconnection", &none, Box::new(|| ToolResult::ok("Reconnection test completed successfully")));
    let files = files.clone();
    add("touch", &none, Box::new(move || files.touch()));
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": false
    });
    add("json_schema_2020_12_tool", &schema, Box::new(|| ToolResult::ok("fine")));
    registry
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn image() -> Part {
    Part::Image { mime_type: "image/png".to_owned(), bytes: PNG.to_vec() }
}

fn embedded(uri: &str, text: &str) -> Part {
    Part::Resource(Contents::text(uri, text).with_mime_type("text/plain"))
}

/// Resources, one of which becomes another when it is touched.
#[derive(Default)]
struct Files {
    told: Mutex<Vec<Arc<Changed>>>,
}

impl Files {
    fn touch(&self) -> ToolResult {
        self.told.lock().unwrap().iter().for_each(|told| told("test://watched-resource"));
        ToolResult::ok("touched")
    }
}

impl Resources for Files {
    fn list(&self) -> Vec<Resource> {
        let named = |name: &str, mime_type: &str| {
            Resource::new(format!("test://{name}"), name)
                .description(format!("The resource {name}."))
                .mime_type(Some(mime_type.to_owned()))
        };
        vec![
            named("static-text", "text/plain"),
            named("static-binary", "image/png"),
            named("watched-resource", "text/plain"),
        ]
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = ResourceTemplate::new("test://template/{id}/data", "template");
        vec![
            template.description("Data by its id.".to_owned()).mime_type(Some("application/json".to_owned())),
        ]
    }

    fn read(&self, uri: &str) -> Result<Option<Contents>, Error> {
        let template = || uri.strip_prefix("test://template/")?.strip_suffix("/data");
        Ok(match (uri, template()) {
            ("test://static-text", _) => {
                let text = "This is the content of the static text resource.";
                Some(Contents::text(uri, text).with_mime_type("text/plain"))
            }
            ("test://static-binary", _) => Some(Contents::bytes(uri, PNG).with_mime_type("image/png")),
            ("test://watched-resource", _) => {
                Some(Contents::text(uri, "watched").with_mime_type("text/plain"))
            }
            (_, Some(id)) => {
                let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                Some(Contents::text(uri, data.to_string()).with_mime_type("application/json"))
            }
            _ => None,
        })
    }

    fn watch(&self, changed: Arc<Changed>) -> bool {
        self.told.lock().unwrap().push(changed);
        true
    }
}

/// Prompts, and values for them.
struct Letters;

impl Prompts for Letters {
    fn list(&self) -> Vec<Prompt> {
        let prompt = |name: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(|name| argument(name)).collect();
            Prompt::new(name).description("Says what the suite expects.".to_owned()).arguments(arguments)
        };
        vec![
            prompt("test_simple_prompt", &[]),
            prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
            prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
            prompt("test_prompt_with_image", &[]),
        ]
    }

    fn get(&self, name: &str, arguments: &BTreeMap<String, String>) -> Result<Vec<PromptMessage>, Error> {
        let of = |name: &str| arguments.get(name).cloned().unwrap_or_default();
        let shown =
            |content, text: &str| vec![PromptMessage::new(Speaker::User, content), PromptMessage::user(text)];
        Ok(match name {
            "test_prompt_with_arguments" => {
                let text = format!("Prompt with arguments: arg1='{}', arg2='{}'", of("arg1"), of("arg2"));
                vec![PromptMessage::user(text)]
            }
            "test_prompt_with_embedded_resource" => {
                let part = embedded(&of("resourceUri"), "Embedded resource content for testing.");
                shown(part, "Please process the embedded resource above.")
            }
            "test_prompt_with_image" => shown(image(), "Please analyze the image above."),
            _ => vec![PromptMessage::user("This is a simple prompt for testing.")],
        })
    }
}

fn argument(name: &str) -> PromptArgument {
    PromptArgument::new(name).description("A test argument.".to_owned()).required(true)
}

impl Completions for Letters {
    fn complete(&self, completing: &Completing) -> Vec<String> {
        vec![format!("{}Value1", completing.begun)]
    }
}
