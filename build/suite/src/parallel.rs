//! Work on the items of a list by several threads.

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use anyhow::Result;

/// Runs `run` on each item, on as many threads as there are processors. Results are passed to `tell` in
/// the order of the items, up to the first error.
///
/// The threads are not rayon's, whose workers run other tasks while they wait for one.
pub fn in_order<T: Sync, R: Send>(
    items: &[T],
    run: impl Fn(&T) -> Result<R> + Sync,
    mut tell: impl FnMut(&T, R),
) -> Result<()> {
    let (next, (sender, results)) = (AtomicUsize::new(0), mpsc::channel());
    let work = |sender: mpsc::Sender<_>| {
        while let Some((at, item)) = take(&next, items) {
            let result = run(item);
            if result.is_err() {
                // Stops the other threads from starting further items.
                next.store(items.len(), Ordering::Relaxed);
            }
            // The receiver is dropped after an error.
            let _ = sender.send((at, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work(sender));
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut told = 0;
        for (at, result) in results {
            early.insert(at, result);
            while let Some(result) = early.remove(&told) {
                tell(&items[told], result?);
                told += 1;
            }
        }
        Ok(())
    })
}

fn take<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, items.get(at)?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::ensure;

    use super::*;

    #[test]
    fn results_are_reported_in_order_up_to_an_error() {
        let told = |fails: Option<u64>| {
            let mut told = Vec::new();
            let run = |item: &u64| {
                thread::sleep(Duration::from_millis(10 * (item % 3)));
                ensure!(fails != Some(*item), "{item} fails");
                Ok(item + 1)
            };
            let result = in_order(&(0..20).collect::<Vec<_>>(), run, |item, result| {
                assert_eq!(result, item + 1);
                told.push(*item);
            });
            (told, result.map_err(|error| error.to_string()))
        };
        assert_eq!(told(None), ((0..20).collect(), Ok(())));
        assert_eq!(told(Some(7)), ((0..7).collect(), Err("7 fails".to_owned())));
    }
}
