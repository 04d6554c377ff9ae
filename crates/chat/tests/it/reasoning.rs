//! What is learned about thinking: from templates of the kinds there are, and as laws on a directory of real ones.

use serde_json::{Value, json};
use toolgate_chat::reasoning::{Field, Keeps, Opens, ReasoningSupport, Spot};
use toolgate_chat::template::{Ending, Render};
use toolgate_chat::{Template, TemplateTokens};

fn template(source: impl Into<String>) -> Template {
    Template::new(source, TemplateTokens { bos: "<s>".into(), eos: "</s>".into() }).unwrap()
}

/// An opening in a few signs: `+` and the mark where a thought is open, `-` where it is closed.
fn sign(opens: &Opens) -> String {
    match opens {
        Opens::Thought(marks) => format!("+{}", marks.open),
        Opens::Closed(marks) => format!("-{}", marks.close),
        _ => "·".to_owned(),
    }
}

/// All that was learned, on one line.
fn line(support: &ReasoningSupport) -> String {
    let switches = support.switches.iter().map(|switch| {
        let settings = switch.settings.iter().map(|setting| {
            let default = if setting.is_default { "*" } else { "" };
            let instructs = if setting.instructs { "!" } else { "" };
            let keeps = match setting.kept == support.kept {
                true => String::new(),
                false => format!("~{:?}", Keeps::of(&setting.kept)),
            };
            let value = setting.value.as_str().map_or_else(|| setting.value.to_string(), str::to_owned);
            format!("{value}{default}{instructs} {}{keeps}", sign(&setting.opens))
        });
        let beside = switch.beside.as_ref().map(|(variable, value)| format!("&{variable}={value}"));
        format!(
            "{}{}({})",
            switch.variable,
            beside.unwrap_or_default(),
            settings.collect::<Vec<_>>().join(", ")
        )
    });
    let switches: Vec<String> = switches.collect();
    let fields: Vec<String> = support.fields.iter().map(|field| format!("{field:?}")).collect();
    let marks =
        support.marks.as_ref().map_or("-".to_owned(), |marks| format!("{}…{}", marks.open, marks.close));
    let or_none = |list: &[String], between: &str| match list {
        [] => "-".to_owned(),
        list => list.join(between),
    };
    format!(
        "{} | {} | {} | {:?} | {marks}",
        or_none(&switches, "; "),
        sign(&support.opens),
        or_none(&fields, ", "),
        support.keeps()
    )
}

/// Two answers with thoughts in the field.
fn chat(field: Field) -> [Value; 4] {
    let user = json!({"role": "user", "content": "How are you?"});
    let answer = |thought: &str| match field {
        Field::Chunk => json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": thought}, {"type": "text", "text": "Fine."}]}),
        field => json!({"role": "assistant", "content": "Fine.", field.name(): thought}),
    };
    [user.clone(), answer("Zfirst"), user, answer("Zlast")]
}

/// What holds for every template: an opening stands at the prompt's end, and a value that is listed renders.
fn check_laws(name: &str, template: &Template, support: &ReasoningSupport) {
    let ends = |extra: Value, opens: &Opens| {
        let user = json!({"role": "user", "content": "How are you?"});
        let system = json!({"role": "system", "content": "Be brief."});
        let render = |messages: &[Value]| {
            template.render(&Render {
                messages,
                ending: Ending::Generation,
                extra: extra.clone(),
                ..Render::default()
            })
        };
        let prompt = render(std::slice::from_ref(&user)).or_else(|_| render(&[system, user]));
        let Ok(prompt) = prompt else {
            assert_eq!(*opens, Opens::Nothing, "{name}: {extra} does not render");
            return;
        };
        let (_, tail) = prompt.rsplit_once("How are you?").unwrap_or(("", &prompt));
        match opens {
            Opens::Thought(marks) => {
                assert!(
                    !marks.open.is_empty() && tail.trim_end().ends_with(&marks.open),
                    "{name}, {extra}: {prompt}"
                );
            }
            Opens::Closed(marks) => {
                assert!(!marks.close.is_empty() && tail.contains(&marks.close), "{name}, {extra}: {prompt}");
            }
            _ => {}
        }
    };
    ends(Value::Null, &support.opens);
    for switch in &support.switches {
        assert!(template.source().contains(&switch.variable), "{name}: {}", switch.variable);
        for setting in &switch.settings {
            let mut extra = json!({ &switch.variable: setting.value });
            if let Some((variable, value)) = &switch.beside {
                extra[variable] = value.clone();
            }
            ends(extra, &setting.opens);
        }
    }
    assert!(support.marks.is_none() || !support.fields.is_empty(), "{name}: marks without a thought");
    if support.fields.is_empty() {
        assert_eq!(support.keeps(), Keeps::None, "{name}: no thought is kept without a field");
    }
    for (spot, sentinel) in [(Spot::EarlierAnswer, "Zfirst"), (Spot::Answer, "Zlast")] {
        for field in support.fields.iter().filter(|_| support.kept.contains(&spot)).take(1) {
            let text = template.render(&Render { messages: &chat(*field), ..Render::default() }).unwrap();
            assert!(text.contains(sentinel), "{name}: {spot:?} is not kept in {text}");
        }
    }
    assert_eq!(*support, ReasoningSupport::learn(template), "{name}: learned twice");
}

/// The writing of a conversation: a head for each message, and the results of tools.
const PLAIN: &str = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}\
    {% if add_generation_prompt %}<|assistant|>{% endif %}";

/// A template whose assistant messages are written by `assistant`, and whose prompt for a turn is ended by `opening`.
fn kind(system: &str, assistant: &str, opening: &str) -> String {
    let call = "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>{% endfor %}";
    format!(
        "{system}{{% set ns = namespace(user=-1) %}}{{% for m in messages %}}{{% if m.role == 'user' %}}\
         {{% set ns.user = loop.index0 %}}{{% endif %}}{{% endfor %}}{{% for m in messages %}}<|{{{{ m.role }}}}|>\
         {{% if m.role == 'assistant' %}}{assistant}{call}{{% else %}}{{{{ m.content }}}}{{% endif %}}<|end|>{{% endfor %}}\
         {{% if add_generation_prompt %}}<|assistant|>{opening}{{% endif %}}"
    )
}

#[test]
fn kinds_of_templates_are_told_apart() {
    let think = |field: &str, when: &str| {
        format!(
            "{{% if m.{field}{when} %}}<think>\n{{{{ m.{field} }}}}\n</think>\n{{% endif %}}{{{{ m.content }}}}"
        )
    };
    let run = " and loop.index0 > ns.user";
    let chunks = "{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content or [] %}\
        {% if c.type == 'thinking' %}[THINK]{{ c.thinking }}[/THINK]{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}";
    let analysis = "{% if m.thinking and loop.index0 > ns.user %}<|channel|>analysis<|message|>{{ m.thinking }}<|end|>\
        <|assistant|>{% endif %}<|channel|>final<|message|>{{ m.content }}";
    let effort = "{% if reasoning_effort is not defined %}{% set reasoning_effort = 'medium' %}{% endif %}\
        Reasoning: {{ reasoning_effort }}\n";
    let budget = "{% if thinking_budget is defined and thinking_budget > 0 %}Think in {{ thinking_budget }} tokens.{% endif %}";
    let modes =
        "{% if thinking_mode == 'disabled' %}</think>{% elif thinking_mode == 'enabled' %}<think>{% endif %}";
    let again = "{% set enable_thinking = enable_thinking if enable_thinking is defined else true %}";
    let cleared = "{% if m.reasoning_content and (loop.index0 > ns.user or clear_thinking is false) %}\
        <think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}";
    let phrases =
        "{{ (m.reasoning_content + '\n[ANSWER]\n') if m.reasoning_content and loop.last }}{{ m.content }}";
    for (name, source, learned) in [
        ("nothing", PLAIN.to_owned(), "- | · | - | None | -"),
        (
            "a switch that closes the thought, and the thoughts of a run",
            kind(
                "",
                &think("reasoning_content", run),
                "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}",
            ),
            "enable_thinking(true* ·, false -</think>) | · | ReasoningContent | SinceUser | <think>…</think>",
        ),
        ("always open, no history", kind("", "{{ m.content }}", "<think>\n"), "- | +<think> | - | None | -"),
        (
            "efforts in the system message, channels",
            kind(effort, analysis, ""),
            "reasoning_effort(none! ·, low! ·, medium* ·, high! ·) | · | Thinking | SinceUser | \
             <|channel|>analysis<|message|>…<|end|>",
        ),
        ("chunks", kind("", chunks, ""), "- | · | Chunk | All | [THINK]…[/THINK]"),
        (
            "all thoughts, always open",
            kind("", &think("reasoning_content", ""), "<think>"),
            "- | +<think> | ReasoningContent | All | <think>…</think>",
        ),
        (
            "a switch that opens the thought and keeps it",
            kind(
                "",
                &think("reasoning_content", " and thinking"),
                "{{ '<think>' if thinking else '</think>' }}",
            ),
            "thinking(true +<think>~All, false* -</think>) | -</think> | ReasoningContent | None | <think>…</think>",
        ),
        ("a budget", kind(budget, "{{ m.content }}", ""), "thinking_budget(0* ·, 512! ·) | · | - | None | -"),
        (
            "modes by words",
            kind("", "{{ m.content }}", modes),
            "thinking_mode(disabled -</think>, enabled +<think>) | · | - | None | -",
        ),
        (
            "a variable that is set from itself, another field",
            kind(again, &think("reasoning", " and m.tool_calls"), "{{ '<think>' if enable_thinking }}"),
            "enable_thinking(true* +<think>, false ·) | +<think> | Reasoning | WithCalls | <think>…</think>",
        ),
        (
            "a switch of the history alone",
            kind("", cleared, ""),
            "clear_thinking(true* ·, false ·~All) | · | ReasoningContent | SinceUser | <think>…</think>",
        ),
        (
            "a phrase in place of a mark, and the last thought",
            kind("", phrases, "Here I think:\n"),
            "- | +Here I think: | ReasoningContent | Last | Here I think:…[ANSWER]",
        ),
        (
            "a switch that acts beside another one",
            kind(
                "{% if thinking and reasoning_effort == 'max' %}Spare nothing.{% endif %}",
                "{{ m.content }}",
                "{{ '<think>' if thinking else '</think>' }}",
            ),
            "thinking(true +<think>, false* -</think>); reasoning_effort&thinking=true(max! +<think>) \
             | -</think> | - | None | -",
        ),
        (
            "words that change the history alone",
            kind("", &think("reasoning", " and (loop.index0 > ns.user or render_thinking == 'all')"), ""),
            "render_thinking(all ·~All) | · | Reasoning | SinceUser | <think>…</think>",
        ),
        (
            "an empty thought in a message of its own, headers in place of tags",
            kind(
                "",
                "{% if m.reasoning_content %}to=self<|text|>{{ m.reasoning_content }}<|eom|><|assistant|>{% endif %}\
                 to=user<|text|>{{ m.content }}",
                "{% if thinking is false %}to=self<|text|><|eom|><|assistant|>{% endif %}",
            ),
            "thinking(true* ·, false -<|eom|>) | · | ReasoningContent | All | to=self<|text|>…<|eom|>",
        ),
        (
            "a switch whose other values fail",
            kind(
                "{% if reasoning_effort not in ['low', 'max', none] %}{{ raise_exception('no') }}{% endif %}\
                 {% if reasoning_effort == 'low' %}Be quick.{% endif %}",
                "{{ m.content }}",
                "",
            ),
            "reasoning_effort(low! ·, max! ·) | · | - | None | -",
        ),
    ] {
        let template = template(source);
        let support = ReasoningSupport::learn(&template);
        assert_eq!(line(&support), learned, "{name}");
        assert_eq!(support.is_empty(), name == "nothing");
        check_laws(name, &template, &support);
    }
}

#[test]
fn a_template_that_never_ends_is_given_up() {
    let endless =
        "{% for a in range(100000) %}{% for b in range(100000) %}{{ thinking }}{% endfor %}{% endfor %}";
    assert!(ReasoningSupport::learn(&template(endless)).is_empty());
    // It is the loop alone that makes it fail.
    let short = "{% for m in messages %}{{ m.content }}{% endfor %}{{ '<think>' if thinking }}";
    assert!(!ReasoningSupport::learn(&template(short)).is_empty());
}

#[test]
fn laws_hold_on_real_templates() {
    let Some(directory) = crate::skip::corpus("TOOLGATE_TEMPLATES", "a directory of .jinja files") else {
        return;
    };
    let mut paths: Vec<_> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jinja"));
    paths.sort();
    assert!(!paths.is_empty(), "no templates");
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let template = template(std::fs::read_to_string(path).unwrap());
        let support = ReasoningSupport::learn(&template);
        println!("{name} | {}", line(&support));
        check_laws(&name, &template, &support);
    }
}
