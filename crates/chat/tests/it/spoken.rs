//! What a text only speaks of is no call; what is set off from prose is. Both directions, by signs and line breaks alone.

use serde_json::json;
use toolgate_chat::ToolSpec;

use crate::fallback::check;

const CALL: &str = r#"{"name": "burn", "arguments": {"disc": "b"}}"#;

#[test]
fn what_is_spoken_of_is_no_call() {
    let tag = format!("<tool_call>{CALL}</tool_call>");
    for text in [
        format!("I won't run {CALL}, since it cannot be undone."),
        format!("Nie {CALL} aufrufen."),
        format!("我不会运行 {CALL} 。"),
        format!("It was \"{CALL}\" that did it."),
        format!("({CALL})"),
        format!("1. {CALL}\n2. Something else."),
        format!("- {CALL}: burns a disc"),
        format!("| call | does |\n|---|---|\n| {CALL} | burns |"),
        format!("| call | does |\n|---|---|\n| {tag} | burns |"),
        format!("> {CALL}"),
        format!("> {tag}\n\nThat is what you wrote."),
        format!("Use `{CALL}` for it."),
        format!("Use `{tag}` for it."),
        format!("I could write {tag} but you said no."),
        format!("Your text \"{tag}\" burns a disc."),
        format!("The user asked: {tag}, so I decline."),
        format!("He typed: {tag}."),
        format!("例如：{tag}，这样。"),
        format!("用户说「{tag}」。"),
        format!("Er schrieb „{tag}“ darunter."),
        format!("Never {CALL}{CALL} please."),
        format!("Never write functools[{CALL}] here."),
        format!("~~~text\n{tag}\n~~~"),
        format!("```python\n{CALL}\n```"),
        format!("```text\n{tag}\n```"),
        format!("<!-- {tag} -->"),
        format!("<!--\n{tag}\n-->\nDone."),
        format!("<pre>\n{CALL}\n</pre>"),
        format!("<pre lang=\"json\">\n{tag}\n{tag}\n</pre>"),
        format!("<pre><code>\n{tag}\n</code></pre>"),
        format!("<blockquote>\n{tag}\n</blockquote>"),
        format!("<table>\n<tr><td>{tag}</td></tr>\n</table>"),
        "<pre>\n<tool_call>\nno call\n</tool_call>\n</pre>".to_owned(),
    ] {
        check(&text, &[], json!([]), Some(&text));
    }
    let tools = [ToolSpec::new("burn", "", json!({})).unwrap()];
    for text in ["Never run [burn(disc=\"b\")]", "It is burn(disc=\"b\") that does it.", "burn\nis its name"]
    {
        check(text, &tools, json!([]), Some(text));
    }
}

#[test]
fn what_is_set_off_is_a_call() {
    let tag = format!("<tool_call>{CALL}</tool_call>");
    let one = json!([["burn", {"disc": "b"}]]);
    for (text, content) in [
        (format!("I'll do it:\n{CALL}"), Some("I'll do it:")),
        (format!("I'll do it:\n\n    {CALL}\n\nDone."), Some("I'll do it:\n\n    \n\nDone.")),
        (format!("I'll do it: {tag}"), Some("I'll do it:")),
        (format!("I'll do it. {tag} Done."), Some("I'll do it.  Done.")),
        (format!("好的：{tag}"), Some("好的：")),
        (format!("```json\n{CALL}\n```"), None),
        (format!("Like this:\n```\n{CALL}\n```\nDone."), Some("Like this:\n\nDone.")),
        (
            format!("So I call <|tool_call_start|>{CALL}<|tool_call_end|> and wait."),
            Some("So I call  and wait."),
        ),
        (format!("<think>Burn it?</think>{CALL}"), None),
        (format!("<!-- note -->\n{tag}\nA --> B"), Some("<!-- note -->\n\nA --> B")),
        (format!("<pre>x</pre>\n{tag}\n<pre>y</pre>"), Some("<pre>x</pre>\n\n<pre>y</pre>")),
        (format!("<pre>\n{tag}"), Some("<pre>")),
        (format!("<pre>\n{tag}\n<pre>y</pre>"), Some("<pre>\n\n<pre>y</pre>")),
        (
            format!("The tag <pre> opens:\n{tag}\nso </pre> closes."),
            Some("The tag <pre> opens:\n\nso </pre> closes."),
        ),
        (format!("<p>\n{tag}\n</p>"), Some("<p>\n\n</p>")),
    ] {
        check(&text, &[], one.clone(), content);
    }
    let two = json!([["burn", {"disc": "b"}], ["burn", {"disc": "b"}]]);
    check(&format!("{CALL}\n{CALL}"), &[], two.clone(), None);
    check(&format!("Both: {CALL}; {CALL} Now?"), &[], two, Some("Both:  Now?"));
}
