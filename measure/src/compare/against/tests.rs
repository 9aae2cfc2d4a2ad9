use super::*;

fn version(ptx: &[&str], sass: &[&str], registers: u32) -> Version {
    let lines = |given: &[&str]| given.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    Version {
        ptx_instructions: ptx.len(),
        registers,
        sass_instructions: sass.len() as u32,
        static_shared_bytes: 0,
        stack_bytes: 0,
        spill_bytes: 0,
        ptx: lines(ptx),
        sass: lines(sass),
    }
}

fn side(of: &[(&str, Version)]) -> BTreeMap<String, Version> {
    of.iter().map(|(name, version)| ((*name).to_owned(), version.clone())).collect()
}

#[test]
fn differences_show_both_numbers() {
    let plain = version(&["a", "ret"], &["A", "EXIT"], 10);
    let other_ptx = version(&["a", "b", "ret"], &["A", "EXIT"], 10);
    let other = version(&["a", "b", "ret"], &["A", "B", "B", "EXIT"], 8);
    let earlier = side(&[
        ("same", plain.clone()),
        ("moved", plain.clone()),
        ("grown", plain.clone()),
        ("gone", plain.clone()),
    ]);
    let now = side(&[("same", plain.clone()), ("moved", other_ptx), ("grown", other), ("new", plain)]);
    let pairs = pairs(earlier, now);
    assert_eq!(
        table::summary(&pairs),
        "of 3 entries on both sides: PTX but for names and lines identical in 1, machine code in 2; 1 gone, 1 new"
    );
    let text = table::table(&pairs).unwrap().to_string();
    let cells = |entry: &str| -> Vec<String> {
        let line =
            text.lines().find(|line| line.contains(entry)).unwrap_or_else(|| panic!("{entry}: {text}"));
        line.split(['│', '┆']).map(|cell| cell.trim().to_owned()).collect()
    };
    assert_eq!(cells("moved")[2..5], ["same", "2 → 3 (+1)", "2"]);
    assert_eq!(cells("grown")[2..6], ["differs", "2 → 3 (+1)", "2 → 4 (+2)", "10 → 8 (-2)"]);
    assert_eq!((&cells("gone")[2][..], &cells("new")[2][..]), ("gone", "new"));
    assert!(!text.contains("│ same "), "{text}");
    assert!(table::table(&pairs[..0]).is_none());
}

#[test]
fn a_folder_is_of_one_architecture() {
    let folder = tempfile::tempdir().unwrap();
    let request =
        |arch| Request { folder: folder.path(), variants: &[], codegens: &[], arch, json: false };
    let said = files(folder.path(), &[]).unwrap_err().to_string();
    assert!(said.ends_with("has no PTX of these variants; their files are <variant>.ptx"), "{said}");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("sequential.ptx", ".version 8.0\n.target sm_90, debug\n");
    write("reducer_sum_f32.ptx", ".target sm_90\n");
    write("fingerprint.txt", "none");
    let all = files(folder.path(), &[]).unwrap();
    assert_eq!(all.len(), 2);
    let one = |id| files(folder.path(), &[warpfold_suite::catalogue::find(id).unwrap()]).unwrap();
    assert_eq!([one("sequential"), one("reducer")].concat(), [all[1].clone(), all[0].clone()]);
    assert_eq!(arch(&request(None), &all).unwrap().to_string(), "sm_90");
    let other = arch(&request(Some("sm_80".parse().unwrap())), &all).unwrap_err().to_string();
    assert!(other.ends_with("has PTX for sm_90, but --arch is sm_80; leave --arch out"), "{other}");
    write("sequential.ptx", ".target sm_80\n");
    let mixed = arch(&request(None), &all).unwrap_err().to_string();
    assert!(mixed.ends_with("has PTX for sm_80, sm_90; give a folder of one architecture"), "{mixed}");
    assert!(files(Path::new("/no/such/folder"), &[]).is_err());
}
