//! Suppression and SARIF output of findings.

use std::path::Path;

use serde_json::Value;
use warpfold_sim::{Args, Config, Error, Gpu, Hazards, Launch, Module};
use warpfold_sim_report::{Diagnostic, RULES, Suppressions, sarif};

/// Output of nvcc 13.0 with `-lineinfo` for `/home/me/lines.cu`.
const LINES: &str = include_str!("../../tests/ptx/lines_nvcc.ptx");

/// Returns a race of blocks on a word, a read past the end of an array in an inlined function, and a
/// result that depends on the order of threads.
fn found() -> Vec<Diagnostic> {
    let race =
        ".version 7.8 .target sm_80 .entry race(.param .u64 p) { .reg .b64 %p; ld.param.u64 %p, [p];
                .loc 1 12 5\nst.global.u32 [%p], 1; ret; }\n.file 1 \"src/a race.cu\"";
    let gpu = Gpu::new(Config { threads: Some(1), ..Config::default() });
    let hazards = Hazards::new();
    let (word, more) = (gpu.alloc(4).unwrap(), gpu.alloc(32).unwrap());
    gpu.memory().set_name(word, "word");
    let (module, args) = (Module::parse(race).unwrap(), Args::new().ptr(word));
    gpu.launch_observed(&module, "race", &Launch::linear(3, 1), &args, &hazards.launch()).unwrap();
    let mut found: Vec<_> = hazards.findings().iter().map(Diagnostic::of_finding).collect();
    let (module, args) = (Module::parse(LINES).unwrap(), Args::new().ptr(more).ptr(more));
    let Err(Error::Fault(fault)) = gpu.launch(&module, "_Z7inlinedPKfPf", &Launch::linear(1, 8), &args)
    else {
        panic!("it reads behind its array")
    };
    found.push(Diagnostic::of_fault(&fault));
    found.push(Diagnostic::of_order("sum", "sums: element 0 is 1 under seed 3, and was 2"));
    found
}

fn suppressed(lines: &str) -> Vec<bool> {
    let known = Suppressions::parse(lines).unwrap();
    found().iter().map(|found| known.reason(found).is_some()).collect()
}

#[test]
fn suppressions_match_all_conditions() {
    assert_eq!(suppressed(""), [false, false, false]);
    assert_eq!(suppressed("write-write-race"), [true, false, false]);
    assert_eq!(suppressed("* kernel=race\nout-of-bounds kernel=inlined(*"), [true, true, false]);
    assert_eq!(suppressed("* kernel=_Z7inlined*\n* kernel=sum"), [false, true, true]);
    // `file` and `line` must match the same line of the finding's call chain.
    assert_eq!(suppressed("* file=*/lines.cu line=9"), [false, true, false]);
    assert_eq!(suppressed("* file=*/lines.cu line=12"), [false, false, false]);
    assert_eq!(suppressed("* line=12"), [true, false, false]);
    assert_eq!(
        suppressed("* file=\"src/a race.cu\" buffer=\"byte * of `word`*\""),
        [true, false, false]
    );
    assert_eq!(suppressed("write-write-race buffer=\"*`other`*\""), [false, false, false]);
    let known = Suppressions::parse("* line=12 # the host knows\n\nlock-step\n").unwrap();
    let reasons: Vec<_> = found().iter().map(|found| known.reason(found).map(str::to_owned)).collect();
    assert_eq!(reasons, [Some("the host knows".to_owned()), None, None]);
    assert_eq!(known.unused().collect::<Vec<_>>(), [(3, "lock-step")]);
}

#[test]
fn text_has_the_source_line_and_the_rule() {
    let texts: Vec<String> = found().iter().map(Diagnostic::text).collect();
    assert!(
        texts[0].starts_with("src/a race.cu:12:5: write-write race at global address 0x1"),
        "{}",
        texts[0]
    );
    assert!(texts[0].ends_with("[write-write-race]"), "{}", texts[0]);
    assert!(texts[1].starts_with("/home/me/lines.cu:5:5: kernel `inlined("), "{}", texts[1]);
    assert_eq!(texts[2], "kernel `sum`: sums: element 0 is 1 under seed 3, and was 2 [order-dependent]");
}

/// The required and the optional properties of each kind of SARIF 2.1.0 object that is written. No other
/// property is allowed.
const SHAPES: [(&str, &[&str], &[&str]); 12] = [
    ("log", &["version", "runs"], &["$schema"]),
    ("run", &["tool"], &["results", "originalUriBaseIds", "columnKind"]),
    ("tool", &["driver"], &[]),
    ("driver", &["name"], &["version", "rules"]),
    ("rule", &["id"], &["shortDescription", "help", "defaultConfiguration"]),
    ("configuration", &[], &["level"]),
    ("message", &["text"], &[]),
    (
        "result",
        &["message"],
        &[
            "ruleId",
            "ruleIndex",
            "level",
            "locations",
            "relatedLocations",
            "partialFingerprints",
            "suppressions",
        ],
    ),
    ("location", &[], &["id", "physicalLocation", "message"]),
    ("physical", &[], &["artifactLocation", "region"]),
    ("region", &[], &["startLine", "startColumn"]),
    ("suppression", &["kind"], &["justification"]),
];

/// Checks the properties of an object and returns it.
fn shaped<'v>(value: &'v Value, shape: &str) -> &'v Value {
    let (_, must, may) = SHAPES.iter().find(|(name, ..)| *name == shape).expect("a shape");
    let object = value.as_object().unwrap_or_else(|| panic!("{shape} is {value}"));
    for key in *must {
        assert!(object.contains_key(*key), "{shape} without {key}: {value}");
    }
    for key in object.keys() {
        assert!(must.contains(&&**key) || may.contains(&&**key), "{shape} with {key}: {value}");
    }
    value
}

fn each<'v>(value: &'v Value, key: &str, shape: &str) -> Vec<&'v Value> {
    let list = value[key].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|one| shaped(one, shape)).collect()
}

fn check_location(location: &Value) {
    let physical = shaped(&location["physicalLocation"], "physical");
    let region = shaped(&physical["region"], "region");
    assert!(region["startLine"].as_u64().unwrap() >= 1);
    assert!(region.get("startColumn").is_none_or(|column| column.as_u64().unwrap() >= 1));
    let uri = physical["artifactLocation"]["uri"].as_str().unwrap();
    assert!(!uri.contains([' ', '\\', '%']) || uri.contains("%20"), "{uri}");
    if let Some(message) = location.get("message") {
        shaped(message, "message");
    }
}

#[test]
fn sarif_has_the_shape_that_its_schema_asks_for() {
    let mut found: Vec<_> = found().into_iter().map(|found| (found, None)).collect();
    found[0].1 = Some("known".to_owned());
    let log = sarif(&found, Path::new("/home/me"), "my.ptx");
    shaped(&log, "log");
    assert_eq!(log["version"], "2.1.0");
    let [run] = each(&log, "runs", "run")[..] else { panic!("one run") };
    let driver = shaped(&shaped(&run["tool"], "tool")["driver"], "driver");
    for rule in each(driver, "rules", "rule") {
        shaped(&rule["shortDescription"], "message");
        shaped(&rule["help"], "message");
        let level = &shaped(&rule["defaultConfiguration"], "configuration")["level"];
        assert!(["error", "warning"].contains(&level.as_str().unwrap()));
    }
    let results = each(run, "results", "result");
    assert_eq!(results.len(), 3);
    for result in &results {
        shaped(&result["message"], "message");
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(result["ruleId"], RULES[index].id);
        assert_eq!(driver["rules"][index]["id"], result["ruleId"]);
        assert!(result["partialFingerprints"].as_object().unwrap().values().all(Value::is_string));
        let all = [each(result, "locations", "location"), each(result, "relatedLocations", "location")];
        all.concat().into_iter().for_each(check_location);
        for suppression in each(result, "suppressions", "suppression") {
            assert_eq!(suppression["kind"], "external");
        }
    }
    assert_eq!(results[0]["suppressions"][0]["justification"], "known");
    assert!(results[1].get("suppressions").is_none());
    // The location is the user's line; its callers are related locations.
    let place = |location: &Value| {
        let physical = &location["physicalLocation"];
        (physical["artifactLocation"]["uri"].clone(), physical["region"]["startLine"].clone())
    };
    assert_eq!(place(&results[1]["locations"][0]), ("lines.cu".into(), 5.into()));
    let related: Vec<_> =
        each(results[1], "relatedLocations", "location").into_iter().map(place).collect();
    assert_eq!(related, [("lines.cu".into(), 9.into()), ("lines.cu".into(), 15.into())]);
    assert_eq!(place(&results[0]["locations"][0]), ("src/a%20race.cu".into(), 12.into()));
}
