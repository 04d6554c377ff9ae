//! The families known by name. What a template writes is learned from it; these give the learned form its name, serve
//! templates that tell of a form and never write it, and are what a caller may ask for.

use std::borrow::Cow;

use toolgate_grammar::marks::MarkTokens;

use super::messages::Messages;
use super::syntax::{Arguments, Close, Elements, Lists, Middle, Part, Spacing, Syntax};

const THINK: (&str, &str) = ("<think>", "</think>");

/// All of them.
pub(crate) fn all() -> Vec<Syntax> {
    let named = |name, begin, head, tail, between, end| json(name, begin, head, tail, between, end);
    vec![
        hermes(),
        named("llama3_json", "", "{\"name\": \"$\", \"parameters\": ", "}", "; ", ""),
        named("llama3_function", "", "<function=$>", "</function>", "\n", ""),
        named("functionary_v3_2", "", "$\n", "", ">>>", "").answering("all\n"),
        named("mistral", "[TOOL_CALLS][", "{\"name\": \"$\", \"arguments\": ", ", \"id\": \"@\"}", ", ", "]"),
        named("mistral_args", "", "[TOOL_CALLS]$[ARGS]", "", "", "").thinking(("[THINK]", "[/THINK]")),
        named("mistral_call_id", "", "[TOOL_CALLS]$[CALL_ID]@[ARGS]", "", "", ""),
        named(
            "deepseek_v3",
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>$\n```json\n",
            "\n```<｜tool▁call▁end｜>",
            "\n",
            "<｜tool▁calls▁end｜>",
        )
        .thinking(THINK),
        named(
            "deepseek_v3_1",
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>$<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            "",
            "<｜tool▁calls▁end｜>",
        )
        .thinking(THINK),
        named(
            "command_r7b",
            "<|START_ACTION|>[\n",
            "    {\"tool_call_id\": \"#0\", \"tool_name\": \"$\", \"parameters\": ",
            "}",
            ",\n",
            "\n]<|END_ACTION|>",
        )
        .thinking(("<|START_THINKING|>", "<|END_THINKING|>"))
        .answering("<|START_RESPONSE|>"),
        named("granite", "<|tool_call|>[", "{\"name\": \"$\", \"arguments\": ", "}", ", ", "]"),
        named(
            "phi4_mini",
            "<|tool_call|>[",
            "{\"name\": \"$\", \"arguments\": ",
            "}",
            ", ",
            "]<|/tool_call|>",
        ),
        named("functools", "functools[", "{\"name\": \"$\", \"arguments\": ", "}", ", ", "]"),
        named(
            "tool_calls_list",
            "<tool_calls>[",
            "{\"name\": \"$\", \"arguments\": ",
            ", \"id\": \"@\"}",
            ", ",
            "]</tool_calls>",
        ),
        named(
            "tool_calls_lines",
            "<tool_calls>\n",
            "{\"name\": \"$\", \"arguments\": ",
            "}",
            "\n",
            "\n</tool_calls>",
        )
        .thinking(THINK),
        named("nemotron_v2", "<TOOLCALL>[", "{\"name\": \"$\", \"arguments\": ", "}", ", ", "]</TOOLCALL>")
            .thinking(THINK),
        named("apertus", "<|tools_prefix|>[", "{\"$\": ", "}", ", ", "]<|tools_suffix|>")
            .thinking(("<|inner_prefix|>", "<|inner_suffix|>")),
        named(
            "gigachat3",
            "",
            "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"$\", \"arguments\": ",
            "}",
            "",
            "",
        ),
        named("gigachat3_1", "", "<|function_call|>{\"name\": \"$\", \"arguments\": ", "}", "", ""),
        named(
            "internlm",
            "",
            "<|action_start|><|plugin|>\n{\"name\": \"$\", \"parameters\": ",
            "}<|action_end|>",
            "\n",
            "",
        ),
        named(
            "kimi_k2",
            "<|tool_calls_section_begin|>",
            "<|tool_call_begin|>functions.$:#0<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
            "",
            "<|tool_calls_section_end|>",
        )
        .thinking(THINK),
        named(
            "harmony",
            "",
            " to=functions.$<|channel|>commentary json<|message|>",
            "",
            "<|call|><|start|>assistant",
            "",
        )
        .thinking(("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"))
        .answering("<|channel|>final<|message|>")
        .of_messages(Messages::harmony()),
        named(
            "solar",
            "<|tool_calls|>",
            "<|tool_call:begin|>@<|tool_call:name|>$<|tool_call:args|>",
            "<|tool_call:end|>",
            "",
            "",
        ),
        elements(
            "qwen3_coder",
            "",
            "<tool_call>\n<function=$>\n",
            "</function>\n</tool_call>",
            "\n",
            "",
            element("<parameter=", Middle::same(">\n"), "\n</parameter>\n"),
        )
        .thinking(THINK),
        elements(
            "glm",
            "",
            "<tool_call>$\n",
            "</tool_call>",
            "\n",
            "",
            element("<arg_key>", Middle::same("</arg_key>\n<arg_value>"), "</arg_value>\n"),
        )
        .thinking(THINK),
        elements(
            "glm_4_7",
            "",
            "<tool_call>$",
            "</tool_call>",
            "",
            "",
            element("<arg_key>", Middle::same("</arg_key><arg_value>"), "</arg_value>"),
        )
        .thinking(THINK),
        elements(
            "minimax_m2",
            "<minimax:tool_call>\n",
            "<invoke name=\"$\">\n",
            "</invoke>\n",
            "",
            "</minimax:tool_call>",
            element("<parameter name=\"", Middle::same("\">"), "</parameter>\n"),
        )
        .thinking(THINK),
        elements(
            "minimax_m3",
            "]<]minimax[>[<tool_call>\n",
            "]<]minimax[>[<invoke name=\"$\">",
            "]<]minimax[>[</invoke>\n",
            "",
            "]<]minimax[>[</tool_call>",
            Elements {
                close: Close::Keyed("]<]minimax[>[</".into(), ">".into()),
                lists: Lists::Elements,
                ..element("]<]minimax[>[<", Middle::same(">"), "")
            },
        )
        .thinking(("<mm:think>", "</mm:think>")),
        elements(
            "seed_oss",
            "",
            "<seed:tool_call>\n<function=$>\n",
            "</function>\n</seed:tool_call>",
            "\n",
            "",
            element("<parameter=", Middle::same(">"), "</parameter>\n"),
        )
        .thinking(("<seed:think>", "</seed:think>")),
        elements(
            "deepseek_v3_2",
            "<｜DSML｜function_calls>\n",
            "<｜DSML｜invoke name=\"$\">\n",
            "</｜DSML｜invoke>\n",
            "",
            "</｜DSML｜function_calls>",
            dsml(),
        )
        .thinking(THINK),
        elements(
            "deepseek_v4",
            "<｜DSML｜tool_calls>\n",
            "<｜DSML｜invoke name=\"$\">\n",
            "</｜DSML｜invoke>\n",
            "",
            "</｜DSML｜tool_calls>",
            dsml(),
        )
        .thinking(THINK),
        elements(
            "minicpm5",
            "",
            "<function name=\"$\">",
            "</function>",
            "",
            "",
            Elements {
                python_literals: true,
                lists: Lists::Python,
                ..element("<param name=\"", Middle::same("\">"), "</param>")
            },
        )
        .thinking(THINK),
        elements(
            "muse",
            "",
            " to=$<|message|><atem:function_calls>\n<atem:invoke name=\"$\">\n",
            "</atem:invoke>\n</atem:function_calls>",
            "<|eom|><|start|>assistant",
            "",
            element("<atem:parameter name=\"", Middle::same("\">"), "</atem:parameter>\n"),
        ),
        elements(
            "kimi_k3",
            "<|open|>tools<|sep|>",
            "<|open|>call tool=\"$\" index=\"#1\"<|sep|>",
            "<|close|>call<|sep|>",
            "",
            "<|close|>tools<|sep|>",
            Elements {
                middle: Middle {
                    string: "\" type=\"string\"<|sep|>".into(),
                    number: "\" type=\"number\"<|sep|>".into(),
                    boolean: "\" type=\"boolean\"<|sep|>".into(),
                    array: "\" type=\"array\"<|sep|>".into(),
                    object: "\" type=\"object\"<|sep|>".into(),
                },
                ..element("<|open|>argument key=\"", Middle::same(""), "<|close|>argument<|sep|>")
            },
        )
        .thinking(("<|open|>think<|sep|>", "<|close|>think<|sep|>"))
        .answering("<|open|>response<|sep|>"),
        form("lfm2", "<|tool_call_start|>[", "$(", ")", ", ", "]<|tool_call_end|>", Arguments::Pythonic)
            .thinking(THINK),
        form("pythonic", "[", "$(", ")", ", ", "]", Arguments::Pythonic),
        form("llama4", "<|python_start|>[", "$(", ")", ", ", "]<|python_end|>", Arguments::Pythonic),
        form("olmo3", "<function_calls>\n", "$(", ")", "\n", "\n</function_calls>", Arguments::Pythonic)
            .thinking(THINK),
        form(
            "function_gemma",
            "",
            "<start_function_call>call:$",
            "<end_function_call>",
            "",
            "",
            Arguments::Gemma("<escape>".into()),
        ),
        form("gemma4", "", "<|tool_call>call:$", "<tool_call|>", "", "", Arguments::Gemma("<|\"|>".into()))
            .thinking(("<|channel>thought\n", "<channel|>")),
    ]
}

/// Hermes 2/3, Qwen2.5 and Qwen3, and what models are asked for whose template knows no tools.
pub(crate) fn hermes() -> Syntax {
    json("hermes", "", "<tool_call>\n{\"name\": \"$\", \"arguments\": ", "}\n</tool_call>", "\n", "")
        .thinking(THINK)
}

/// The family of a name.
pub(crate) fn named(name: &str) -> Option<Syntax> {
    all().into_iter().find(|syntax| syntax.name == name)
}

impl Syntax {
    fn answering(mut self, head: &'static str) -> Self {
        self.answer = head.into();
        self
    }

    fn of_messages(mut self, messages: Messages) -> Self {
        self.messages = Some(messages);
        self
    }

    fn thinking(mut self, (open, close): (&'static str, &'static str)) -> Self {
        self.reasoning = Some((open.into(), close.into()));
        self
    }
}

fn json(
    name: &'static str,
    begin: &'static str,
    head: &'static str,
    tail: &'static str,
    between: &'static str,
    end: &'static str,
) -> Syntax {
    form(name, begin, head, tail, between, end, Arguments::Json(Spacing::Spaced))
}

fn elements(
    name: &'static str,
    begin: &'static str,
    head: &'static str,
    tail: &'static str,
    between: &'static str,
    end: &'static str,
    elements: Elements,
) -> Syntax {
    form(name, begin, head, tail, between, end, Arguments::Elements(elements))
}

fn element(open: &'static str, middle: Middle, close: &'static str) -> Elements {
    Elements {
        open: open.into(),
        middle,
        close: Close::Text(close.into()),
        between: "".into(),
        python_literals: false,
        lists: Lists::Json,
    }
}

fn dsml() -> Elements {
    let middle = Middle::typed("\" string=\"true\">", "\" string=\"false\">");
    element("<｜DSML｜parameter name=\"", middle, "</｜DSML｜parameter>\n")
}

/// In `head` and `tail`, `$` stands for the name, `@` for the id, `#n` for the call's number from `n`.
fn form(
    name: &'static str,
    begin: &'static str,
    head: &'static str,
    tail: &'static str,
    between: &'static str,
    end: &'static str,
    arguments: Arguments,
) -> Syntax {
    let mut call = parts(head);
    call.push(Part::Arguments);
    call.extend(parts(tail));
    Syntax {
        name: name.into(),
        begin: begin.into(),
        call,
        between: between.into(),
        end: end.into(),
        arguments,
        answer: "".into(),
        reasoning: None,
        messages: None,
        is_single: false,
        tokens: MarkTokens::default(),
    }
}

fn parts(pattern: &'static str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let slot = rest.char_indices().find(|(_, c)| matches!(c, '$' | '@' | '#'));
        let Some((at, c)) = slot else {
            parts.push(Part::Text(Cow::Borrowed(rest)));
            break;
        };
        let (text, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
        if !text.is_empty() {
            parts.push(Part::Text(Cow::Borrowed(text)));
        }
        rest = after.get(1..).unwrap_or_default();
        parts.push(match c {
            '$' => Part::Name,
            '@' => Part::Id,
            _ => {
                let first = rest.chars().next().and_then(|c| c.to_digit(10)).unwrap_or(0);
                rest = rest.get(1..).unwrap_or_default();
                Part::Index(first as usize)
            }
        });
    }
    parts
}
