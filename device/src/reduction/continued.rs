//! The `continued` kernel: its elements come behind others, which launches before have reduced.

use warpfold_abi::arguments::{ReduceContinued, ReduceCut};

use super::{Fold, Scratch, Team, combine, finish::finish_by, grid::value, identity};
use crate::{Value, grid::launch_dependents};

/// # Safety
/// As of [`grid`](super::grid()); `carried` is what a launch before this one in the stream has left there,
/// of so many elements as came before, by the same kernel.
#[inline(always)]
pub unsafe fn continued<F: Fold>(arguments: ReduceContinued<F::Element>, scratch: Scratch) {
    launch_dependents();
    let ReduceContinued { input, head, groups, singles, tile, before, carried, slots, output } =
        arguments;
    let (cut, team) = (ReduceCut { input, head, groups, singles, tile, slots, output }, Team::grid());
    // SAFETY: the caller's contract. One thread alone writes what is carried, and the output.
    unsafe {
        let value = value::<F>(cut, team, before);
        finish_by::<F>(value, slots, team, scratch, |value| {
            let earlier = if before == 0 { identity::<F>() } else { load::<F::Partial>(carried) };
            let all = combine::<F>(earlier, value);
            // What an earlier element has decided is there already, and may name that element, which is
            // none of this launch's.
            if replace(all, carried, before == 0) {
                let among_all = ReduceCut { head: before + head, ..cut };
                F::write_apart(all, among_all, |index| index - before);
            }
        });
    }
}

/// # Safety
/// The value's words are readable.
#[inline(always)]
unsafe fn load<P: Value>(words: *const u32) -> P {
    let mut at = 0;
    P::take(&mut || {
        // SAFETY: the caller's contract.
        let word = unsafe { *words.add(at) };
        at += 1;
        word
    })
}

/// Puts a value in the place of another one, and says whether a word of it differs, or whether there was
/// none before.
///
/// # Safety
/// There is room for the value's words, which are readable unless it is the first one.
#[inline(always)]
unsafe fn replace<P: Value>(value: P, words: *mut u32, is_first: bool) -> bool {
    let (mut at, mut changed) = (0, is_first);
    value.give(&mut |word| {
        // SAFETY: the caller's contract.
        unsafe {
            changed = changed || *words.add(at) != word;
            *words.add(at) = word;
        }
        at += 1;
    });
    changed
}
