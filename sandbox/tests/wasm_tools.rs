//! Components that are tools: the two of this repository, and odd ones in the text format.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests prepare files with std::fs")]

use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use toolgate_sandbox::wasm::{
    Answer, Bound, Component, Components, Directory, End, Limits, Reach, Setup, read_module,
};
use toolgate_sandbox::{Error, Grants, Kind, Root, ambient_authority};

static COMPONENTS: LazyLock<Components> = LazyLock::new(|| Components::new(&Setup::default(), None).unwrap());

static CALCULATOR: LazyLock<Component> =
    LazyLock::new(|| load(include_bytes!("../components/calculator.wasm")).unwrap());

fn load(bytes: &[u8]) -> Result<Component, Error> {
    COMPONENTS.load(bytes.to_vec(), None, None)
}

fn text(wat: &str) -> Result<Component, Error> {
    load(&wat::parse_str(wat).unwrap())
}

fn limits() -> Limits {
    Limits::default().wall_ms(10_000)
}

/// Calls a tool that sees nothing.
fn call_with(tool: &Component, limits: &Limits, arguments: &str) -> Answer {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path(), ambient_authority()).unwrap();
    let reach = Reach { root: &root, grants: &Grants::default(), directories: &[] };
    COMPONENTS.call(tool, &reach, limits, arguments.to_owned()).unwrap()
}

fn calculate(expression: &str) -> Result<String, String> {
    let arguments = serde_json::json!({ "expression": expression });
    call_with(&CALCULATOR, &limits(), &arguments.to_string()).result
}

#[test]
fn the_calculator_is_exact() {
    for (expression, result) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("0.1 + 0.2", "0.3"),
        ("1/3*3", "1"),
        ("1 / 3", "0.33333333333333333333 (rounded to 20 decimals)"),
        ("2/3", "0.66666666666666666667 (rounded to 20 decimals)"),
        ("1/8", "0.125"),
        ("-(-2.50)", "2.5"),
        ("3 × 4 ÷ 2 − 1", "5"),
        ("1e3 + 1E-3", "1000.001"),
        ("99999999999999999999 * 99999999999999999999", "9999999999999999999800000000000000000001"),
        ("0 * -5", "0"),
        ("\u{35}", "5"),
    ] {
        assert_eq!(calculate(expression).as_deref(), Ok(result), "{expression}");
    }
    let arguments = r#"{"digits": 3, "expression": "22\/7"}"#;
    assert_eq!(call_with(&CALCULATOR, &limits(), arguments).result.unwrap(), "3.143 (rounded to 3 decimals)");
}

#[test]
fn the_calculator_says_what_is_wrong_and_where() {
    for (expression, says) in [
        ("1/0", "division by zero at character 2"),
        ("1/(2-2)", "division by zero"),
        ("(1+2", "a parenthesis is not closed"),
        ("1+2)", "unexpected \")\" at character 4"),
        ("2 ** 3", "unexpected \"*\" at character 4"),
        ("½ + 1", "unexpected \"½\" at character 1"),
        ("1 +", "ends too early"),
        ("1e2000", "exponent"),
        ("sqrt(2)", "unexpected \"s\""),
    ] {
        let error = calculate(expression).unwrap_err();
        assert!(error.contains(says), "{expression}: {error}");
    }
    assert!(calculate(&"(".repeat(500)).unwrap_err().contains("parentheses"));
    let huge = vec!["1e1000"; 300].join("*");
    assert!(calculate(&huge).unwrap_err().contains("longer than"), "{huge}");
}

/// A fraction of small whole numbers: the same arithmetic, done by `i128`.
#[derive(Clone, Debug)]
struct Sum(String, i128, i128);

fn sums() -> impl Strategy<Value = Sum> {
    let number = (-99i128..100, 0u32..4).prop_map(|(digits, decimals)| {
        let one = 10i128.pow(decimals);
        let text = format!("({}/{one})", digits);
        Sum(text, digits, one)
    });
    number.prop_recursive(3, 8, 2, |inner| {
        (inner.clone(), prop::sample::select(vec!['+', '-', '*', '/']), inner).prop_map(|(a, sign, b)| {
            let (top, bottom) = match sign {
                '+' => (a.1 * b.2 + b.1 * a.2, a.2 * b.2),
                '-' => (a.1 * b.2 - b.1 * a.2, a.2 * b.2),
                '*' => (a.1 * b.1, a.2 * b.2),
                _ => (a.1 * b.2, a.2 * b.1),
            };
            let (top, bottom) = lowest(top, bottom);
            Sum(format!("({} {sign} {})", a.0, b.0), top, bottom)
        })
    })
}

fn lowest(top: i128, bottom: i128) -> (i128, i128) {
    let (mut a, mut b) = (top.abs(), bottom.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    if a == 0 { (top, bottom) } else { (top / a * bottom.signum(), bottom.abs() / a) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_calculator_agrees_with_fractions(Sum(expression, top, bottom) in sums()) {
        let difference = calculate(&format!("{expression} - ({top})/({bottom})"));
        if bottom == 0 {
            prop_assert!(difference.unwrap_err().contains("division by zero"));
        } else {
            prop_assert_eq!(difference.as_deref(), Ok("0"), "{} = {}/{}", expression, top, bottom);
        }
    }
}

#[test]
fn text_statistics_reads_a_granted_file_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("docs")).unwrap();
    fs::write(dir.path().join("docs/a.txt"), "one two\nthree à 日本\nlast").unwrap();
    fs::write(dir.path().join("docs/empty"), "").unwrap();
    fs::write(dir.path().join("docs/broken"), b"a\xff b\n").unwrap();
    fs::write(dir.path().join("docs/.env"), "KEY=1\n").unwrap();
    fs::write(dir.path().join("other.txt"), "closed\n").unwrap();
    let root = Root::open(dir.path(), ambient_authority()).unwrap();
    let tool = load(include_bytes!("../components/text_statistics.wasm")).unwrap();
    let directories = [Directory { host: "docs".into(), guest: "/docs".into(), write: false }];
    let reach = Reach { root: &root, grants: &Grants::read_only(), directories: &directories };
    let count = |path: &str| {
        let arguments = serde_json::json!({ "path": path }).to_string();
        COMPONENTS.call(&tool, &reach, &limits(), arguments).unwrap()
    };
    let whole = "lines: 3\nwords: 6\ncharacters: 23\nbytes: 28\nlongest line: number 2, with 10 characters";
    assert_eq!(count("docs/a.txt").result.as_deref(), Ok(whole));
    assert_eq!(count("/docs/./a.txt").result.as_deref(), Ok(whole));
    assert!(count("docs/empty").result.unwrap().starts_with("lines: 0\nwords: 0\n"));
    assert!(count("docs/broken").result.unwrap().ends_with("not UTF-8: 1 places"));
    for path in ["other.txt", "docs/../other.txt", "../x", "/etc/hostname", "docs/none", "docs/.env", "docs"]
    {
        let answer = count(path);
        let error = answer.result.clone().unwrap_err();
        assert!(error.contains("cannot") && !answer.content().contains("closed\n"), "{path}: {error}");
    }
    assert!(count("docs/.env").refused.unwrap().contains("keeps this file closed"));
}

#[test]
fn the_tools_describe_themselves_with_a_schema() {
    for (bytes, name, argument) in [
        (&include_bytes!("../components/calculator.wasm")[..], "calculator", "expression"),
        (&include_bytes!("../components/text_statistics.wasm")[..], "text_statistics", "path"),
    ] {
        let described = COMPONENTS.describe(&load(bytes).unwrap(), &limits()).unwrap();
        assert_eq!(described.name, name);
        let schema: serde_json::Value = serde_json::from_str(&described.parameters).unwrap();
        assert_eq!(schema["required"][0], argument);
    }
}

#[test]
fn the_committed_components_are_those_that_were_built() {
    let sums = include_str!("../components/SHA256SUMS");
    let components = concat!(env!("CARGO_MANIFEST_DIR"), "/components");
    let mut files = 0;
    for line in sums.lines() {
        let (sum, file) = line.split_once("  ").unwrap();
        let bytes = fs::read(format!("{components}/{file}")).unwrap();
        assert!(bytes.len() < 300_000, "{file}");
        assert_eq!(load(&bytes).unwrap().sha256(), sum, "{file}: run components/build.sh");
        files += 1;
    }
    assert_eq!(files, 4);
}

/// A tool in the text format: what its two functions do, and data from address 16 on.
fn tool(describe: &str, call: &str, data: &str) -> String {
    format!(
        r#"(component
            (core module $m
                (memory (export "mem") 1)
                (data (i32.const 16) "{data}")
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
                (func (export "describe") (result i32) {describe})
                (func (export "call") (param i32 i32) (result i32) {call}))
            (core instance $i (instantiate $m))
            (type $d (record (field "name" string) (field "description" string) (field "parameters" string)))
            (export $description "description" (type $d))
            (func $describe (result $description) (canon lift (core func $i "describe")
                (memory (core memory $i "mem")) (realloc (core func $i "realloc"))))
            (func $call (param "arguments" string) (result (result string (error string)))
                (canon lift (core func $i "call") (memory (core memory $i "mem")) (realloc (core func $i "realloc"))))
            (export "describe" (func $describe))
            (export "call" (func $call)))"#
    )
}

/// At 16 a description of empty texts, at 40 a result that is the byte at 60.
const DATA: &str = concat!(
    r"\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00",
    r"\00\00\00\00\3c\00\00\00\01\00\00\00\00\00\00\00\00\00\00\00x"
);

const SPIN: &str = "(loop $l br $l) unreachable";

#[test]
fn tools_that_misbehave_are_errors_of_their_own() {
    let short = limits().wall_ms(300).fuel(u64::MAX);
    let fine = text(&tool("i32.const 16", "i32.const 40", DATA)).unwrap();
    assert_eq!(COMPONENTS.describe(&fine, &limits()).unwrap().name, "");
    assert_eq!(call_with(&fine, &limits(), "{}").result.unwrap(), "x");

    let spins = text(&tool(SPIN, SPIN, DATA)).unwrap();
    let start = Instant::now();
    assert_eq!(COMPONENTS.describe(&spins, &short).unwrap_err().kind(), Kind::Limit);
    assert_eq!(call_with(&spins, &short, "{}").end, Some(End::Stopped(Bound::Time)));
    assert!(start.elapsed() < Duration::from_secs(20));

    for (describe, call) in [
        ("unreachable", "unreachable"),
        // Addresses outside of its memory.
        ("i32.const 65530", "i32.const 65530"),
        ("i32.const -8", "i32.const -8"),
        ("i32.const 65536 i32.load", "i32.const 65536 i32.load"),
    ] {
        let broken = text(&tool(describe, call, DATA)).unwrap();
        assert_eq!(COMPONENTS.describe(&broken, &limits()).unwrap_err().kind(), Kind::Invalid, "{describe}");
        let answer = call_with(&broken, &limits(), "{}");
        assert!(matches!(answer.end, Some(End::Trapped(_))), "{call}: {answer:?}");
    }
    let not_utf8 = DATA.replace('x', r"\ff");
    let answer = call_with(&text(&tool("i32.const 16", "i32.const 40", &not_utf8)).unwrap(), &limits(), "{}");
    assert!(answer.result.is_err(), "{answer:?}");

    let program = load(include_bytes!("guests/probe.p2.wasm")).unwrap();
    let error = COMPONENTS.describe(&program, &limits()).unwrap_err();
    assert!(error.kind() == Kind::Invalid && error.to_string().contains("no tool"), "{error}");
}

/// A component that holds another one.
fn nest(header: &[u8], inner: &[u8]) -> Vec<u8> {
    let mut outer = header.to_vec();
    // The section of a component, and its length in LEB128.
    outer.push(4);
    let mut length = inner.len();
    while length >= 0x80 {
        outer.push(0x80 | (length & 0x7f) as u8);
        length >>= 7;
    }
    outer.push(length as u8);
    outer.extend_from_slice(inner);
    outer
}

#[test]
fn what_is_no_component_or_asks_for_more_is_refused() {
    let header = b"\0asm\x0d\0\x01\0";
    assert!(load(&nest(header, header)).is_ok(), "the control: one level");
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("text", b"(module)".to_vec()),
        ("a script", b"#!/bin/sh\necho hello\n".to_vec()),
        ("half a header", b"\0asm".to_vec()),
        ("an unknown version", b"\0asm\x09\0\0\0".to_vec()),
        ("a half", include_bytes!("guests/probe.p2.wasm")[..50_000].to_vec()),
        ("half a module", include_bytes!("guests/probe.p1.wasm")[..20_000].to_vec()),
        ("no command", wat::parse_str("(module)").unwrap()),
        ("an unknown import", wat::parse_str(r#"(component (import "host:files/all" (func)))"#).unwrap()),
        (
            "an unknown import of a module",
            wat::parse_str(r#"(module (import "env" "system" (func)) (memory (export "memory") 1) (func (export "_start")))"#)
                .unwrap(),
        ),
    ] {
        let error = load(&bytes).expect_err(what);
        assert_eq!(error.kind(), Kind::Invalid, "{what}: {error}");
        assert!(error.to_string().len() < 700 && !error.to_string().contains('\u{1b}'), "{what}: {error}");
    }
    // Components within components are taken or refused, however deep.
    let deep = load(&(0..400).fold(header.to_vec(), |inner, _| nest(header, &inner)));
    assert!(deep.is_ok() || deep.is_err_and(|error| error.kind() == Kind::Invalid));
    let large = vec![0; usize::try_from(toolgate_sandbox::wasm::MAX_MODULE_BYTES).unwrap() + 1];
    assert_eq!(load(&large).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn mutilated_components_are_errors_and_no_more() {
    let whole = wat::parse_str(tool("i32.const 16", "i32.const 40", DATA)).unwrap();
    for cut in 0..whole.len() {
        assert!(load(&whole[..cut]).is_err() || cut >= 8, "{cut} bytes are no component");
    }
    let mut loaded = 0;
    for at in 0..whole.len() {
        for flip in [1, 0x80, 0x7f] {
            let mut changed = whole.clone();
            changed[at] ^= flip;
            if let Ok(component) = load(&changed) {
                loaded += 1;
                // Whatever it is by now, it ends.
                let short = limits().wall_ms(500);
                let _ = COMPONENTS.describe(&component, &short);
            }
        }
    }
    assert!(loaded > 0, "some changes are harmless");
}

/// A preview 1 command that does this and nothing else.
fn command(fields: &str, body: &str) -> Component {
    let wat = format!(r#"(module (memory (export "memory") 1) {fields} (func (export "_start") {body}))"#);
    text(&wat).unwrap()
}

#[test]
fn tables_and_first_memories_count_too() {
    let small = limits().memory_mb(16);
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path(), ambient_authority()).unwrap();
    let reach = Reach { root: &root, grants: &Grants::default(), directories: &[] };
    let run = |component: &Component, limits: &Limits| {
        COMPONENTS.run(component, &reach, limits, &[], Vec::new()).unwrap()
    };
    let grows = command(
        "(table $t 1 funcref)",
        "(if (i32.eq (table.grow $t (ref.null func) (i32.const 4000000)) (i32.const -1)) (then unreachable))",
    );
    let ran = run(&grows, &small);
    assert!(matches!(ran.end, End::Trapped(_)) && ran.reached == [Bound::Memory], "{ran:?}");
    assert_eq!(run(&grows, &limits().memory_mb(128)).end, End::Exited(0), "the control");

    let starts_large = text(r#"(module (memory (export "memory") 4096) (func (export "_start")))"#).unwrap();
    assert_eq!(run(&starts_large, &small).end, End::Stopped(Bound::Memory));
    assert_eq!(run(&starts_large, &limits().memory_mb(300)).end, End::Exited(0), "the control");
}

/// The adapter keeps its state in pages of the program's own memory, and adds them when it is first called.
#[test]
fn a_program_is_told_of_its_own_pages_only() {
    let fails_unless = |condition: &str| format!("(if (i32.eqz {condition}) (then unreachable))");
    let program = |globals: &str| {
        let body = [
            "(drop (call $args (i32.const 0) (i32.const 8)))".to_owned(),
            fails_unless("(i32.eq (memory.size) (i32.const 1))"),
            // Somebody else has grown the memory: the control, without which the line above says nothing.
            "(global.set $was (memory.grow (i32.const 2)))".to_owned(),
            fails_unless("(i32.gt_u (global.get $was) (i32.const 1))"),
            // What it asked for reaches from there on, and is its own.
            fails_unless("(i32.eq (memory.size) (i32.add (global.get $was) (i32.const 2)))"),
            "(i32.store (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 4)) (i32.const 7))"
                .to_owned(),
            // What it does not get changes nothing.
            fails_unless("(i32.eq (memory.grow (i32.const 60000)) (i32.const -1))"),
            fails_unless("(i32.eq (memory.size) (i32.add (global.get $was) (i32.const 2)))"),
        ]
        .concat();
        text(&format!(
            r#"(module
                (import "wasi_snapshot_preview1" "args_sizes_get" (func $args (param i32 i32) (result i32)))
                (memory (export "memory") 1)
                {globals}
                (func (export "_start") {body}))"#
        ))
        .unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path(), ambient_authority()).unwrap();
    let reach = Reach { root: &root, grants: &Grants::default(), directories: &[] };
    let small = limits().memory_mb(16);
    for globals in [
        "(global $was (mut i32) (i32.const 0))",
        "(global i64 (i64.const 1)) (global $was (mut i32) (i32.const 0))",
    ] {
        let ran = COMPONENTS.run(&program(globals), &reach, &small, &[], Vec::new()).unwrap();
        assert_eq!(ran.end, End::Exited(0), "{ran:?}");
    }
}

/// The same without the adapter and without any global, within a component: one module grows what another defines.
#[test]
fn a_module_in_a_component_is_told_of_its_own_pages_only() {
    let tool = |answer_if: &str| {
        text(&format!(
            r#"(component
                (core module $m
                    (memory (export "mem") 1)
                    (data (i32.const 60) "x")
                    (data (i32.const 40) "\00\00\00\00\3c\00\00\00\01\00\00\00")
                    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
                    (func (export "size") (result i32) memory.size))
                (core module $other
                    (import "m" "mem" (memory 1))
                    (import "m" "size" (func $size (result i32)))
                    (func (export "call") (param i32 i32) (result i32)
                        (drop (memory.grow (i32.const 3)))
                        (if (i32.eqz {answer_if}) (then unreachable))
                        i32.const 40))
                (core instance $i (instantiate $m))
                (core instance $o (instantiate $other (with "m" (instance $i))))
                (func $call (param "arguments" string) (result (result string (error string)))
                    (canon lift (core func $o "call") (memory (core memory $i "mem"))
                        (realloc (core func $i "realloc"))))
                (export "call" (func $call)))"#
        ))
        .unwrap()
    };
    for (condition, holds) in [
        ("(i32.eq (call $size) (i32.const 1))", true),
        // The one that does not define it sees all of it, as before.
        ("(i32.eq (memory.size) (i32.const 4))", true),
        ("(i32.eq (call $size) (i32.const 4))", false),
    ] {
        let answer = call_with(&tool(condition), &limits(), "{}");
        assert_eq!(answer.result.is_ok(), holds, "{condition}: {answer:?}");
    }
}

#[test]
fn a_pin_holds() {
    let bytes = include_bytes!("../components/calculator.wasm").to_vec();
    let sum = CALCULATOR.sha256().to_owned();
    let pinned = |pin: &str| COMPONENTS.load(bytes.clone(), Some(pin), None);
    assert!(pinned(&sum).is_ok() && pinned(&sum.to_uppercase()).is_ok());
    for pin in ["", "0", &sum[1..], &sum.replace('4', "5")] {
        let error = pinned(pin).unwrap_err();
        assert!(error.kind() == Kind::Denied && error.to_string().contains(&sum), "{error}");
    }
}

#[test]
fn compiling_ends_in_time_and_others_are_compiled_after_it() {
    let components = Components::new(&Setup::default(), None).unwrap();
    let function =
        format!("(func (param i32) (result i32) local.get 0 {})", "i32.const 3 i32.mul ".repeat(2_000));
    let slow = wat::parse_str(format!("(component (core module {}))", function.repeat(100))).unwrap();
    let error = components.load(slow.clone(), None, Some(1)).unwrap_err();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("compile"), "{error}");
    let small = wat::parse_str("(component)").unwrap();
    let start = Instant::now();
    while let Err(error) = components.load(small.clone(), None, None) {
        assert_eq!(error.kind(), Kind::Limit, "{error}");
        // Asked again and again: a compiler that comes back says so to nobody.
        assert!(start.elapsed() < Duration::from_secs(120), "the compiler comes back");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn modules_that_come_together_are_compiled_one_after_the_other() {
    let components = Components::new(&Setup::default(), None).unwrap();
    let module = |pages: u32| wat::parse_str(format!("(component (core module (memory {pages})))")).unwrap();
    std::thread::scope(|scope| {
        let loads: Vec<_> = (1..8)
            .map(|pages| {
                let bytes = module(pages);
                let components = &components;
                scope.spawn(move || components.load(bytes, None, None))
            })
            .collect();
        for load in loads {
            load.join().unwrap().unwrap();
        }
    });
}

#[test]
fn compiled_code_is_kept_out_of_reach() {
    let base = tempfile::tempdir().unwrap();
    let workspace = base.path().join("ws");
    fs::create_dir(&workspace).unwrap();
    let root = Root::open(&workspace, ambient_authority()).unwrap();
    let bytes = wat::parse_str(tool("i32.const 16", "i32.const 40", DATA)).unwrap();
    let kept = |cache: &std::path::Path| {
        let setup = Setup::default().cache(Some(cache.to_owned()));
        Components::new(&setup, Some(&root)).unwrap().load(bytes.clone(), None, None).unwrap();
        let mut found = Vec::new();
        let mut todo = vec![cache.to_owned()];
        while let Some(path) = todo.pop() {
            match fs::read_dir(&path) {
                Ok(entries) => todo.extend(entries.map(|entry| entry.unwrap().path())),
                Err(_) => found.push(path),
            }
        }
        found.len()
    };
    assert_eq!(kept(&workspace.join("cache")), 0, "in the workspace");
    assert_eq!(kept(base.path()), 0, "above the workspace");
    let outside = base.path().join("cache");
    assert!(kept(&outside) > 0, "the control");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&outside).unwrap().permissions().mode() & 0o777, 0o700);
        let open = base.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(kept(&open), 0, "others may write there");
    }
}

#[test]
fn a_module_is_a_regular_file_of_some_size() {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str, most| read_module(dir.path().join(name), most, ambient_authority());
    fs::write(dir.path().join("m.wasm"), b"\0asm").unwrap();
    assert_eq!(read("m.wasm", 4).unwrap(), b"\0asm");
    assert_eq!(read("m.wasm", 3).unwrap_err().kind(), Kind::Limit);
    assert_eq!(read("n.wasm", 3).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(read(".", 3).unwrap_err().kind(), Kind::Failed);
    #[cfg(unix)]
    {
        use rustix::fs::{CWD, FileType, mknodat};
        mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(read("pipe", 3).unwrap_err().kind(), Kind::Failed);
    }
}

#[test]
fn sockets_refuse() {
    let program = text(include_str!("guests/socket.wat")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path(), ambient_authority()).unwrap();
    let reach = Reach { root: &root, grants: &Grants::default(), directories: &[] };
    let ran = COMPONENTS.run(&program, &reach, &limits(), &[], Vec::new()).unwrap();
    assert_eq!(ran.end, End::Exited(1), "making one is an error, and no more than that");
    assert_eq!(ran.enforced.net, "none");
}
