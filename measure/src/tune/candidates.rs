//! The candidates at a size: the launches that may be the fastest, and the generic one.

use warpfold_suite::{
    DeviceInfo,
    reducer::{
        Choice,
        tuning::{Blocks, KernelKind},
    },
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Size of a thread's vector load, in bytes.
const GROUP: u64 = 16;
/// Smallest size at which grids of one or more blocks per multiprocessor are tried. Smaller sizes give
/// such grids too little work.
const PER_MULTIPROCESSOR: u64 = 512 * KIB;
/// Largest size at which a few blocks are tried.
const FEW: u64 = 4 * MIB;
/// Smallest size at which the memory is always busy. From there on, only launches with enough loads in
/// flight are tried.
pub(super) const LARGE: u64 = 64 * MIB;

/// Limits on the vectors per thread of a small grid. With fewer, most threads are idle; with more, a
/// larger grid could be faster.
const FEWEST_GROUPS: f64 = 0.25;
const MOST_GROUPS: f64 = 8.0;

/// Returns the measured sizes in bytes: doubled up to 64 MiB, where the choice changes often, and
/// quadrupled beyond.
pub(super) fn sizes() -> Vec<u64> {
    let doubling = std::iter::successors(Some(4 * KIB), |size| Some(size * 2));
    doubling.take_while(|size| *size <= LARGE).chain([256 * MIB, GIB, 4 * GIB, 16 * GIB]).collect()
}

pub(super) fn candidates(bytes: u64, info: &DeviceInfo) -> Vec<Choice> {
    let mut found = Vec::new();
    if bytes <= FEW {
        found.extend(few_blocks(bytes));
    }
    if bytes >= PER_MULTIPROCESSOR {
        found.extend(many_blocks(bytes, info));
    }
    if bytes >= LARGE && info.arch >= KernelKind::Bulk.min_arch() {
        found.extend(KernelKind::Bulk.block_sizes().iter().map(|&block| Choice {
            kernel: KernelKind::Bulk,
            block,
            blocks: Blocks::PerMultiprocessor(2),
        }));
    }
    let generic = Choice::generic(bytes, info.arch);
    if !found.contains(&generic) {
        found.push(generic);
    }
    found
}

fn few_blocks(bytes: u64) -> impl Iterator<Item = Choice> {
    let counts = [1, 2, 4, 8, 16, 32, 64];
    let all = counts.into_iter().flat_map(|blocks| grids(move |_| Some(Blocks::Total(blocks))));
    all.filter(move |choice| {
        let Blocks::Total(blocks) = choice.blocks else { return false };
        (FEWEST_GROUPS..=MOST_GROUPS).contains(&groups_per_thread(bytes, blocks, choice.block))
    })
}

/// Returns grids of half a block to eight blocks per multiprocessor, limited to resident blocks.
fn many_blocks(bytes: u64, info: &DeviceInfo) -> impl Iterator<Item = Choice> {
    let (multiprocessors, threads) = (info.multiprocessors, info.threads_per_multiprocessor);
    let large = bytes >= LARGE;
    let half = grids(move |_| (!large).then_some(Blocks::Total((multiprocessors / 2).max(1))));
    let whole = [1, 2, 3, 4, 8].into_iter().flat_map(move |count| {
        grids(move |block| {
            let resident = count * block <= threads && (count < 8 || block == 256);
            let busy = !large || count * block >= 512;
            (resident && busy).then_some(Blocks::PerMultiprocessor(count))
        })
    });
    half.chain(whole).filter(move |choice| {
        let blocks = match choice.blocks {
            Blocks::Total(blocks) => blocks,
            Blocks::PerMultiprocessor(blocks) => blocks * multiprocessors,
        };
        groups_per_thread(bytes, blocks, choice.block) >= FEWEST_GROUPS
    })
}

fn grids(blocks: impl Fn(u32) -> Option<Blocks>) -> impl Iterator<Item = Choice> {
    KernelKind::Grid.block_sizes().iter().filter_map(move |&block| {
        Some(Choice { kernel: KernelKind::Grid, block, blocks: blocks(block)? })
    })
}

fn groups_per_thread(bytes: u64, blocks: u32, block: u32) -> f64 {
    (bytes / GROUP) as f64 / f64::from(blocks) / f64::from(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpfold_suite::{Arch, Device, Kind, Selection};

    fn h200() -> DeviceInfo {
        let simulator = Device::open(Selection::Sim).unwrap();
        DeviceInfo {
            kind: Kind::Cuda,
            arch: Arch::new(9, 0),
            multiprocessors: 132,
            threads_per_multiprocessor: 2048,
            ..simulator.info().clone()
        }
    }

    fn grid(block: u32, blocks: Blocks) -> Choice {
        Choice { kernel: KernelKind::Grid, block, blocks }
    }

    #[test]
    fn sizes_are_from_4_kib_to_16_gib() {
        let sizes = sizes();
        assert_eq!((sizes.len(), sizes[0], sizes[14], sizes[15]), (19, 4 * KIB, 64 * MIB, 256 * MIB));
        assert_eq!(sizes.last(), Some(&(16 * GIB)));
    }

    #[test]
    fn candidates_suit_the_size_and_include_the_generic() {
        let info = h200();
        for bytes in sizes() {
            let found = candidates(bytes, &info);
            assert!((8..=32).contains(&found.len()), "{} at {bytes}", found.len());
            assert!(found.contains(&Choice::generic(bytes, info.arch)), "{bytes}");
            let twice = (0..found.len()).find(|&at| found[..at].contains(&found[at]));
            assert_eq!(twice, None, "{bytes}");
            let bulk = found.iter().filter(|choice| choice.kernel == KernelKind::Bulk).count();
            assert_eq!(bulk, if bytes >= LARGE { 2 } else { 0 }, "{bytes}");
        }
        let small = candidates(4 * KIB, &info);
        assert!(
            small.contains(&grid(512, Blocks::Total(1))) && small.contains(&grid(128, Blocks::Total(4)))
        );
        assert!(!small.iter().any(|choice| matches!(choice.blocks, Blocks::PerMultiprocessor(_))));
        let middle = candidates(MIB, &info);
        for wanted in [Blocks::Total(64), Blocks::Total(66), Blocks::PerMultiprocessor(2)] {
            assert!(middle.contains(&grid(256, wanted)), "{wanted:?}");
        }
        let large = candidates(GIB, &info);
        assert!(large.contains(&grid(256, Blocks::PerMultiprocessor(8))));
        assert!(large.contains(&grid(512, Blocks::PerMultiprocessor(4))));
        assert!(!large.iter().any(|choice| matches!(choice.blocks, Blocks::Total(_))));
    }

    #[test]
    fn an_older_gpu_has_no_bulk_kernel() {
        let info = DeviceInfo { arch: Arch::new(8, 0), ..h200() };
        let found = candidates(4 * GIB, &info);
        assert!(found.iter().all(|choice| choice.kernel == KernelKind::Grid));
    }
}
