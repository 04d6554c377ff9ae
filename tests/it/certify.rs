//! `toolgate certify`: what is measured of a file leads its later runs, under whatever name.

use assert_cmd::Command;
use serde_json::Value;

fn toolgate(dir: &std::path::Path) -> Command {
    let mut command = Command::cargo_bin("toolgate").unwrap();
    for (variable, folder) in
        [("TOOLGATE_PROFILES", "profiles"), ("TOOLGATE_CACHE", "cache"), ("TOOLGATE_STATE", "state")]
    {
        command.env(variable, dir.join(folder));
    }
    command.env_remove("TOOLGATE_MODEL").env("NO_COLOR", "1");
    command
}

#[test]
fn certify_quick_writes_a_profile_that_the_next_run_finds() {
    let Some(weights) = crate::skip::model("smollm2-135m") else { return };
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("renamed.gguf");
    std::os::unix::fs::symlink(&weights, &model).unwrap();
    let run = |arguments: &[&str]| {
        let output = toolgate(dir.path()).args(arguments).output().unwrap();
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{arguments:?}: {err}");
        (out, err)
    };
    let path = model.to_str().unwrap();
    let (before, _) = run(&["model", "info", path]);
    assert!(before.contains("none: toolgate certify"), "{before}");
    let page = dir.path().join("report.html");
    let (out, _) = run(&["certify", path, "--quick", "--json", "--report", page.to_str().unwrap()]);
    let report: Value = serde_json::from_str(&out).unwrap();
    for place in [
        "/format/family",
        "/round_trips/cases",
        "/reasoning/opens",
        "/decision/weights/first",
        "/speed/prefill",
        "/kernels/exact_len",
    ] {
        assert!(report.pointer(place).is_some_and(|value| !value.is_null()), "{place}: {report}");
    }
    assert_eq!(report["round_trips"]["failed"], serde_json::json!([]));
    assert!(std::fs::read_to_string(&page).unwrap().contains("renamed"));
    let digest = report["digest"].as_str().unwrap();
    assert!(dir.path().join("profiles").join(format!("{digest}.toml")).is_file());

    let copy = dir.path().join("copy.gguf");
    std::os::unix::fs::symlink(&weights, &copy).unwrap();
    let (after, _) = run(&["model", "info", copy.to_str().unwrap()]);
    assert!(after.contains("measured by toolgate"), "{after}");
    let task =
        ["run", "--max-tokens", "4", "--max-iterations", "1", "--approve", "never", "Hello", "--model"];
    let (_, told) = run(&[&task[..], &[copy.to_str().unwrap()]].concat());
    assert!(!told.contains("nothing was measured"), "{told}");
    std::fs::remove_dir_all(dir.path().join("profiles")).unwrap();
    let (_, told) = run(&[&task[..], &[copy.to_str().unwrap()]].concat());
    assert!(told.contains("nothing was measured") && told.contains("toolgate certify"), "control: {told}");
}
