//! The page in headless Chromium, over its debugging protocol on a pipe.
//!
//! Runs where `WARPFOLD_CHROMIUM` names the browser, or the PATH has it. `WARPFOLD_SCREENSHOTS` names a
//! folder for pictures of what it saw.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use warpfold_lab::workspace::Workspace;
use xtask::{doctor::Machine, suite};

/// Widths of a phone, of a tablet and of a desktop.
const WIDTHS: [u32; 3] = [390, 768, 1280];

/// What a person would look for, as the page's own script sees it.
const LOOK: &str = include_str!("look.js");

/// Points at a mark of each picture, then walks on with the keys.
const POINT: &str = include_str!("point.js");

#[test]
fn the_page_is_whole_on_phone_and_desktop_in_light_and_dark() {
    let Some(program) = chromium() else {
        return suite::skip("no Chromium on the PATH; WARPFOLD_CHROMIUM names one");
    };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    // Somebody's own results, to look at; else the sample.
    let results = env::var_os("WARPFOLD_RESULTS").map_or_else(super::sample, PathBuf::from);
    let own = results != super::sample();
    let output = super::report(&["--results", super::text(&results), "--out", super::text(&page)]);
    assert_eq!(output.status.code(), Some(0), "{}", super::said(&output));
    let mut browser = Browser::start(&program);
    for width in WIDTHS {
        for scheme in ["light", "dark"] {
            let what = format!("{width} pixels, {scheme}");
            browser.open(&page, width, scheme);
            browser.picture(&format!("{width}-{scheme}"), width);
            let seen = browser.evaluate(LOOK);
            assert_eq!(seen["inner"], width, "{what}");
            assert!(seen["across"].as_u64().unwrap() <= u64::from(width), "{what}: {}", seen["across"]);
            let charts = seen["charts"].as_array().unwrap();
            for chart in charts {
                whole(chart, &what);
                chart["tables"].as_array().unwrap().iter().for_each(|table| fits(table, chart, &what));
            }
            if !own {
                all_series(charts, &what);
            }
            let dark = seen["ground"].as_str().unwrap().starts_with("rgb(1");
            assert_eq!(dark, scheme == "dark", "{what}: {}", seen["ground"]);
            let pointed = browser.evaluate(POINT);
            pointed.as_array().unwrap().iter().for_each(|pointed| tells(pointed, &what));
            browser.evaluate("document.activeElement.blur(); scrollTo(0, 0)");
            browser.picture(&format!("{width}-{scheme}-tables"), width);
            assert!(browser.complaints.is_empty(), "{what}: {:?}", browser.complaints);
        }
    }
}

/// One picture, of which nothing is cut off, struck through or too small to read.
fn whole(chart: &Value, what: &str) {
    let id = chart["id"].as_str().unwrap();
    // The numbers of machine code, of rows and of the library's benches are read, not compared by eye:
    // their tables are the figure.
    let is_table = ["machine-code", "rows"].contains(&id) || id.starts_with("library-");
    let pictures = if is_table { 0 } else { 1 };
    assert_eq!(chart["pictures"], pictures, "{what}, {id}");
    for fault in ["outside", "crossed"] {
        assert_eq!(chart[fault], json!([]), "{what}, {id}: {fault}");
    }
    assert!(chart["smallest"].as_f64().unwrap() >= 9.0, "{what}, {id}: {}", chart["smallest"]);
}

/// A table that shows every column, without scrolling sideways.
fn fits(table: &Value, chart: &Value, what: &str) {
    let what = format!("{what}, {}, {}", chart["id"], table["name"]);
    assert_eq!(table["hidden"], 0, "{what}: {table}");
    assert_eq!(table["cut"], json!([]), "{what}");
}

/// A picture whose marks tell what they are, by pointing and by keys.
fn tells(pointed: &Value, what: &str) {
    for told in ["pointed", "right", "down"] {
        assert!(pointed[told].as_str().unwrap().contains("n = "), "{what}: {told} in {pointed}");
    }
    // Left and right lead along a series, which of bars is one value; up and down lead to the next one.
    assert_ne!(pointed["right"], pointed["down"], "{what}: {pointed}");
    let curves = pointed["id"] == "bandwidth" || pointed["id"] == "reducer-types";
    assert!(!curves || pointed["right"] != pointed["pointed"], "{what}: {pointed}");
    assert!(pointed["inside"] == true && pointed["hidden"] == true, "{what}: {pointed}");
}

fn all_series(charts: &[Value], what: &str) {
    assert_eq!(charts.len(), super::SERIES.len(), "{what}");
    for (chart, (id, series)) in charts.iter().zip(super::SERIES) {
        assert_eq!(chart["id"], id, "{what}");
        let drawn = chart["series"].as_array().unwrap();
        for name in series {
            assert!(drawn.iter().any(|drawn| drawn == name), "{what}, {id}: no {name}");
        }
    }
}

/// The browser that the user names, else one on the PATH.
fn chromium() -> Option<PathBuf> {
    Machine::this(&Workspace::locate().unwrap()).browser()
}

struct Browser {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    calls: u64,
    /// Errors that the page or the browser told of.
    complaints: Vec<String>,
    /// Of the page that is open.
    loaded: bool,
    _profile: TempDir,
}

impl Browser {
    fn start(program: &Path) -> Self {
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
            process,
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

    /// A picture of the whole page, where somebody wants to look at it.
    fn picture(&mut self, name: &str, width: u32) {
        let Some(folder) = env::var_os("WARPFOLD_SCREENSHOTS").map(PathBuf::from) else { return };
        let height = self.evaluate("document.scrollingElement.scrollHeight");
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let call = json!({ "captureBeyondViewport": true, "clip": clip });
        let picture = self.call("Page.captureScreenshot", call);
        fs::create_dir_all(&folder).unwrap();
        let bytes = decode(picture["data"].as_str().unwrap());
        fs::write(folder.join(name).with_extension("png"), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Bytes of a text in base 64.
fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        (bits, count) = (bits << 6 | u32::from(digit(byte)), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}
