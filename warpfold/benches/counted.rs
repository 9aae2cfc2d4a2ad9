//! The cost of a count in device memory: sums of f32 whose number of elements is in device memory,
//! alternating with sums of buffers of that length, on a GPU.
//!
//! `counted [elements ...]`. Prints a line of JSON per number of elements: microseconds per reduction in
//! a sequence of enqueued reductions, with the result left in device memory, as the median of the rounds
//! with the minimum and maximum; and the median of the rounds' ratios. Inputs rotate, so that none is in
//! the L2 cache. Times are from the host's clock; below a few microseconds they are those of the calls.

use std::{env, error::Error, time::Instant};

use warpfold::{Buffer, Count, Device, Output, Reducer, Selection, Stream, op};

/// Total bytes of the rotated inputs: more than twice the L2 cache of any GPU.
const ROTATED: usize = 256 << 20;
const ROUNDS: usize = 15;
const ROUND_BYTES: usize = 8 << 30;

struct Contest {
    reducer: Reducer,
    stream: Stream,
    inputs: Vec<Buffer<f32>>,
    count: Count<'static>,
    output: Output<f32>,
    runs: usize,
}

impl Contest {
    fn new(device: &Device, n: usize) -> warpfold::Result<Self> {
        let inputs = (ROTATED / (4 * n)).clamp(2, 64);
        let kept = device.upload(&[n as u64])?;
        Ok(Self {
            reducer: Reducer::new(device)?,
            stream: device.stream()?,
            inputs: (0..inputs).map(|_| device.upload(&vec![1.0; n])).collect::<Result<_, _>>()?,
            // SAFETY: the count is the element of the buffer, which is passed as owner and never
            // written.
            count: unsafe { Count::from_raw_u64(device, kept.as_device_ptr(), kept.clone())? },
            output: device.output()?,
            runs: (ROUND_BYTES / (4 * n)).clamp(16, 2000),
        })
    }

    /// Returns the microseconds per reduction.
    fn round(&mut self, counted: bool) -> warpfold::Result<f64> {
        let on = self.reducer.on(&self.stream);
        let start = Instant::now();
        for run in 0..self.runs {
            let input = &self.inputs[run % self.inputs.len()];
            match counted {
                true => on.reduce_into(op::Sum, input.counted(&self.count), &mut self.output)?,
                false => on.reduce_into(op::Sum, input, &mut self.output)?,
            }
        }
        self.stream.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / self.runs as f64)
    }

    fn is_right(&self, n: usize) -> warpfold::Result<bool> {
        Ok(self.output.read()? == n as f32)
    }
}

fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let [least, median, most] = [0, values.len() / 2, values.len() - 1].map(|at| values[at]);
    format!("{{\"median\":{median:.4},\"min\":{least:.4},\"max\":{most:.4}}}")
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<usize> = env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
    let sizes = if given.is_empty() { vec![1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28] } else { given };
    let Ok(device) = Device::open(Selection::Cuda) else {
        println!("no GPU: nothing is measured");
        return Ok(());
    };
    for n in sizes {
        let mut contest = Contest::new(&device, n)?;
        let (mut by_host, mut by_device, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let host = contest.round(false)?;
            let device = contest.round(true)?;
            if !contest.is_right(n)? {
                return Err(format!("the sum of {n} ones is wrong").into());
            }
            // The first round loads the kernels.
            if round > 0 {
                by_host.push(host);
                by_device.push(device);
                ratios.push(device / host);
            }
        }
        println!(
            "{{\"device\":\"{}\",\"n\":{n},\"counted_by_host_us\":{},\"counted_on_device_us\":{},\"ratio\":{}}}",
            device.info().name,
            spread(by_host),
            spread(by_device),
            spread(ratios)
        );
    }
    Ok(())
}
