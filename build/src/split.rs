//! Splits the compiler's PTX file by variant, so that the driver compiles only the variant that is
//! loaded.

use std::collections::{HashMap, HashSet};

use warpfold_ptx::syntax::{self, Item, Kind};

/// The part of a PTX file that belongs to one variant.
#[derive(Debug)]
pub struct Part<'a> {
    /// The id of the variant.
    pub variant: &'a str,
    /// Its entries, in the compiler's order.
    pub entries: Vec<String>,
    /// Its PTX: directives, entries, and what these refer to.
    pub ptx: String,
}

/// Splits a PTX file by the prefix of its entries, `<id>_`. Ids without an entry have no part.
///
/// # Errors
/// Returns a line for each entry that belongs to no id, or one for PTX whose structure cannot be read.
pub fn split<'a>(source: &str, ids: &[&'a str]) -> Result<Vec<Part<'a>>, Vec<String>> {
    let items = syntax::items(source).map_err(|malformed| vec![malformed.to_string()])?;
    let mut entries: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut strangers = Vec::new();
    for (at, item) in items.iter().enumerate() {
        if !matches!(item.kind, Kind::Function { entry: true, .. }) {
            continue;
        }
        let name = item.names.first().copied().unwrap_or_default();
        match owner(name, ids) {
            Some(id) => entries.entry(id).or_default().push(at),
            None => strangers.push(format!(
                "entry {name} belongs to no variant: its name must begin with an id of the catalogue and _"
            )),
        }
    }
    if !strangers.is_empty() {
        return Err(strangers);
    }

    let definitions = definitions(&items);
    let part = |id: &&'a str| {
        let entries = entries.get(id)?;
        let name = |at: &usize| items[*at].names[0].to_owned();
        Some(Part {
            variant: id,
            entries: entries.iter().map(name).collect(),
            ptx: part(&items, &definitions, entries),
        })
    };
    Ok(ids.iter().filter_map(part).collect())
}

/// Returns the PTX with every entry bound to clusters of `blocks` blocks. Rust has no attribute for
/// this, and without the directive ptxas generates code for launches without clusters as well.
pub fn in_clusters(ptx: &str, blocks: u32) -> String {
    let mut text = String::with_capacity(ptx.len());
    let mut in_head = false;
    for line in ptx.lines() {
        in_head |= line.starts_with(".visible .entry ");
        if in_head && line.starts_with('{') {
            text.push_str(&format!(".explicitcluster\n.reqnctapercluster {blocks}, 1, 1\n"));
            in_head = false;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Returns the PTX with every external shared array open-ended. cuda_std declares the launch's shared
/// memory as an array of 16 bytes. ptxas then ignores `.extern` and allocates 16 bytes, and the launch's
/// memory overlaps the static arrays after them.
pub fn with_dynamic_shared(ptx: &str) -> String {
    let line = |line: &str| {
        let sized = line.trim_start().starts_with(".extern .shared ") && line.ends_with("];");
        match line.rsplit_once('[').filter(|_| sized) {
            Some((declaration, _)) => format!("{declaration}[];\n"),
            None => format!("{line}\n"),
        }
    };
    ptx.lines().map(line).collect()
}

/// Returns the longest id that is a prefix of the entry's name: `tree_fast_sum_f32` belongs to
/// `tree_fast`, not to `tree`.
fn owner<'a>(entry: &str, ids: &[&'a str]) -> Option<&'a str> {
    let begins = |id: &&&str| entry.strip_prefix(**id).is_some_and(|rest| rest.starts_with('_'));
    ids.iter().filter(begins).max_by_key(|id| id.len()).copied()
}

/// Returns the items that define or declare each name.
fn definitions<'a>(items: &[Item<'a>]) -> HashMap<&'a str, Vec<usize>> {
    let mut definitions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        for name in &item.names {
            definitions.entry(name).or_default().push(at);
        }
    }
    definitions
}

/// Returns the text of these entries and of all items that they refer to.
fn part(items: &[Item<'_>], definitions: &HashMap<&str, Vec<usize>>, entries: &[usize]) -> String {
    let needed = reachable(items, definitions, entries);
    let files: HashSet<u32> = needed
        .iter()
        .flat_map(|at| items[*at].statements())
        .flat_map(|statement| syntax::location_files(&statement).collect::<Vec<_>>())
        .collect();
    let mut text = String::new();
    for (at, item) in items.iter().enumerate() {
        let (kept, space) = match item.kind {
            Kind::Directive => (true, ""),
            Kind::File(number) => (files.contains(&number), ""),
            Kind::Variable => (needed.contains(&at), ""),
            Kind::Function { .. } | Kind::Section => (needed.contains(&at), "\n"),
        };
        if kept {
            text.push_str(space);
            text.push_str(item.text);
            text.push('\n');
            text.push_str(space);
        }
    }
    text
}

/// Returns these items and those that they refer to, directly or through others.
fn reachable(
    items: &[Item<'_>],
    definitions: &HashMap<&str, Vec<usize>>,
    from: &[usize],
) -> HashSet<usize> {
    let mut found: HashSet<usize> = from.iter().copied().collect();
    let mut pending = from.to_vec();
    while let Some(at) = pending.pop() {
        let names = items[at].tokens.iter().filter_map(|token| definitions.get(token.text));
        for &other in names.flatten() {
            // Another entry is never called; a name that they share is a label or parameter.
            let entry = matches!(items[other].kind, Kind::Function { entry: true, .. });
            if !entry && found.insert(other) {
                pending.push(other);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"//
// Generated by a compiler
//
.version 7.8
.target sm_90
.address_size 64

.extern .shared .align 16 .b8 dynamic[];
.shared .align 16 .b8 flag[4];
.const .align 4 .b8 table[4] = {1, 2, 3, 4};
.global .align 8 .u64 pointer = table;

	// .globl	handler
.visible .func handler(
	.param .b64 p
)
.noreturn
{
$L:
	.loc	1 24 5
	bra.uni 	$L;
}
.func (.param .b32 r) helper()
{
	.loc	4 2 3
	mov.u64 %rd1, pointer;
	ret;
}
	// .globl	tree_sum_f32
.visible .entry tree_sum_f32(
	.param .u64 p
)
{
	.loc	2 24 0
	mov.u32 %r4, dynamic;
	call.uni (r), helper, ();
	ret;

}
.visible .entry tree_fast_sum_f32()
{
	.loc	3 1 1, function_name $L__info_string0, inlined_at 5 7 3
	mov.u32 %r4, flag;
	ret;
}
	.section	.debug_macinfo	{	}
	.section	.debug_str
	{
$L__info_string0:
.b8 95
	}
	.file	1 "a.rs"
	.file	2 "b.rs"
	.file	3 "c.rs"
	.file	4 "d.rs"
	.file	5 "e.rs"
"#;

    #[test]
    fn each_part_has_what_its_entries_reach_and_nothing_else() {
        let parts = split(SOURCE, &["tree", "tree_fast", "unused"]).unwrap();
        assert_eq!(parts.len(), 2);
        let (tree, fast) = (&parts[0].ptx, &parts[1].ptx);
        assert_eq!(parts[0].entries, ["tree_sum_f32"]);
        assert_eq!(parts[1].entries, ["tree_fast_sum_f32"]);
        for (text, has, lacks) in [
            (
                tree,
                &[
                    "dynamic[]",
                    "table[4] = {1, 2, 3, 4};",
                    "pointer",
                    "helper()",
                    "b.rs",
                    "d.rs",
                    ".file\t2",
                ][..],
                &["flag", "handler", "tree_fast", "a.rs", "c.rs", "debug_str", "debug_macinfo", "globl"]
                    [..],
            ),
            (
                fast,
                &["flag[4]", "c.rs", "e.rs", "$L__info_string0:\n.b8 95"][..],
                &["dynamic", "table", "helper", "tree_sum", "a.rs", "debug_macinfo"][..],
            ),
        ] {
            assert!(text.starts_with(".version 7.8\n.target sm_90\n.address_size 64\n"), "{text}");
            for word in has {
                assert!(text.contains(word), "{word} is missing in\n{text}");
            }
            for word in lacks {
                assert!(!text.contains(word), "{word} is left in\n{text}");
            }
        }
        assert!(tree.contains("\n.visible .entry tree_sum_f32(\n\t.param .u64 p\n)\n{\n"));
    }

    #[test]
    fn a_part_splits_into_itself() {
        let once = split(SOURCE, &["tree", "tree_fast"]).unwrap();
        for part in &once {
            let again = split(&part.ptx, &[part.variant]).unwrap();
            assert_eq!(again[0].ptx, part.ptx);
        }
    }

    #[test]
    fn clusters_are_a_directive_of_each_entry_and_of_nothing_else() {
        let part = &split(SOURCE, &["tree", "tree_fast"]).unwrap()[0];
        let bound = in_clusters(&part.ptx, 8);
        let directive = ".explicitcluster\n.reqnctapercluster 8, 1, 1\n";
        assert!(bound.contains(&format!("\t.param .u64 p\n)\n{directive}{{\n")), "{bound}");
        assert_eq!(bound.replace(directive, ""), part.ptx);
        assert_eq!(bound.matches(directive).count(), part.entries.len());
    }

    #[test]
    fn an_external_shared_array_loses_its_size_and_nothing_else_changes() {
        let sized = ".extern .shared .align 16 .b8 _Zcuda_std_dyn_shared[16];";
        let ptx = SOURCE.replace(".extern .shared .align 16 .b8 dynamic[];", sized);
        assert!(ptx.contains(sized));
        let open = with_dynamic_shared(&ptx);
        assert_eq!(open.replace("_Zcuda_std_dyn_shared", "dynamic"), SOURCE);
    }

    #[test]
    fn an_entry_of_no_variant_is_named() {
        let problems = split(SOURCE, &["tree_fast"]).unwrap_err();
        assert_eq!(
            problems,
            [
                "entry tree_sum_f32 belongs to no variant: its name must begin with an id of the catalogue and _"
            ]
        );
        // The prefix is the whole id: `tree_` begins `tree_sum_f32`, `tre` does not.
        assert!(split(SOURCE, &["tre", "tree_fast"]).is_err());
    }
}
