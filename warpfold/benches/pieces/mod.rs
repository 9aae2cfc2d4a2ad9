//! Test data of the benchmarks of segments and keys.

/// Returns an element: its index modulo 4, so that the results of any piece are known.
pub(crate) fn value_at(index: usize) -> f32 {
    (index % 4) as f32
}

fn sum_to(end: usize) -> usize {
    end / 4 * 6 + [0, 0, 1, 3][end % 4]
}

/// Returns whether `sum` is that of the elements in `begin..end`.
pub(crate) fn is_sum(sum: f32, [begin, end]: [usize; 2]) -> bool {
    let expected = (sum_to(end) - sum_to(begin)) as f32;
    (sum - expected).abs() <= expected * 1e-5
}

/// Returns the offsets of `count` pieces with `total` elements in all, including the end of the last
/// piece. Lengths follow Zipf's law (the k-th longest is a k-th of the longest) and are shuffled.
pub(crate) fn zipf(count: usize, total: usize) -> Vec<u32> {
    let harmonic: f64 = (1..=count).map(|rank| 1.0 / rank as f64).sum();
    let longest = total as f64 / harmonic;
    // A step that is coprime to the count visits each rank once.
    let step = (count as f64 * 0.618) as usize | 1;
    let step = (step..).find(|&step| divisor(step, count) == 1).expect("a prime is enough");
    let mut end = 0.0;
    let begins = (0..count).map(|at| {
        let begin = end as u32;
        end += longest / ((at * step) % count + 1) as f64;
        begin
    });
    begins.chain([total as u32]).collect()
}

fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}
