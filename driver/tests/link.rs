//! What the linker made of a program that uses cust: this one.

mod recorder;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Endianness, elf};
use warpfold_driver::sys::*;
use warpfold_driver::{cust, entry_points, for_each_function};

/// The functions of the table, as the linker resolves their names.
macro_rules! typed {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        mod foreign {
            use super::*;
            unsafe extern "C" {
                $(pub(super) fn $name($($argument: $kind),*) -> c_int;)*
            }
        }

        fn typed() -> Vec<(&'static str, *const c_void)> {
            vec![$((stringify!($name), foreign::$name as *const c_void),)*]
        }
    };
}

for_each_function!(typed);

/// All others, as cust sees them. The array alone makes the linker resolve each of them.
macro_rules! other_symbols {
    ($($name:ident,)*) => {
        fn others() -> Vec<(&'static str, *const c_void)> {
            vec![$((stringify!($name), cust::sys::$name as *const c_void),)*]
        }
    };
}

include!("../src/other_symbols.rs");

#[test]
fn every_symbol_resolves_to_ours() {
    let ours: Vec<_> = entry_points().map(|entry| (entry.name, entry.address)).collect();
    let theirs = [typed(), others()].concat();
    assert_eq!(ours, theirs);
}

#[test]
fn names_and_functions_are_unique() {
    let names: HashSet<_> = entry_points().map(|entry| entry.name).collect();
    assert_eq!(names.len(), entry_points().count());
    let functions: HashSet<_> = entry_points().map(|entry| entry.address).collect();
    assert_eq!(functions.len(), entry_points().count());
}

#[test]
fn whatever_cust_raw_declares_is_defined() {
    let source = fs::read_to_string(cust_raw_source()).unwrap();
    let declared: HashSet<_> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub fn cu"))
        .filter_map(|rest| rest.split('(').next())
        .map(|rest| format!("cu{rest}"))
        .collect();
    assert!(declared.len() > 300, "{}", declared.len());
    let defined: HashSet<_> = entry_points().map(|entry| entry.name.to_owned()).collect();
    let missing: Vec<_> = declared.difference(&defined).collect();
    let extra: Vec<_> =
        others().into_iter().map(|(name, _)| name).filter(|name| !declared.contains(*name)).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "add to src/other_symbols.rs: {missing:?}; remove from it: {extra:?}"
    );
}

/// The codes that cust's enum of results has, as its source lists them.
#[test]
fn a_code_is_replaced_where_the_enum_of_cust_lacks_it() {
    let source = fs::read_to_string(cust_raw_source()).unwrap();
    let (_, list) = source.split_once("pub enum cudaError_enum {").unwrap();
    let (list, _) = list.split_once('}').unwrap();
    let variants: HashSet<c_int> = list
        .lines()
        .filter_map(|line| line.trim().trim_end_matches(',').split_once(" = "))
        .map(|(_, number)| number.parse().unwrap())
        .collect();
    assert!(variants.len() > 80 && variants.contains(&911), "{variants:?}");
    let driver = recorder::driver();
    driver.bind_symbols().unwrap();
    for code in (0..1100).chain([4242, -1, c_int::MIN]) {
        recorder::answer(code, None);
        // SAFETY: the recorder takes a number.
        let seen = unsafe { foreign::cuInit(0) };
        let expected = if variants.contains(&code) { code } else { CUDA_ERROR_UNKNOWN };
        assert_eq!(seen, expected, "for {code}");
    }
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
