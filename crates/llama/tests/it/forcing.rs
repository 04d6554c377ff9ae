//! Forced text on real models: the same greedy turn, byte for byte, with fewer evaluations.

use std::ops::ControlFlow;

use toolgate_grammar::{Automaton, Grammar, Limits};
use toolgate_infer::{
    DecodeOptions, Decoded, Drafting, Forcing, Sampler, Session, Source, StopReason, TokenId, decode,
};
use toolgate_llama::{ContextOptions, LlamaBackend, Load};

use crate::support::model;

const TOOLS: &str = r#"You can call these tools, as <tool_call>{"name": …, "arguments": …}</tool_call>:
read_file(path, max_lines): shows a file
list_directory(path, depth): lists a directory
search_codebase(query, path): finds text
send_message(to, text, urgent): sends a message"#;

const CALL: &str = r#"
root ::= "<tool_call>\n{\"name\": \"" call "}}\n</tool_call>"
call ::= "read_file\", \"arguments\": {\"path\": " string (", \"max_lines\": " [1-9] [0-9]{0,3})? |
  "list_directory\", \"arguments\": {\"path\": " string (", \"depth\": " [1-9])? |
  "search_codebase\", \"arguments\": {\"query\": " string (", \"path\": " string)? |
  "send_message\", \"arguments\": {\"to\": \"" ("anna" | "annika" | "bob") "\", \"text\": " string ", \"urgent\": " ("true" | "false")
string ::= "\"" ([^"\\\x00-\x1F] | "\\" ["\\nt]){1,60} "\""
"#;

const REQUESTS: [&str; 50] = [
    "Read the file notes/plan.md",
    "Show me the first 20 lines of src/main.rs",
    "What is in the directory docs?",
    "List everything under src, two levels deep",
    "Where is the function parse_header used?",
    "Find all places that say TODO in the tests directory",
    "Tell Anna that the build is broken, it is urgent",
    "Write to Bob: lunch at noon?",
    "Let Annika know that the release moved to Friday",
    "Open config/settings.json",
    "Which files are in the current directory?",
    "Search for the word deprecated",
    "Read README.md, but only ten lines",
    "Zeig mir die Datei größe.txt",
    "ファイル 日本語.txt を読んで",
    "Look for \"not found\" in logs/",
    "Tell bob: café at 8, not urgent",
    "Print the file /etc/hostname",
    "Find emoji \u{1F600} in messages",
    "List the directory above this one",
    "Show LICENSE",
    "Read docs/guide.md from the start, at most 120 lines",
    "Give me lines of data/prices.csv, five are enough",
    "Open the file called 'my notes.txt'",
    "Read src/lib.rs",
    "What does Cargo.toml say?",
    "cat build.log please",
    "I need to see tests/fixtures/big file (1).json",
    "Zeige den Inhalt von straße/übersicht.md",
    "请读取 文档/说明.txt",
    "List the folder assets/images",
    "What files are in src/parser, three levels?",
    "Show the tree of the project, depth 9",
    "ls /var/log",
    "Was liegt im Ordner Verträge?",
    "Find where MAX_SIZE is defined",
    "Search src for unwrap()",
    "Which files mention \"connection refused\"?",
    "grep for C:\\Users in the docs",
    "Look for the regex-like text a+b*c?",
    "Where do we use the tab character\there?",
    "Find 'naïve café' in translations",
    "Tell Anna the tests pass",
    "Message Bob that I am late, urgent",
    "Let annika know: meeting moved to 14:30, room 7",
    "Write to Anna: \"yes\"",
    "Tell bob 1+1=2",
    "Send Annika the words line one and line two on two lines",
    "Urgent for Anna: disk is 98% full!",
    "Say \u{1F44D} to Bob",
];

fn turn(
    session: &mut Session<LlamaBackend>,
    automaton: &std::sync::Arc<Automaton>,
    request: &str,
    (forcing, drafting): (Forcing, Drafting),
) -> Decoded {
    let prompt = format!(
        "<|im_start|>system\n{TOOLS}<|im_end|>\n<|im_start|>user\n{request}<|im_end|>\n<|im_start|>assistant\n"
    );
    // Once more, so that each turn begins behind a last token that was evaluated by itself: in the wide batch of a new prompt
    // it has other low bits.
    for _ in 0..2 {
        session.set_prompt_text(&prompt).unwrap();
    }
    let options = DecodeOptions { max_tokens: 160, forcing, drafting, ..DecodeOptions::default() };
    let mut sink = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
    decode(session, &mut automaton.matcher(), &mut Sampler::greedy(), &options, &mut sink).unwrap()
}

/// The tokens of a turn, and which were forced.
fn said(decoded: &Decoded) -> Vec<(TokenId, bool)> {
    decoded.tokens.iter().map(|token| (token.token, token.source == Source::Forced)).collect()
}

/// Runs the requests all three ways: the same tokens, so the same text.
fn check(id: &str, requests: &[&str]) {
    let Some(model) = model(id, Load::All) else { return };
    let grammar = Grammar::parse(CALL).unwrap();
    let automaton = Automaton::new(&grammar, model.vocabulary().clone(), &Limits::default()).unwrap();
    let options = ContextOptions { context: Some(1_024), threads: Some(1), ..ContextOptions::default() };
    let mut session = Session::new(model.backend(&options).unwrap());
    let (mut with, mut without, mut tokens) = (0, 0, 0);
    let (mut guessing, mut drafted, mut accepted, mut ms_guessing) = (0, 0, 0, 0.0);
    let (mut ms_with, mut ms_without) = (0.0, 0.0);
    for request in requests {
        let guessed = turn(&mut session, &automaton, request, (Forcing::On, Drafting::On));
        let on = turn(&mut session, &automaton, request, (Forcing::On, Drafting::Off));
        let off = turn(&mut session, &automaton, request, (Forcing::Off, Drafting::Off));
        assert_eq!(on.stop, StopReason::Finished, "{request}: {}", on.text);
        assert_eq!((&on.text, &on.tokens), (&off.text, &off.tokens), "{request}");
        assert_eq!(on.stats.forced_tokens, off.stats.forced_tokens);
        assert_eq!((&guessed.text, said(&guessed)), (&on.text, said(&on)), "{request}");
        guessing += guessed.stats.decode_calls;
        drafted += guessed.stats.drafted_tokens;
        accepted += guessed.stats.accepted_tokens;
        ms_guessing += guessed.stats.ms.decode;
        with += on.stats.decode_calls;
        without += off.stats.decode_calls;
        ms_with += on.stats.ms.decode;
        ms_without += off.stats.ms.decode;
        tokens += on.tokens.len();
    }
    eprintln!(
        "{id}: {tokens} tokens in {with} evaluations and {ms_with:.0} ms, {without} and {ms_without:.0} ms without batches"
    );
    eprintln!(
        "with guesses {guessing} and {ms_guessing:.0} ms: {accepted} of {drafted} guessed tokens were right; a further token costs {:.2}",
        toolgate_infer::Backend::token_cost(session.backend())
    );
    assert!(guessing < with, "guesses save evaluations");
    assert!(with * 3 < tokens * 2, "at least a third of the evaluations is saved");
}

/// The first few requests, or with RUN_SLOW_TESTS all of them.
fn some(few: usize) -> &'static [&'static str] {
    if std::env::var_os("RUN_SLOW_TESTS").is_some() { &REQUESTS } else { &REQUESTS[..few] }
}

#[test]
fn greedy_turn_is_the_same_with_and_without_batches_with_a_small_model() {
    check("smollm2-135m", some(20));
}

#[test]
fn greedy_turn_is_the_same_with_and_without_batches_with_the_default_model() {
    check("qwen2.5-coder-0.5b", some(6));
}

#[test]
fn greedy_turn_is_the_same_with_and_without_batches_with_the_largest_model() {
    if crate::skip::slow("the 1.5 B model") {
        check("qwen2.5-coder-1.5b", some(0));
    }
}
