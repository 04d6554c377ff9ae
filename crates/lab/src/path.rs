//! Paths as the checker compares them: by where they lead, not by how they are written.

/// `./a//b/`, `a/x/../b` and `a/b` are the same path; the empty path is `.`.
pub(super) fn normalized(path: &str) -> String {
    let path = path.trim();
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    match (absolute, parts.join("/")) {
        (true, rest) => format!("/{rest}"),
        (false, rest) if rest.is_empty() => ".".to_owned(),
        (false, rest) => rest,
    }
}

/// [`normalized`], with the workspace's own absolute path taken off the front.
pub(super) fn within(path: &str, workspace: Option<&str>) -> String {
    let path = path.trim();
    let inside = workspace.map(|root| root.trim_end_matches('/')).and_then(|root| {
        let rest = path.strip_prefix(root)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
    });
    normalized(inside.unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_place_is_the_same_path() {
        for path in ["./a//b/", "a/b", "a/x/../b", " a/b "] {
            assert_eq!(normalized(path), "a/b", "{path:?}");
        }
        for (path, plain) in [("", "."), ("./", "."), ("../a", "../a"), ("/../a", "/a"), ("a/../..", "..")] {
            assert_eq!(normalized(path), plain, "{path:?}");
        }
        assert_eq!(within("/tmp/w/a/b", Some("/tmp/w/")), "a/b");
        assert_eq!(within("/tmp/w", Some("/tmp/w")), ".");
        assert_eq!(within("/tmp/wide/a", Some("/tmp/w")), "/tmp/wide/a");
    }
}
