//! Headless Chromium, over its debugging protocol on a pipe.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::browser::{Browser, Process};

pub(super) struct Chromium {
    _process: Process,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    calls: u64,
    complaints: Vec<String>,
    loaded: bool,
    _profile: TempDir,
}

impl Chromium {
    pub(super) fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The protocol's pipe is file descriptors 3 and 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--hide-scrollbars", "--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut browser = Self {
            _process: Process(process),
            to,
            from: BufReader::new(from),
            session: None,
            calls: 0,
            complaints: Vec::new(),
            loaded: false,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let message = self.receive();
            if message["id"] == self.calls {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "the browser has ended");
        let message: Value = serde_json::from_slice(&message).unwrap();
        match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.loaded = true,
            "Runtime.exceptionThrown" => self.complaints.push(message["params"].to_string()),
            "Runtime.consoleAPICalled" if message["params"]["type"] == "error" => {
                self.complaints.push(message["params"].to_string());
            }
            "Log.entryAdded" if message["params"]["entry"]["level"] == "error" => {
                self.complaints.push(message["params"].to_string());
            }
            _ => {}
        }
        message
    }
}

impl Browser for Chromium {
    fn open(&mut self, page: &Path, width: u32, scheme: &str) {
        let mobile = width < 600;
        let height = if mobile { 844 } else { 900 };
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
        self.loaded = false;
        self.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        while !self.loaded {
            self.receive();
        }
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let call = json!({ "expression": expression, "returnByValue": true });
        let result = self.call("Runtime.evaluate", call);
        assert!(result.get("exceptionDetails").is_none(), "{result}");
        result["result"]["value"].clone()
    }

    fn picture(&mut self, width: u32) -> String {
        let height = self.evaluate("document.scrollingElement.scrollHeight");
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let call = json!({ "captureBeyondViewport": true, "clip": clip });
        let picture = self.call("Page.captureScreenshot", call);
        picture["data"].as_str().unwrap().to_owned()
    }

    fn complaints(&mut self) -> Vec<String> {
        self.complaints.clone()
    }
}
