//! What a server of a policy is granted beyond what commands are: variables, and hosts that it reaches through the proxy.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::{Field, toolgate, with_server};

/// A server of this machine that says hello, once for each connection.
fn hello() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 1_024]);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        }
    });
    port
}

#[test]
fn a_server_sees_its_variables_and_reaches_its_hosts_and_tells_neither_on() {
    let (field, listed, other) = (Field::new(), hello(), hello());
    let granted = format!(
        "env = {{ KEY = \"sk-123456789\", URL = \"http://127.0.0.1:{listed}/\" }}\npass = [\"TOOLGATE_TEST_KEY\"]\n\
         network = [\"127.0.0.1:{listed}\"]\n"
    );
    let Some(policy) = with_server(&field, &granted) else { return };
    let with = |name: &str, policy: &str, passed: Option<&str>| {
        let mut command = toolgate();
        command.args(["tool", "call", name, "{}", "--policy", policy]).current_dir(&field.ws);
        if let Some(passed) = passed {
            command.env("TOOLGATE_TEST_KEY", passed);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default(), said)
    };
    let call = |name: &str, policy: &str| with(name, policy, Some("token-987654321"));
    // Both values were there, since they are known by name in what comes back.
    let (revealed, _) = call("reveal", &policy);
    assert_eq!(revealed["content"], "key [KEY], token [TOOLGATE_TEST_KEY]");
    assert_eq!(revealed["enforced"]["net"], format!("proxy: 127.0.0.1:{listed}"));
    // Nor does what it says of its tools.
    let mut list = toolgate();
    list.args(["tool", "list", "--json", "--policy", &policy]).current_dir(&field.ws);
    let listed_tools = list.env("TOOLGATE_TEST_KEY", "token-987654321").output().unwrap();
    let listed_tools = String::from_utf8(listed_tools.stdout).unwrap();
    assert!(listed_tools.contains("Knows [KEY].") && listed_tools.contains("by [KEY]"), "{listed_tools}");
    assert!(!listed_tools.contains("sk-1234"), "{listed_tools}");
    if std::path::Path::new("/usr/bin/curl").exists() {
        let (fetched, _) = call("fetch", &policy);
        assert_eq!(fetched["content"], "fetched hello", "{fetched}");
        let elsewhere = std::fs::read_to_string(&policy).unwrap();
        let elsewhere = elsewhere.replace(&format!("127.0.0.1:{listed}/"), &format!("127.0.0.1:{other}/"));
        let (denied, _) = call("fetch", &field.policy(&elsewhere));
        let content = denied["content"].as_str().unwrap();
        assert!(!content.contains("hello"), "{denied}");
        let why = format!("[no connection: 127.0.0.1:{other} is not on the list");
        assert!(content.contains(&why), "{denied}");
    }
    let policy = with_server(&field, &granted).unwrap();
    // What it last said before it ended does not tell the key either.
    let (_, said) =
        call(
            "reveal",
            &field.policy(&std::fs::read_to_string(&policy).unwrap().replace(
                "\"/bin/sh\", \"server.sh\"",
                "\"/bin/sh\", \"-c\", \"echo bad key $KEY >&2; exit 1\"",
            )),
        );
    assert!(said.contains("bad key [KEY]") && !said.contains("sk-1234"), "{said}");
    let policy = with_server(&field, &granted).unwrap();
    let (_, said) = with("reveal", &policy, None);
    assert!(said.contains("notes is not offered: it needs the variable TOOLGATE_TEST_KEY"), "{said}");
}

#[test]
fn a_workspace_grants_its_servers_nothing() {
    let field = Field::new();
    let Some(policy) = with_server(&field, "") else { return };
    let own = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(
        field.ws.join(".toolgate.toml"),
        format!("{own}env = {{ KEY = \"planted-value\" }}\nnetwork = [\"127.0.0.1:1\"]\nread = [\"/opt\"]\n"),
    )
    .unwrap();
    let (code, result, said) = field.run(&["tool", "call", "reveal", "{}", "--policy", &policy]);
    let result: Value = serde_json::from_str(&result).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!((code, &result["content"]), (0, &json!("key , token ")));
    assert_eq!(result["enforced"]["net"], "none");
}
