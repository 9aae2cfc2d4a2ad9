//! Headless Firefox, driven by Marionette: length-prefixed JSON messages over a local connection.

use std::{
    fs,
    io::{BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::browser::{Browser, Process};

const START: Duration = Duration::from_secs(180);

pub(super) struct Firefox {
    _process: Process,
    to: TcpStream,
    from: BufReader<TcpStream>,
    calls: u64,
    _profile: TempDir,
}

impl Firefox {
    pub(super) fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // A free port, which the profile assigns to Firefox.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let settings = [
            format!("user_pref(\"marionette.port\", {port});"),
            "user_pref(\"datareporting.policy.dataSubmissionEnabled\", false);".to_owned(),
            "user_pref(\"app.update.disabledForTesting\", true);".to_owned(),
            "user_pref(\"browser.startup.page\", 0);".to_owned(),
        ];
        fs::write(profile.path().join("user.js"), settings.join("\n")).unwrap();
        let process = Command::new(program)
            .args([
                "--headless",
                "--marionette",
                "--remote-allow-system-access",
                "--no-remote",
                "--profile",
            ])
            .arg(profile.path())
            // The home folder may not be writable.
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut process = Process(process);
        let start = Instant::now();
        let to = loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                Ok(connection) => break connection,
                Err(error) => {
                    let ended = process.0.try_wait().unwrap();
                    assert!(ended.is_none() && start.elapsed() < START, "{error}; ended: {ended:?}");
                    thread::sleep(Duration::from_millis(100));
                }
            }
        };
        let from = BufReader::new(to.try_clone().unwrap());
        let mut browser = Self { _process: process, to, from, calls: 0, _profile: profile };
        let greeting = browser.receive();
        assert_eq!(greeting["applicationType"], "gecko", "{greeting}");
        browser.call("WebDriver:NewSession", json!({}));
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let message = json!([0, self.calls, method, params]).to_string();
        write!(self.to, "{}:{message}", message.len()).unwrap();
        let answer = self.receive();
        assert_eq!(answer[1], self.calls, "{answer}");
        assert!(answer[2].is_null(), "{method}: {}", answer[2]);
        answer[3].clone()
    }

    fn receive(&mut self) -> Value {
        let mut length = String::new();
        loop {
            let mut byte = [0];
            self.from.read_exact(&mut byte).expect("the browser has ended");
            match byte[0] {
                b':' => break,
                digit => length.push(char::from(digit)),
            }
        }
        let mut message = vec![0; length.parse().unwrap()];
        self.from.read_exact(&mut message).unwrap();
        serde_json::from_slice(&message).unwrap()
    }

    fn in_chrome(&mut self, script: &str) -> Value {
        self.call("Marionette:SetContext", json!({ "value": "chrome" }));
        let result = self.call("WebDriver:ExecuteScript", json!({ "script": script, "args": [] }));
        self.call("Marionette:SetContext", json!({ "value": "content" }));
        result["value"].clone()
    }
}

impl Browser for Firefox {
    fn open(&mut self, page: &Path, width: u32, scheme: &str) {
        let scheme = if scheme == "dark" { 0 } else { 1 };
        self.in_chrome(&format!(
            "Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', {scheme}); \
             Services.console.reset();"
        ));
        // The window's frame and its scroll bar take up some of the width.
        let url = json!({ "url": format!("file://{}", page.display()) });
        let mut outer = width;
        for _ in 0..3 {
            self.call("WebDriver:SetWindowRect", json!({ "width": outer, "height": 900 }));
            self.call("WebDriver:Navigate", url.clone());
            let inner = self.evaluate("innerWidth").as_u64().unwrap();
            if inner == u64::from(width) {
                break;
            }
            outer = (u64::from(outer) + u64::from(width) - inner) as u32;
        }
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let script = json!({ "script": "return eval(arguments[0])", "args": [expression] });
        self.call("WebDriver:ExecuteScript", script)["value"].clone()
    }

    fn picture(&mut self, _width: u32) -> String {
        let picture = self.call("WebDriver:TakeScreenshot", json!({ "full": true }));
        picture["value"].as_str().unwrap().to_owned()
    }

    fn complaints(&mut self) -> Vec<String> {
        let found = self.in_chrome(
            "return Services.console.getMessageArray().filter(m => m instanceof Ci.nsIScriptError && \
             (m.sourceName || '').startsWith('file:') && !(m.flags & 1)).map(m => m.errorMessage)",
        );
        found.as_array().unwrap().iter().map(Value::to_string).collect()
    }
}
