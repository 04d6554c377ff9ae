//! Applies the rules of a policy to a command line: allow, ask or refuse. The rules decide whether a person
//! is asked. Every command has the same isolation.

use super::shell;
#[cfg(any(target_os = "linux", target_os = "macos"))]
use crate::error::{Error, Kind};
use crate::policy::{Decision, ExecRule};

/// The decision of the rules, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decided {
    /// The strictest decision of all matching rules.
    pub decision: Decision,
    /// The prefix of the rule, or the part that could not be understood.
    pub why: String,
}

/// The decision of `rules` about `line`: the strictest one that matches any command in it. A command without
/// a matching rule is allowed. A line that cannot be parsed needs a person. So does a command with words that
/// only the shell knows, if a rule might match it.
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

/// Longest command line; Linux takes 128 KiB in one argument.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const MAX_COMMAND_BYTES: usize = 100_000;

/// Checks that a command line is one for a shell, and that no rule refuses it.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) fn check(rules: &[ExecRule], command: &str) -> Result<(), Error> {
    if command.trim().is_empty() || command.contains('\0') {
        return Err(Error::new(Kind::Invalid, "the command is empty or holds a NUL"));
    }
    if command.len() > MAX_COMMAND_BYTES {
        return Err(Error::new(Kind::Invalid, "the command is too long")
            .hint("write a script to a file and run that"));
    }
    match decide(rules, command) {
        Decided { decision: Decision::Refuse, why } => {
            Err(Error::new(Kind::Denied, format!("the policy refuses this command ({why})"))
                .hint("do without it"))
        }
        _ => Ok(()),
    }
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

/// Whether `rule` surely matches a command in `line`. The examples of rules are checked by this.
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
