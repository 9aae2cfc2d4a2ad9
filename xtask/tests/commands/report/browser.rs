//! The page in headless browsers: Chromium and Firefox.
//!
//! Each test runs where `WARPFOLD_CHROMIUM` or `WARPFOLD_FIREFOX` names the browser, or the PATH has it.
//! `WARPFOLD_SCREENSHOTS` names a folder for screenshots of the page.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Child,
};

use serde_json::{Value, json};
use warpfold_suite_build::workspace::Workspace;
use warpfold_suite_build::{machine::Machine, suite};

use super::{chromium::Chromium, firefox::Firefox};

const WIDTHS: [u32; 3] = [390, 768, 1280];

/// Firefox's windows cannot be as narrow as a phone.
const FIREFOX_WIDTHS: [u32; 3] = [500, 768, 1280];

const LOOK: &str = include_str!("look.js");

const POINT: &str = include_str!("point.js");

pub(super) trait Browser {
    /// Opens a page in a window of a width in pixels and with a colour scheme, light or dark.
    fn open(&mut self, page: &Path, width: u32, scheme: &str);
    fn evaluate(&mut self, expression: &str) -> Value;
    /// Returns a picture of the whole page, a PNG in base 64.
    fn picture(&mut self, width: u32) -> String;
    fn complaints(&mut self) -> Vec<String>;
}

#[test]
fn page_renders_fully_in_chromium() {
    match machine().browser() {
        Some(program) => assert_page_renders(&mut Chromium::start(&program), "chromium", WIDTHS),
        None => suite::skip("no Chromium on the PATH; WARPFOLD_CHROMIUM names one"),
    }
}

#[test]
fn page_renders_fully_in_firefox() {
    match machine().firefox() {
        Some(program) => assert_page_renders(&mut Firefox::start(&program), "firefox", FIREFOX_WIDTHS),
        None => suite::skip("no Firefox on the PATH; WARPFOLD_FIREFOX names one"),
    }
}

fn machine() -> Machine {
    Machine::this(&Workspace::locate().unwrap())
}

pub(super) struct Process(pub(super) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn assert_page_renders(browser: &mut dyn Browser, name: &str, widths: [u32; 3]) {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    // Results to inspect, by default the sample.
    let results = env::var_os("WARPFOLD_RESULTS").map_or_else(super::sample, PathBuf::from);
    let own = results != super::sample();
    let output = super::report(&["--results", super::text(&results), "--out", super::text(&page)]);
    assert_eq!(output.status.code(), Some(0), "{}", super::said(&output));
    for width in widths {
        for scheme in ["light", "dark"] {
            let what = format!("{width} pixels, {scheme}");
            browser.open(&page, width, scheme);
            keep(browser, &format!("{name}-{width}-{scheme}"), width);
            let seen = browser.evaluate(LOOK);
            assert_eq!(seen["inner"], width, "{what}");
            assert!(seen["across"].as_u64().unwrap() <= u64::from(width), "{what}: {}", seen["across"]);
            let charts = seen["charts"].as_array().unwrap();
            for chart in charts {
                assert_chart_renders(chart, &what);
                // Wider screens scroll tables; on phones they are cards.
                let tables = chart["tables"].as_array().unwrap().iter().filter(|_| width <= 700);
                tables.for_each(|table| fits(table, chart, &what));
            }
            if !own {
                all_series(charts, &what);
            }
            let dark = seen["ground"].as_str().unwrap().starts_with("rgb(1");
            assert_eq!(dark, scheme == "dark", "{what}: {}", seen["ground"]);
            let pointed = browser.evaluate(POINT);
            pointed.as_array().unwrap().iter().for_each(|pointed| tells(pointed, &what));
            browser.evaluate("document.activeElement.blur(); scrollTo(0, 0)");
            keep(browser, &format!("{name}-{width}-{scheme}-tables"), width);
            let complaints = browser.complaints();
            assert!(complaints.is_empty(), "{what}: {complaints:?}");
        }
    }
}

/// Checks that nothing in a chart is cut off, crossed out or too small to read.
fn assert_chart_renders(chart: &Value, what: &str) {
    let id = chart["id"].as_str().unwrap();
    // These figures are tables without a picture, because they are not compared by eye.
    let is_table = ["machine-code", "rows"].contains(&id) || id.starts_with("library-");
    let pictures = if is_table { 0 } else { 1 };
    assert_eq!(chart["pictures"], pictures, "{what}, {id}");
    for fault in ["outside", "crossed"] {
        assert_eq!(chart[fault], json!([]), "{what}, {id}: {fault}");
    }
    assert!(chart["smallest"].as_f64().unwrap() >= 9.0, "{what}, {id}: {}", chart["smallest"]);
}

fn fits(table: &Value, chart: &Value, what: &str) {
    let what = format!("{what}, {}, {}", chart["id"], table["name"]);
    assert_eq!(table["hidden"], 0, "{what}: {table}");
    assert_eq!(table["cut"], json!([]), "{what}");
}

/// Checks that a picture's marks show their descriptions when pointed at and by arrow keys.
fn tells(pointed: &Value, what: &str) {
    for told in ["pointed", "right", "down"] {
        assert!(pointed[told].as_str().unwrap().contains("n = "), "{what}: {told} in {pointed}");
    }
    // Left and right move along a series (of one value for bars), up and down to the next series.
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

fn keep(browser: &mut dyn Browser, name: &str, width: u32) {
    let Some(folder) = env::var_os("WARPFOLD_SCREENSHOTS").map(PathBuf::from) else { return };
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name).with_extension("png"), decode(&browser.picture(width))).unwrap();
}

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
