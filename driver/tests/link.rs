//! Tests of symbol resolution in a program that uses cust, which is the test itself.

mod recorder;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Endianness, elf};
use warpfold_driver::sys::*;
use warpfold_driver::{cust, entry_points, for_each_function};

/// Defines `typed`, which returns the driver functions' addresses as the linker resolves them.
macro_rules! typed {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(per thread $per_thread:ident)?;)*) => {
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

/// Defines `others`, which returns the addresses of the symbols that cust declares and `typed` lacks.
/// The array refers to each symbol, so that the linker must resolve it.
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
fn every_cust_raw_function_is_defined() {
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

#[test]
fn code_without_a_cust_variant_is_replaced() {
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
        // SAFETY: `cuInit` takes only a number.
        let seen = unsafe { foreign::cuInit(0) };
        let expected = if variants.contains(&code) { code } else { CUDA_ERROR_UNKNOWN };
        assert_eq!(seen, expected, "for {code}");
    }
}

/// Returns the path of cust's bindings, read from rustc's dependency file next to this test.
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
