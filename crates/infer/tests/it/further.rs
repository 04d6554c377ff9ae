//! Texts that are whole and could go on: whether they do is what the model would write next.

use std::ops::ControlFlow;

use toolgate_grammar::{Automaton, Grammar, Limits};
use toolgate_infer::scripted::Scripted;
use toolgate_infer::{
    DecodeOptions, Decoded, Drafting, Forcing, Further, Openings, Sampler, Session, StopReason, decode,
};

use crate::language::vocabulary;

const CALLS: &str = r#"root ::= call ("\n" call)*
call ::= "<call>f(" [a-z]+ ")</call>""#;

/// A turn of calls by a model that wants to write `script`; a call goes on from this probability.
fn turn(script: &str, threshold: Option<f64>, forcing: Forcing, drafting: Drafting) -> Decoded {
    let vocabulary = vocabulary();
    let automaton =
        Automaton::new(&Grammar::parse(CALLS).unwrap(), vocabulary.clone(), &Limits::default()).unwrap();
    let openings = Openings::new(&vocabulary, &["<call>"]);
    let further = threshold.map(|threshold| Further { openings, threshold });
    let mut session = Session::new(Scripted::new(vocabulary).say(script));
    session.set_prompt_text("<|start|>").unwrap();
    let options = DecodeOptions { max_tokens: 60, forcing, drafting, further, ..DecodeOptions::default() };
    let mut silent = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
    decode(&mut session, &mut automaton.matcher(), &mut Sampler::greedy(), &options, &mut silent).unwrap()
}

#[test]
fn a_line_break_is_a_further_call_only_where_the_model_opens_one() {
    let (one, two) = ("<call>f(ab)</call>", "<call>f(ab)</call>\n<call>f(cd)</call>");
    let prose = "<call>f(ab)</call>\nThat is all.";
    for forcing in [Forcing::On, Forcing::Off, Forcing::Asked] {
        for drafting in [Drafting::On, Drafting::Off] {
            let ended = turn(prose, Some(0.5), forcing, drafting);
            assert_eq!((ended.text.as_str(), &ended.stop), (one, &StopReason::End), "{forcing:?}");
            let went_on = turn(two, Some(0.5), forcing, drafting);
            assert_eq!((went_on.text.as_str(), &went_on.stop), (two, &StopReason::End), "{forcing:?}");
            // Who does not ask, or asks for nothing, gets a call that nobody wanted.
            for threshold in [None, Some(0.0)] {
                let control = turn(prose, threshold, forcing, drafting);
                assert!(control.text.starts_with(one) && control.text.len() > one.len(), "{control:?}");
            }
        }
    }
}
