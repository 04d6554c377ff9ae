//! Reasoning and control tokens: never content, in whatever format, wherever a text is cut.

use serde_json::json;
use toolgate_chat::fallback::{Stream, extract, extract_inside_reasoning};

use crate::fallback::check;

#[test]
fn thoughts_are_apart() {
    for (text, thought, content) in [
        ("<think>Hm.</think>Yes.", Some("Hm."), Some("Yes.")),
        ("<think>\nHm.\n</think>\n\n  Yes.", Some("Hm."), Some("Yes.")),
        ("Well.\n<thinking>\nHm.\n</thinking>\nYes.", Some("Hm."), Some("Well.\n\nYes.")),
        ("Well. <think>Hm.\nSo.</think> Yes.", Some("Hm.\nSo."), Some("Well.  Yes.")),
        ("Hm.</think>Yes.", Some("Hm."), Some("Yes.")),
        ("</think>\n\nYes.", None, Some("Yes.")),
        ("<think></think>Yes.", None, Some("Yes.")),
        ("<think>Hm.", Some("Hm."), None),
        // A mark that closes nothing is gone as well.
        ("<think>One.</think>Two.</think>Three.", Some("One."), Some("Two.Three.")),
        ("<think>Hm.</think></think>Yes.", Some("Hm."), Some("Yes.")),
        ("Hm.</think>Yes.\n</think>", Some("Hm."), Some("Yes.")),
        // Thoughts may come again, in the middle of a line too.
        ("<think>One.</think>Two.<think>Three.</think>Four.", Some("One.Three."), Some("Two.Four.")),
        (
            "<think>One.</think>\nTwo.\n<think>Three.</think>\nFour.",
            Some("One.Three."),
            Some("Two.\n\nFour."),
        ),
        // Closed by another word, or with a blank.
        ("<think>Hm.</thinking>Yes.", Some("Hm."), Some("Yes.")),
        ("<thinking>\nHm.\n</think>\nYes.", Some("Hm."), Some("Yes.")),
        ("<think>Hm.</think >Yes.", Some("Hm."), Some("Yes.")),
        ("Hm.</think >Yes.", Some("Hm."), Some("Yes.")),
        ("◁think▷Hm.◁/think▷Yes.", Some("Hm."), Some("Yes.")),
        ("Hm.◁/think▷Yes.", Some("Hm."), Some("Yes.")),
        // What the reasoning has opened itself, or speaks of, ends it not.
        ("<think><reasoning>Hm.</reasoning></think>Yes.", Some("<reasoning>Hm.</reasoning>"), Some("Yes.")),
        ("<think>It is `<thinking>`.</thinking>Yes.", Some("It is `<thinking>`."), Some("Yes.")),
        ("<thinking><think>Hm.</think>So.</thinking>Yes.", Some("<think>Hm.</think>So."), Some("Yes.")),
        ("<think>A </thinking> is odd.</think>Yes.", Some("A </thinking> is odd."), Some("Yes.")),
        ("<think>Hm.</i>So.</think>Yes.", Some("Hm.</i>So."), Some("Yes.")),
        ("[THINK]Hm.[/THINK]Yes.", Some("Hm."), Some("Yes.")),
        ("Hm.[/THINK] Yes.", Some("Hm."), Some("Yes.")),
        (
            "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
            Some("Hm."),
            Some("Yes."),
        ),
        ("<|channel>thought\nHm.<channel|>Yes.", Some("Hm."), Some("Yes.")),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
            Some("Hm."),
            Some("Yes."),
        ),
        (
            "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Yes.",
            Some("Hm."),
            Some("Yes."),
        ),
        (
            "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|>",
            Some("Hm."),
            Some("Yes."),
        ),
        ("<mm:think>Hm.</mm:think>Yes.", Some("Hm."), Some("Yes.")),
        // The first token of a message was part of the prompt.
        (
            "analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
            Some("Hm."),
            Some("Yes."),
        ),
        ("final<|message|>Yes.<|return|>", None, Some("Yes.")),
        ("We greet them</think>hello there", Some("We greet them"), Some("hello there")),
        ("<think>Hm.</think><response>Yes.</response>", Some("Hm."), Some("Yes.")),
        (
            "<|begin_of_thought|>Hm.<|end_of_thought|><|begin_of_solution|>Yes.<|end_of_solution|>",
            Some("Hm."),
            Some("Yes."),
        ),
        // The server left the tokens out.
        ("analysisHm.assistantfinalYes.", Some("Hm."), Some("Yes.")),
    ] {
        let found = check(text, &[], json!([]), content);
        assert_eq!(found.reasoning.as_deref(), thought, "{text}");
    }
}

#[test]
fn code_ends_no_thought() {
    for (text, thought, content) in [
        ("<think>I close with `</think>` then.</think>Yes.", "I close with `</think>` then.", Some("Yes.")),
        ("<think>It is ``</think>`` then.</think>Yes.", "It is ``</think>`` then.", Some("Yes.")),
        ("<think>As in `a</think>b`.</think>Yes.", "As in `a</think>b`.", Some("Yes.")),
        ("<think>`</think>`", "`</think>`", None),
        // A stray backtick is no code.
        ("<think>It`s so.</think>Yes.", "It`s so.", Some("Yes.")),
        ("<think>The `x</think>Yes, `x`.", "The `x", Some("Yes, `x`.")),
        ("<think>The `x`</think>Yes, `x`.", "The `x`", Some("Yes, `x`.")),
        ("<think>The `\n</think>\n`", "The `", Some("`")),
    ] {
        let found = check(text, &[], json!([]), content);
        assert_eq!(found.reasoning.as_deref(), Some(thought), "{text}");
    }
}

#[test]
fn control_tokens_are_no_thought() {
    for (text, thought) in [
        ("<think>Hm.<|im_end|> So.</think>Yes.", "Hm. So."),
        ("<think>Hm.<|endoftext|></think>Yes.", "Hm."),
        ("Hm.<|im_end|> So.</think>Yes.", "Hm. So."),
        ("<|im_start|>assistant\nHm.</think>Yes.", "Hm."),
        ("<|channel|>analysis<|message|>Hm.<|endoftext|> So.<|end|>Yes.", "Hm. So."),
        ("<think>It ends with `<|im_end|>`.</think>Yes.", "It ends with `<|im_end|>`."),
        ("<think>A <s>word</s> and a <b>.</think>Yes.", "A <s>word</s> and a <b>."),
    ] {
        let found = check(text, &[], json!([]), Some("Yes."));
        assert_eq!(found.reasoning.as_deref(), Some(thought), "{text}");
    }
    assert_eq!(check("<think>Hm.<|im_end|>", &[], json!([]), None).reasoning.as_deref(), Some("Hm."));
}

#[test]
fn a_tag_around_the_whole_answer_goes() {
    for text in [
        "<answer>Yes.</answer>",
        "<answer>\nYes.\n</answer>\n",
        "<answer>Yes.</answer><|im_end|>",
        "<response>Yes.</response>",
        "<think>Hm.</think>\n<answer>Yes.</answer>",
    ] {
        check(text, &[], json!([]), Some("Yes."));
    }
    for empty in [
        "<answer></answer>",
        "<think></think><response></response>",
        "<think></think><response>\n</response>",
    ] {
        check(empty, &[], json!([]), None);
    }
    let call = "<answer><tool_call>{\"name\": \"clock\", \"arguments\": {}}</tool_call></answer>";
    check(call, &[], json!([["clock", {}]]), None);
    for text in [
        "<answer>Yes.</answer>\n<why>So.</why>",
        "<answer>Yes.",
        "Yes: <answer>Yes.</answer>",
        "<response>Yes.</response> and more",
        "<answer>An <answer>x</answer> in it.</answer>",
        "<answers>Yes.</answers>",
    ] {
        check(text, &[], json!([]), Some(text));
    }
}

#[test]
fn marks_that_an_answer_speaks_of_are_text() {
    for answer in [
        "Use <think>so</think> for it.",
        "Close it with </think>.",
        "The \"</think>\" closes.",
        "`</think>` closes.",
        "(<think>so</think>)",
    ] {
        let found = check(&format!("<think>Hm.</think>{answer}"), &[], json!([]), Some(answer));
        assert_eq!(found.reasoning.as_deref(), Some("Hm."), "{answer}");
    }
}

#[test]
fn tags_that_a_sentence_speaks_of_are_text() {
    for text in [
        "It writes <think> first and </think> last.",
        "Thoughts end with </think>.",
        "`<think>` opens, `</think>` closes.",
        "```xml\n<think>Hm.</think>\n```",
        "a <s>struck</s> word",
        "analysis of the data: 3 rows",
        "analysis\nfollows",
        "final answer: 3",
    ] {
        let found = check(text, &[], json!([]), Some(text));
        assert_eq!(found.reasoning, None, "{text}");
    }
}

#[test]
fn control_tokens_go() {
    for text in [
        "Yes.<|im_end|>",
        "Yes.<|role_end|>",
        "Yes.<|eot|>\n",
        "Yes.<|END_OF_TURN_TOKEN|>",
        "Yes.</s>",
        "Yes.<end_of_turn>",
        "<|im_start|>assistant\nYes.<|im_end|>\n",
        "<|start_header_id|>assistant<|end_header_id|>\n\nYes.<|eot_id|>",
        "<start_of_turn>model\nYes.<end_of_turn>",
        "<|START_RESPONSE|>Yes.<|END_RESPONSE|>",
        " to=user<|message|>Yes.<|eot|>",
        "<｜Assistant｜>Yes.<｜end▁of▁sentence｜>",
        "<|some_new_token|>Yes.",
        "<|start_of_role|>assistant<|end_of_role|>Yes.<|end_of_text|>",
        "<|header_start|>assistant<|header_end|>\n\nYes.<|eot|>",
        "[gMASK]<sop>Yes.",
        "Yes.[e~[",
        "Yes.<seed:eos>",
        // Functionary says first whom it writes to.
        "all\nYes.",
        "all\nYes.<|eot_id|>",
        ">>>all\nYes.",
        "all\n<|content|>Yes.<|stop|>",
        "<think>Hm.</think>\nall\nYes.",
        "<|from|>assistant\n<|recipient|>all\n<|content|>Yes.<|stop|>",
    ] {
        check(text, &[], json!([]), Some("Yes."));
    }
    for text in
        ["all\n", "all", "all of it", "All\nof it", "Well,\nall\nof it", ">>> all\n", "<from>me</from>"]
    {
        check(text, &[], json!([]), Some(text));
    }
    // In code they are said, not meant.
    let code = "It ends with `<|im_end|>`.\n```\n<|im_start|>user\n```";
    check(code, &[], json!([]), Some(code));
}

#[test]
fn a_text_that_begins_inside() {
    for (text, thought, content) in [
        ("Hm.", Some("Hm."), None),
        ("Hm.</think>Yes.", Some("Hm."), Some("Yes.")),
        ("Hm.[/THINK]Yes.", Some("Hm."), Some("Yes.")),
        ("Hm. <think>So.</think>Yes.", Some("Hm. <think>So."), Some("Yes.")),
        ("Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>", Some("Hm."), Some("Yes.")),
    ] {
        let found = extract_inside_reasoning(text, &[]);
        assert_eq!((found.reasoning.as_deref(), found.content.as_deref()), (thought, content), "{text}");
        let mut stream = Stream::inside_reasoning(&[]);
        text.as_bytes().iter().for_each(|byte| drop(stream.push(&[*byte])));
        assert_eq!(stream.finish().1, found, "{text}");
    }
    let call = "<tool_call>{\"name\": \"clock\", \"arguments\": {}}</tool_call>";
    let found = extract_inside_reasoning(&format!("I look.\n{call}"), &[]);
    assert_eq!((found.calls.len(), found.reasoning.as_deref(), found.content), (1, Some("I look."), None));
    // Without being told, nobody can know.
    assert_eq!(extract("Hm.").content.as_deref(), Some("Hm."));
}
