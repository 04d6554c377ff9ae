//! The policy's rules about command lines: allow, ask or refuse. They decide who is asked; the isolation is the same for
//! every command.

use super::shell;
use crate::policy::{Decision, ExecRule};

/// What the rules say, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decided {
    /// The strictest of all that fits.
    pub decision: Decision,
    /// The rule's prefix, or what could not be understood.
    pub why: String,
}

/// What `rules` say about `line`: the strictest that fits any command in it. A command that no rule fits is allowed; one
/// that cannot be read is asked about, as is one whose words only the shell knows and that a rule might fit.
///
/// ```
/// use toolgate_sandbox::command::rules::decide;
/// use toolgate_sandbox::policy::{Decision, ExecRule};
/// let push = ExecRule::new(["git", "push"], Decision::Refuse);
/// assert_eq!(decide(&[push.clone()], "make && git push origin").decision, Decision::Refuse);
/// assert_eq!(decide(&[push.clone()], "git pull").decision, Decision::Allow);
/// assert_eq!(decide(&[push], "git $ACTION").decision, Decision::Ask);
/// ```
pub fn decide(rules: &[ExecRule], line: &str) -> Decided {
    let allowed = Decided { decision: Decision::Allow, why: "no rule fits".to_owned() };
    if rules.is_empty() {
        return allowed;
    }
    let Some(commands) = shell::commands(line) else {
        return Decided {
            decision: Decision::Ask,
            why: "it cannot be told which programs it starts".to_owned(),
        };
    };
    let mut decided = allowed;
    for words in commands.iter() {
        for rule in rules {
            let said = match fit(rule, words) {
                Fit::No => continue,
                Fit::Yes => {
                    Decided { decision: rule.decision, why: format!("rule \"{}\"", rule.prefix.join(" ")) }
                }
                Fit::Perhaps if rule.decision == Decision::Allow => continue,
                Fit::Perhaps => Decided {
                    decision: Decision::Ask,
                    why: format!("it may be what rule \"{}\" is about", rule.prefix.join(" ")),
                },
            };
            if said.decision > decided.decision {
                decided = said;
            }
        }
    }
    decided
}

enum Fit {
    Yes,
    Perhaps,
    No,
}

fn fit(rule: &ExecRule, words: &[Option<String>]) -> Fit {
    let mut sure = true;
    let mut given = words.iter();
    for (at, wanted) in rule.prefix.iter().enumerate() {
        match given.next() {
            None => return Fit::No,
            Some(None) => sure = false,
            // A program is the same by its path.
            Some(Some(word)) if at == 0 && word.rsplit('/').next() == Some(wanted.as_str()) => {}
            Some(Some(word)) if word == wanted => {}
            Some(Some(_)) => return Fit::No,
        }
    }
    if sure { Fit::Yes } else { Fit::Perhaps }
}

/// Whether `rule` surely fits a command in `line`, as its own examples are checked.
pub(crate) fn fits(rule: &ExecRule, line: &str) -> bool {
    shell::commands(line)
        .is_some_and(|commands| commands.iter().any(|words| matches!(fit(rule, words), Fit::Yes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(prefix: &str, decision: Decision) -> ExecRule {
        ExecRule::new(prefix.split(' '), decision)
    }

    #[test]
    fn the_strictest_rule_decides_wherever_it_fits() {
        let rules =
            [rule("git", Decision::Allow), rule("git push", Decision::Ask), rule("rm", Decision::Refuse)];
        for (line, decision) in [
            ("git status", Decision::Allow),
            ("git push", Decision::Ask),
            ("git pushx", Decision::Allow),
            ("/usr/bin/git push", Decision::Ask),
            ("git status; rm x", Decision::Refuse),
            ("echo \"$(rm x)\"", Decision::Refuse),
            ("sh -c 'git push; rm x'", Decision::Refuse),
            ("env A=1 rm x", Decision::Refuse),
            ("echo rm", Decision::Allow),
            ("$X", Decision::Ask),
            ("echo $X", Decision::Allow),
            ("r'm' x", Decision::Refuse),
            ("python3 -c 'import os'", Decision::Allow),
            ("bash script", Decision::Ask),
            ("echo 'open", Decision::Ask),
        ] {
            assert_eq!(decide(&rules, line).decision, decision, "{line}");
        }
    }

    #[test]
    fn without_rules_nothing_is_asked() {
        assert_eq!(decide(&[], "echo 'open").decision, Decision::Allow);
    }
}
