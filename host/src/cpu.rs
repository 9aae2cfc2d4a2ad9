//! The CPU baselines: the same reductions by one thread and by several.

use rayon::prelude::*;

use crate::{Data, Dtype, Error, Op, Result, Scalar, Value, catalogue::Variant, visible};

#[derive(Debug)]
pub struct CpuReduction {
    variant: &'static Variant,
    op: Op,
    /// `None` for the serial baseline.
    pool: Option<rayon::ThreadPool>,
}

pub const MAX_THREADS: usize = 1024;

impl CpuReduction {
    /// Creates a reduction by the calling thread or, if `parallel`, by `threads` threads. The default is
    /// one thread per processor that the program may use.
    pub fn new(
        variant: &'static Variant,
        op: Op,
        parallel: bool,
        threads: Option<usize>,
    ) -> Result<Self> {
        let most = if parallel { MAX_THREADS } else { 1 };
        if let Some(given) = threads.filter(|given| !(1..=most).contains(given)) {
            return Err(Error::BadThreads { variant: variant.id, given, most });
        }
        let refused = |error: rayon::ThreadPoolBuildError| Error::Threads(error.to_string());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0));
        let pool = parallel.then(|| pool.build().map_err(refused)).transpose()?;
        Ok(Self { variant, op, pool })
    }

    pub fn variant(&self) -> &'static Variant {
        self.variant
    }

    pub fn op(&self) -> Op {
        self.op
    }

    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Returns an upper bound on the roundings that affect an element of `n`: one for its square, and
    /// one for each addition of a sum that contains the element.
    pub fn depth(&self, n: u64) -> u64 {
        let threads = self.threads() as u64;
        let (share, piece) = (n.div_ceil(threads), PIECE as u64);
        1 + share.min(piece) + share.div_ceil(piece) + if self.pool.is_some() { threads } else { 0 }
    }

    pub fn run(&self, data: &Data) -> Result<Value> {
        self.variant.require(self.op, data.dtype())?;
        if data.is_empty() && !self.op.has_empty_value() {
            return Err(Error::NoValue { statistic: self.op.into() });
        }
        Ok(match data {
            Data::I32(values) => self.reduce(values).value(),
            Data::U32(values) => self.reduce(values).value(),
            Data::I64(values) => self.reduce(values).value(),
            Data::U64(values) => self.reduce(values).value(),
            Data::F32(values) => self.reduce(values).value(),
            Data::F64(values) => self.reduce(values).value(),
            _ => unreachable!("no variant has them: checked"),
        })
    }

    fn reduce<T: Arithmetic>(&self, values: &[T]) -> T {
        // ladder: chunks
        let Some(pool) = &self.pool else { return reduce(self.op, values) };
        let share = values.len().div_ceil(pool.current_num_threads()).max(1);
        let chunks = values.par_chunks(share);
        let partials: Vec<T> = pool.install(|| chunks.map(|chunk| reduce(self.op, chunk)).collect());
        reduce(self.op.fold(), &partials)
        // ladder: end
    }
}

/// Arithmetic as in the kernels: integers wrap around, and NaN propagates.
trait Arithmetic: Scalar {
    fn add(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Arithmetic for $ty {
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn multiply(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn least(self, other: Self) -> Self {
                self.min(other)
            }
            fn greatest(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )*};
}

macro_rules! floats {
    ($($ty:ty)*) => {$(
        impl Arithmetic for $ty {
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn multiply(self, other: Self) -> Self {
                self * other
            }
            fn least(self, other: Self) -> Self {
                if self.is_nan() || other.is_nan() {
                    return Self::NAN;
                }
                // A total order: -0 is less than +0.
                std::cmp::min_by(self, other, Self::total_cmp)
            }
            fn greatest(self, other: Self) -> Self {
                if self.is_nan() || other.is_nan() {
                    return Self::NAN;
                }
                std::cmp::max_by(self, other, Self::total_cmp)
            }
        }
    )*};
}

integers! { i32 u32 i64 u64 }
floats! { f32 f64 }

/// Elements per partial sum. As a single running f32 sum grows, it rounds small elements away: from 2^24
/// on, adding 1 changes nothing.
const PIECE: usize = 1 << 16;

fn reduce<T: Arithmetic>(op: Op, values: &[T]) -> T {
    let fold = |identity, combine: fn(T, T) -> T| values.iter().copied().fold(identity, combine);
    // ladder: order
    let sum = |term: fn(T) -> T| {
        let piece = |piece: &[T]| piece.iter().fold(T::zeroed(), |sum, &x| sum.add(term(x)));
        values.chunks(PIECE).map(piece).fold(T::zeroed(), T::add)
    };
    // ladder: end
    match op {
        Op::Sum => sum(|x| x),
        Op::SumOfSquares => sum(|x| x.multiply(x)),
        Op::Min => fold(T::LARGEST, T::least),
        Op::Max => fold(T::SMALLEST, T::greatest),
        Op::ArgMin | Op::ArgMax => unreachable!("no variant has them: checked"),
    }
}

/// Combines two partial results, which must have the same type, on the host.
pub(crate) fn combine(op: Op, a: Value, b: Value) -> Value {
    fn of<T: Arithmetic>(op: Op, a: T, b: T) -> Value {
        reduce(op.fold(), &[a, b]).value()
    }
    match (a, b) {
        (Value::I32(a), Value::I32(b)) => of(op, a, b),
        (Value::U32(a), Value::U32(b)) => of(op, a, b),
        (Value::I64(a), Value::I64(b)) => of(op, a, b),
        (Value::U64(a), Value::U64(b)) => of(op, a, b),
        (Value::F32(a), Value::F32(b)) => of(op, a, b),
        (Value::F64(a), Value::F64(b)) => of(op, a, b),
        _ => panic!("{a:?} and {b:?} are not partial results of one reduction"),
    }
}

/// Returns the processor's name, or "CPU" if the system does not report it.
pub fn processor_name() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = told.lines().find_map(|line| line.strip_prefix("model name"));
    visible(name.map_or("CPU", |rest| rest.trim_start_matches([' ', '\t', ':']))).into_owned()
}

/// Returns the memory available to this process if it is less than `bytes`. Small requests are not
/// checked, because the query takes a quarter of a millisecond and no process is that short of memory.
pub fn memory_short_of(bytes: u64) -> Option<u64> {
    const SMALL: u64 = 1 << 20;
    (bytes >= SMALL).then(warpfold_sim_driver::host_room).filter(|left| *left < bytes)
}

/// Refuses an allocation that exceeds the memory available to this process. Accepts any size if the
/// system does not report it.
pub fn require_memory(needed: u64) -> Result<()> {
    match memory_short_of(needed) {
        Some(free) => Err(Error::OutOfMemory { device: processor_name(), needed, free }),
        None => Ok(()),
    }
}

/// Returns whether the CPU baselines support an element type.
pub fn has(dtype: Dtype) -> bool {
    // Smaller types are not supported, because their sums have a wider type than their elements.
    dtype.size() >= size_of::<u32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{catalogue, reference::Expected};

    fn baseline(id: &str, op: Op, threads: Option<usize>) -> Result<CpuReduction> {
        CpuReduction::new(catalogue::find(id).unwrap(), op, id == "cpu_parallel", threads)
    }

    #[test]
    fn both_baselines_are_right_for_every_type_and_number_of_threads() {
        for &dtype in Dtype::ALL.iter().filter(|&&dtype| has(dtype)) {
            for n in [1, 2, 7, 1000, 100_003] {
                for &op in catalogue::find("cpu_serial").unwrap().ops {
                    let mut data = Data::drawn(op, dtype, n, 9);
                    let expected = Expected::mark(op, &mut data, n).unwrap();
                    let serial = baseline("cpu_serial", op, None).unwrap();
                    let parallel = [1, 2, 3, 16].map(|c| baseline("cpu_parallel", op, Some(c)).unwrap());
                    for cpu in parallel.iter().chain([&serial]) {
                        let check = expected.judge(cpu.run(&data).unwrap(), cpu.depth(n as u64));
                        assert!(check.unwrap().ok, "{op} of {n} {dtype} by {} threads", cpu.threads());
                    }
                }
            }
        }
    }

    /// A single running sum would end at 2^24 instead of 2^25.
    #[test]
    fn long_sums_do_not_absorb_elements() {
        let n = 1 << 25;
        let mut data = Data::drawn(Op::Sum, Dtype::F32, n, 1);
        let expected = Expected::mark(Op::Sum, &mut data, n).unwrap();
        let serial = baseline("cpu_serial", Op::Sum, None).unwrap();
        let check = expected.judge(serial.run(&data).unwrap(), serial.depth(n as u64)).unwrap();
        assert!(check.ok, "{check:?}");
    }

    #[test]
    fn cpu_matches_gpu_on_empty_nan_and_signed_zero() {
        let run = |op, values: Vec<f32>| {
            baseline("cpu_parallel", op, Some(3)).unwrap().run(&Data::F32(values))
        };
        assert_eq!(run(Op::Sum, vec![]).unwrap(), Value::F32(0.0));
        assert!(matches!(run(Op::Min, vec![]), Err(Error::NoValue { .. })));
        for zeros in [vec![0.0, -0.0], vec![-0.0, 0.0]] {
            for (op, zero) in [(Op::Min, -0.0_f32), (Op::Max, 0.0)] {
                let Value::F32(value) = run(op, zeros.clone()).unwrap() else { unreachable!("f32 in") };
                assert_eq!(value.to_bits(), zero.to_bits(), "{op} of {zeros:?}");
            }
        }
        for position in 0..4 {
            let mut values = vec![1.0; 4];
            values[position] = f32::NAN;
            for op in [Op::Min, Op::Max] {
                assert!(run(op, values.clone()).unwrap().to_f64().is_nan(), "{op} {position}");
            }
        }
    }

    #[test]
    fn unsupported_types_and_operations_are_refused() {
        let refused = |op, data: &Data| baseline("cpu_serial", op, None).unwrap().run(data).unwrap_err();
        for &dtype in Dtype::ALL.iter().filter(|&&dtype| !has(dtype)) {
            let error = refused(Op::Sum, &Data::random(dtype, 3, 1));
            assert!(matches!(error, Error::UnsupportedDtype { .. }), "{dtype}: {error}");
        }
        let error = refused(Op::ArgMin, &Data::F32(vec![1.0]));
        assert!(matches!(error, Error::UnsupportedOp { op: Op::ArgMin, .. }), "{error}");
    }

    #[test]
    fn invalid_thread_counts_are_refused() {
        for (id, threads) in [("cpu_parallel", 0), ("cpu_parallel", 5000), ("cpu_serial", 2)] {
            let message = baseline(id, Op::Sum, Some(threads)).unwrap_err().to_string();
            assert!(message.contains(&threads.to_string()), "{message}");
        }
    }
}
