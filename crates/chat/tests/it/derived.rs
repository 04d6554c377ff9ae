//! Templates of our own making, each in another form: the family is learned from what it writes, and its grammar takes
//! that, its reader reads it, or the derivation says that our own form is asked for.

use toolgate_chat::format::derive;
use toolgate_chat::{Template, TemplateTokens};

use crate::corpus::turn_is_accepted;

/// A template around one way to write calls: `section` writes the calls of `message`.
fn template(section: &str, generation: &str) -> String {
    format!(
        "{{%- if tools %}}<|sys|>Tools: {{{{ tools | tojson }}}}<|end|>\n{{%- endif %}}\
         {{%- for message in messages %}}\
         {{%- if message.role == 'tool' %}}<|tool|>{{{{ message.content }}}}<|end|>\n\
         {{%- elif message.role == 'assistant' %}}<|assistant|>{{{{ message.content or '' }}}}\
         {{%- if message.tool_calls %}}{section}{{%- endif %}}<|end|>\n\
         {{%- else %}}<|{{{{ message.role }}}}|>{{{{ message.content }}}}<|end|>\n{{%- endif %}}\
         {{%- endfor %}}{{%- if add_generation_prompt %}}{generation}{{%- endif %}}"
    )
}

fn calls(body: &str) -> String {
    format!(
        "{{%- for call in message.tool_calls %}}{{%- set call = call.function or call %}}{body}{{%- endfor %}}"
    )
}

fn arguments(body: &str) -> String {
    format!("{{%- for k, v in call.arguments | items %}}{body}{{%- endfor %}}")
}

const VALUE: &str = "{{ v if v is string else v | tojson }}";

fn check(name: &str, section: &str, family: &str) -> Option<String> {
    let source = template(section, "<|assistant|>");
    let template = Template::new(source.clone(), TemplateTokens::default()).unwrap();
    let derived = derive(&template);
    let found = derived.format.name();
    if found != family {
        return Some(format!("{name}: {found} ({})", derived.why));
    }
    (family != "generic" && !turn_is_accepted(&template, &derived, false))
        .then(|| format!("{name}: {found} refuses what the template writes"))
}

#[test]
fn every_form_is_learned_or_said_to_be_unknown() {
    let pair = |open: &str, middle: &str, close: &str| {
        arguments(&format!("{{{{ {open:?} }}}}{{{{ k }}}}{{{{ {middle:?} }}}}{VALUE}{{{{ {close:?} }}}}"))
    };
    let wrong: Vec<String> = [
        check("json between tags of its own", &calls("{{ '<act>{\"tool\": \"' + call.name + '\", \"with\": ' }}{{ call.arguments | tojson }}{{ '}</act>' }}"), "learned"),
        check("json, the arguments first", &calls("{{ '<act>{\"args\": ' }}{{ call.arguments | tojson }}{{ ', \"tool\": \"' + call.name + '\"}</act>' }}"), "learned"),
        check("a list in one wrapper", &format!("{{{{ '<acts>[' }}}}{}{{{{ ']</acts>' }}}}", calls("{{ '{\"name\": \"' + call.name + '\", \"arguments\": ' }}{{ call.arguments | tojson }}{{ '}' }}{% if not loop.last %}{{ ', ' }}{% endif %}")), "learned"),
        check("objects as they are", &calls("{{ '<act>' }}{{ call | tojson }}{{ '</act>' }}"), "learned"),
        check("the whole list as it is", "{{ '<acts>' }}{{ message.tool_calls | tojson }}{{ '</acts>' }}", "learned"),
        check("openai's own objects", "{%- for call in message.tool_calls %}{{ call | tojson }}{{ '\\n' }}{%- endfor %}", "learned"),
        check("name, line, json", &calls("{{ '>>>' + call.name + '\\n' }}{{ call.arguments | tojson }}"), "learned"),
        check("name in a tag", &calls("{{ '<call name=\"' + call.name + '\">' }}{{ call.arguments | tojson }}{{ '</call>\\n' }}"), "learned"),
        check("name as a tag", &calls("{{ '<' + call.name + '>' }}{{ call.arguments | tojson }}{{ '</' + call.name + '>' }}"), "learned"),
        check("numbered", &calls("{{ '<act id=' ~ loop.index ~ '>' + call.name + ' ' }}{{ call.arguments | tojson }}{{ '</act>' }}"), "learned"),
        check("in a fence", &calls("{{ 'Action:\\n```json\\n{\"name\": \"' + call.name + '\", \"input\": ' }}{{ call.arguments | tojson }}{{ '}\\n```\\n' }}"), "learned"),
        check("react", &calls("{{ '\\nAction: ' + call.name + '\\nAction Input: ' }}{{ call.arguments | tojson }}"), "learned"),
        check("indented json", &calls("{{ '<act>\\n' }}{{ {'name': call.name, 'arguments': call.arguments} | tojson(indent=2) }}{{ '\\n</act>' }}"), "learned"),
        check("indented further in", &calls("{{ '<act>\n    {\n        \"name\": \"' + call.name + '\",\n        \"arguments\": ' }}{{ call.arguments | tojson(indent=4) | indent(8) }}{{ '\n    }\n</act>' }}"), "learned"),
        check("compact json", &calls("{{ '<act>' }}{{ {'name': call.name, 'arguments': call.arguments} | tojson(separators=(',', ':')) }}{{ '</act>' }}"), "learned"),
        check("arguments as a text", &calls("{{ '<act>' }}{{ {'name': call.name, 'arguments': call.arguments | tojson} | tojson }}{{ '</act>' }}"), "generic"),
        check("elements with attributes", &calls(&format!("{{{{ '<run tool=\"' + call.name + '\">' }}}}{}{{{{ '</run>' }}}}", pair("<with key=\"", "\">", "</with>"))), "learned"),
        check("elements on lines", &calls(&format!("{{{{ '<run>\\n<tool>' + call.name + '</tool>\\n' }}}}{}{{{{ '</run>\\n' }}}}", pair("<with=", ">\n", "\n</with>\n"))), "learned"),
        check("keys as tags", &calls(&format!("{{{{ '<run>' + call.name + '\\n' }}}}{}{{{{ '</run>' }}}}", arguments(&format!("<{{{{ k }}}}>{VALUE}</{{{{ k }}}}>\n")))), "learned"),
        check("keys and values apart", &calls(&format!("{{{{ '<run>' + call.name }}}}{}{{{{ '</run>' }}}}", pair("<key>", "</key><value>", "</value>"))), "learned"),
        check("keys and colons", &calls(&format!("{{{{ '<run>' + call.name + '\\n' }}}}{}{{{{ '</run>' }}}}", pair("", ": ", "\n"))), "generic"),
        check("special tokens", &format!("{{{{ '<|acts|>' }}}}{}{{{{ '<|/acts|>' }}}}", calls("{{ '<|act|>' + call.name + '<|with|>' }}{{ call.arguments | tojson }}{{ '<|/act|>' }}")), "learned"),
        check("python", &format!("{{{{ '[' }}}}{}{{{{ ']' }}}}", calls("{{ call.name + '(' }}{%- for k, v in call.arguments | items %}{{ k + '=' }}{{ v | tojson }}{% if not loop.last %}{{ ', ' }}{% endif %}{%- endfor %}{{ ')' }}{% if not loop.last %}{{ ', ' }}{% endif %}")), "pythonic"),
        check("python between tokens", &format!("{{{{ '<|py|>[' }}}}{}{{{{ ']<|/py|>' }}}}", calls("{{ call.name + '(' }}{%- for k, v in call.arguments | items %}{{ k + '=' }}{{ v | tojson }}{% if not loop.last %}{{ ', ' }}{% endif %}{%- endfor %}{{ ')' }}{% if not loop.last %}{{ ', ' }}{% endif %}")), "learned"),
        check("with an id", &calls("{{ '<act>' + message.tool_calls[loop.index0].id + ' ' + call.name + ' ' }}{{ call.arguments | tojson }}{{ '</act>' }}"), "learned"),
        check("one call a turn", "{%- set call = message.tool_calls[0].function %}{{ '<act>{\"name\": \"' + call.name + '\", \"arguments\": ' }}{{ call.arguments | tojson }}{{ '}</act>' }}", "learned"),
        check("arguments as they come", &calls("{{ '<act>{\"name\": \"' + call.name + '\", \"arguments\": ' }}{{ call.arguments }}{{ '}</act>' }}"), "learned"),
        check("arguments put together", &calls("{{ '<act>{\"name\": \"' + call.name + '\", \"arguments\": ' + call.arguments + '}</act>' }}"), "learned"),
        check("python in single quotes", &calls("{{ '<py>' + call.name + '(' }}{%- for k, v in call.arguments | items %}{{ k + '=' }}{% if v is string %}'{{ v }}'{% else %}{{ v }}{% endif %}{% if not loop.last %}{{ ', ' }}{% endif %}{%- endfor %}{{ ')</py>' }}"), "generic"),
        check("the name twice", &calls("{{ '<act name=' + call.name + '>{\"name\": \"' + call.name + '\", \"arguments\": ' }}{{ call.arguments | tojson }}{{ '}</act>' }}"), "learned"),
        check("lines of objects", &format!("{{{{ '<acts>\n' }}}}{}{{{{ '</acts>' }}}}", calls("{{ {'name': call.name, 'arguments': call.arguments} | tojson }}{{ '\n' }}")), "learned"),
        check("a comma after each", &format!("{{{{ '<acts>[' }}}}{}{{{{ ']</acts>' }}}}", calls("{{ {'name': call.name, 'arguments': call.arguments} | tojson }}{{ ', ' }}")), "learned"),
        check("elements with types", &calls(&format!("{{{{ '<run>' + call.name + '\n' }}}}{}{{{{ '</run>' }}}}", arguments(&format!("<with key=\"{{{{ k }}}}\" kind=\"{{{{ 'text' if v is string else 'json' }}}}\">{VALUE}</with>\n")))), "learned"),
        check("elements in an element", &calls(&format!("{{{{ '<run>\n<name>' + call.name + '</name>\n<with>\n' }}}}{}{{{{ '</with>\n</run>\n' }}}}", arguments(&format!("<{{{{ k }}}}>{VALUE}</{{{{ k }}}}>\n")))), "learned"),
        check("nothing", "", "generic"),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_prompt_that_opens_calls_and_answers_alike() {
    let section = calls("{{ '>>>' + call.name + '\\n' }}{{ call.arguments | tojson }}");
    let source = template(&section, "<|assistant|>>>>").replace(
        "<|assistant|>{{ message.content or '' }}",
        "<|assistant|>{% if message.content %}>>>all\n{{ message.content }}{% endif %}",
    );
    let template = Template::new(source, TemplateTokens::default()).unwrap();
    let derived = derive(&template);
    assert_eq!(derived.format.name(), "functionary_v3_2", "{}", derived.why);
    assert!(turn_is_accepted(&template, &derived, false));
    let turn = derived.format.parse("all\nIt is late.", &[]);
    assert_eq!((turn.content.as_deref(), turn.calls.len(), turn.defects), (Some("It is late."), 0, vec![]));
    let turn = derived.format.parse("now\n{\"zone\": 1}>>>now\n{}", &[]);
    assert_eq!((turn.content, turn.calls.len(), turn.defects.len()), (None, 2, 0));
    let turn = derived.format.parse("It is late.", &[]);
    assert_eq!((turn.content.as_deref(), turn.calls.len(), turn.defects), (Some("It is late."), 0, vec![]));
}

#[test]
fn thoughts_between_tags_of_their_own() {
    let section = calls(
        "{{ '<act>{\"tool\": \"' + call.name + '\", \"with\": ' }}{{ call.arguments | tojson }}{{ '}</act>' }}",
    );
    let source = template(&section, "<|assistant|>").replace(
        "<|assistant|>{{ message.content or '' }}",
        "<|assistant|><mull>{{ message.reasoning_content or '' }}</mull>\n{{ message.content or '' }}",
    );
    let template = Template::new(source, TemplateTokens::default()).unwrap();
    let derived = derive(&template);
    assert!(turn_is_accepted(&template, &derived, false), "{}", derived.why);
    let turn = derived.format.parse("<mull>Late?</mull>\n<act>{\"tool\": \"now\", \"with\": {}}</act>", &[]);
    assert_eq!((turn.reasoning.as_deref(), turn.content, turn.calls.len()), (Some("Late?"), None, 1));
    let reasoning = derived.format.turn(&[], &Default::default()).unwrap().reasoning.unwrap();
    assert_eq!((reasoning.open.text().as_str(), reasoning.close.text().as_str()), ("<mull>", "</mull>"));
}

#[test]
fn tools_under_other_names() {
    let body = "{%- for m in messages %}{{ '<|' + m.role + '|>' }}SYSTEM{{ m.content or '' }}\
        {%- if m.tool_calls %} functools[{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\
        {%- if not loop.last %}, {% endif %}{% endfor %}]{% endif %}<|end|>\n{%- endfor %}{%- if add_generation_prompt %}<|assistant|>{%- endif %}";
    for (name, head, system) in [
        ("functions", "{% if functions %}At {{ datetime }}: {{ functions }}{% endif %}", ""),
        ("xml_tools", "{% for t in xml_tools %}{{ t.function.name }}: {{ t | tojson }}{% endfor %}", ""),
        (
            "the system message",
            "",
            "{% if 'tools' in m and m['tools'] %}{{ m['content'] + '<|tool|>' + m['tools'] + '<|/tool|>' }}{% endif %}",
        ),
    ] {
        let source = format!("{head}{}", body.replace("SYSTEM", system));
        let template = Template::new(source, TemplateTokens::default()).unwrap();
        let derived = derive(&template);
        assert!(
            derived.knows_tools && turn_is_accepted(&template, &derived, true),
            "{name}: {}",
            derived.why
        );
        assert_eq!(derived.format.name(), "functools", "{name}");
    }
}
