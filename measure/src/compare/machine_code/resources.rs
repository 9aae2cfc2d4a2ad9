//! Parses the resources of a launch from the output of `ptxas -v`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

/// Resources of an entry's launch, without dynamic shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Resources {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of static shared memory per block.
    pub static_shared_bytes: u32,
    /// Bytes of a thread's stack, including the functions that the entry calls.
    pub stack_bytes: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
    /// Numbered barriers per block.
    pub barriers: u32,
}

impl Resources {
    /// Returns the registers allocated per thread, which determine occupancy: a multiple of 8.
    pub fn allocated_registers(&self) -> u32 {
        self.registers.next_multiple_of(8)
    }
}

pub(super) fn entries(said: &str) -> Result<BTreeMap<String, Resources>> {
    let mut entries: BTreeMap<String, Resources> = BTreeMap::new();
    // The current entry, and the current function: the entry itself or one that it calls.
    let (mut entry, mut function) = (None, "");
    for line in said.lines() {
        let told = line.strip_prefix("ptxas info").and_then(|rest| rest.split_once(": "));
        let line = told.map_or(line, |(_, told)| told).trim();
        if let Some(rest) = line.strip_prefix("Compiling entry function '") {
            let (name, _) = rest.split_once('\'').with_context(|| unclear(line))?;
            entry = Some(name);
            entries.insert(name.to_owned(), Resources::default());
        } else if let Some(name) = line.strip_prefix("Function properties for ") {
            function = name;
        } else if let Some(name) = entry
            && let Some(resources) = entries.get_mut(name)
            && (line.starts_with("Used ") || line.contains(" bytes stack frame") && function == name)
        {
            resources.add(line)?;
        }
    }
    if let Some((name, _)) = entries.iter().find(|(_, resources)| resources.registers == 0) {
        bail!("ptxas reports no registers of {name}");
    }
    ensure!(!entries.is_empty(), "ptxas reports no entry");
    Ok(entries)
}

impl Resources {
    /// Parses a line of `<number> <what>` parts. Unknown parts are ignored.
    fn add(&mut self, line: &str) -> Result<()> {
        for part in line.split(", ") {
            let part = part.trim_start_matches("Used ").trim_start_matches("used ");
            let (number, what) = part.split_once(' ').with_context(|| unclear(line))?;
            let number = number.parse().with_context(|| unclear(line))?;
            match what {
                "registers" => self.registers = number,
                "barriers" => self.barriers = number,
                "bytes smem" => self.static_shared_bytes = number,
                "bytes stack frame" | "bytes cumulative stack size" => {
                    self.stack_bytes = self.stack_bytes.max(number);
                }
                "bytes spill stores" => self.spill_store_bytes = number,
                "bytes spill loads" => self.spill_load_bytes = number,
                _ => {}
            }
        }
        Ok(())
    }
}

fn unclear(line: &str) -> String {
    format!("ptxas printed {line:?}, which cannot be parsed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_called_functions_are_not_the_entrys() {
        let said = "\
ptxas info    : 0 bytes gmem
ptxas warning : Stack size for entry function 'f' cannot be statically determined
ptxas info    : Compiling entry function 'f' for 'sm_90'
ptxas info    : Function properties for f
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 72 registers, used 2 barriers, 256 bytes cumulative stack size, 512 bytes smem, 560 bytes cmem[0]
ptxas info    : Compile time = 24.389 ms
ptxas info    : Function properties for callee
    999 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads
ptxas info    : Compiling entry function 'g' for 'sm_90'
ptxas info    : Function properties for g
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
";
        let entries = entries(said).unwrap();
        let f = Resources {
            registers: 72,
            static_shared_bytes: 512,
            stack_bytes: 256,
            spill_store_bytes: 4,
            spill_load_bytes: 8,
            barriers: 2,
        };
        assert_eq!(entries["f"], f);
        assert_eq!(entries["g"], Resources { registers: 8, ..Resources::default() });
        assert_eq!(entries.len(), 2);
        let allocated = |registers| Resources { registers, ..f }.allocated_registers();
        assert_eq!([1, 8, 9, 255].map(allocated), [8, 8, 16, 256]);
    }

    #[test]
    fn unknown_ptxas_output_is_an_error() {
        let entry = "ptxas info    : Compiling entry function 'f' for 'sm_90'\n";
        for (rest, message) in [
            ("", "ptxas reports no registers of f"),
            (
                "ptxas info    : Used many registers\n",
                "ptxas printed \"Used many registers\", which cannot be parsed",
            ),
        ] {
            assert_eq!(entries(&format!("{entry}{rest}")).unwrap_err().to_string(), message);
        }
        assert_eq!(entries("").unwrap_err().to_string(), "ptxas reports no entry");
    }
}
