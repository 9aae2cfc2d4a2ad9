//! What the linker made of a program that uses cust: this one.

use std::collections::HashSet;
use std::ffi::c_void;
use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, elf};
use warpfold_driver::{cust, entry_points};

/// Every entry point as cust sees it. The array alone makes the linker resolve each of them.
macro_rules! symbols {
    ($($name:ident $(=> $fallback:ident)?,)*) => {
        fn as_cust_sees_them() -> Vec<(&'static str, *const c_void)> {
            vec![$((stringify!($name), cust::sys::$name as *const c_void),)*]
        }
    };
}

include!("../src/table.rs");

#[test]
fn every_symbol_of_cust_resolves_to_ours() {
    let ours: Vec<_> =
        entry_points().map(|entry| (entry.name, entry.trampoline as *const c_void)).collect();
    let theirs = as_cust_sees_them();
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.into_iter().zip(theirs) {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn names_and_functions_are_unique() {
    let names: HashSet<_> = entry_points().map(|entry| entry.name).collect();
    assert_eq!(names.len(), entry_points().len());
    let functions: HashSet<_> = entry_points().map(|entry| entry.trampoline as *const c_void).collect();
    assert_eq!(functions.len(), entry_points().len());
}

#[test]
fn the_table_is_what_cust_raw_declares() {
    let source = fs::read_to_string(cust_raw_source()).unwrap();
    let declared: HashSet<_> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub fn cu"))
        .filter_map(|rest| rest.split('(').next())
        .map(|rest| format!("cu{rest}"))
        .collect();
    assert!(declared.len() > 300, "{}", declared.len());
    let table: HashSet<_> = entry_points().map(|entry| entry.name.to_owned()).collect();
    let missing: Vec<_> = declared.difference(&table).collect();
    let extra: Vec<_> = table.difference(&declared).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "add to src/table.rs: {missing:?}; remove from it: {extra:?}"
    );
}

/// The bindings that cust was compiled from, as rustc's dependency file beside this test names them.
fn cust_raw_source() -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let folder = executable.parent().unwrap();
    let mut entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let rules = entries
        .find(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("cust_raw-") && name.ends_with(".d")
        })
        .unwrap_or_else(|| panic!("no cust_raw-*.d in {}", folder.display()));
    fs::read_to_string(rules)
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_suffix(':'))
        .map(PathBuf::from)
        .find(|path| path.ends_with("src/cuda.rs"))
        .expect("cust_raw has src/cuda.rs")
}

#[test]
fn the_executable_does_not_need_libcuda() {
    let needed = needed_libraries(&std::env::current_exe().unwrap());
    assert!(needed.iter().any(|name| name.contains("libc.")), "{needed:?}");
    assert!(needed.iter().all(|name| !name.contains("cuda")), "{needed:?}");
}

/// Were they exported, calls inside libcuda.so.1 could be bound to them.
#[test]
fn the_executable_does_not_export_the_symbols() {
    let data = fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*data).unwrap();
    let names: HashSet<_> = entry_points().map(|entry| entry.name).collect();
    assert!(file.dynamic_symbols().count() > 0);
    let exported: Vec<_> = file
        .dynamic_symbols()
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| names.contains(name))
        .collect();
    assert!(exported.is_empty(), "{exported:?}");
}

/// The `NEEDED` entries, as `readelf -d` shows them.
fn needed_libraries(path: &Path) -> Vec<String> {
    let data = fs::read(path).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*data).unwrap();
    let table = file.elf_dynamic_table().unwrap();
    table
        .iter()
        .filter(|entry| entry.tag == elf::DT_NEEDED)
        .map(|entry| String::from_utf8_lossy(table.string(entry).unwrap()).into_owned())
        .collect()
}
