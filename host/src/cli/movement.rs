//! The command line of the kernels that move elements.

use clap::Parser;

use super::{DEFAULT_N, Program, Setting, parse_count};
use crate::{
    Data, Dtype, Record,
    catalogue::{Access, Variant, Work},
    memory::{self, Movement, Pattern, STRIDES},
    parse_name,
};

/// Runs, checks and, on a GPU, times one variant.
#[derive(Parser, Debug)]
#[command(version)]
pub(super) struct Arguments {
    /// Number of elements that a copy writes; a transpose has the largest square of at most N elements:
    /// 1000, 4Mi, 2^20 [default: 4Mi]
    #[arg(long, value_name = "N", value_parser = parse_count, conflicts_with_all = ["width", "height"])]
    n: Option<u64>,
    /// Elements per row, for transposes
    #[arg(long, value_parser = parse_count, requires = "height")]
    width: Option<u64>,
    /// Number of rows, for transposes
    #[arg(long, value_parser = parse_count, requires = "width")]
    height: Option<u64>,
    /// Distance between the elements read, for copy_strided [default: each power of two from 1 to 64]
    #[arg(long, value_parser = parse_count)]
    stride: Option<u64>,
    /// Type of the elements [default: the variant's first]
    #[arg(long, value_parser = parse_name::<Dtype>)]
    dtype: Option<Dtype>,
    /// Threads per block, for copies: a power of two from 32 to 1024
    #[arg(long, default_value_t = memory::DEFAULT_BLOCK)]
    block: u32,
    /// Seed of the random elements and of the permutation of copy_random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    setting: Setting,
}

impl Program for Arguments {
    fn json(&self) -> bool {
        self.setting.json
    }

    fn run(&self, variant: &'static Variant) -> anyhow::Result<Vec<Record>> {
        let dtype = self.dtype.unwrap_or(variant.dtypes[0]);
        let patterns = self.patterns(variant)?;
        let device = self.setting.device()?;
        for pattern in &patterns {
            let elements = pattern.input_len().saturating_add(pattern.output_len());
            device.require_memory(elements.saturating_mul(dtype.size() as u64))?;
        }
        let store = self.setting.store()?;
        let mut records = Vec::new();
        for pattern in patterns {
            let movement = Movement::new(&device, &store, variant, dtype, pattern, self.block)?;
            let data = Data::random(dtype, pattern.input_len() as usize, self.seed);
            records.push(Record::of_movement(&movement, &data, self.setting.options())?);
        }
        Ok(records)
    }
}

impl Arguments {
    fn patterns(&self, variant: &Variant) -> anyhow::Result<Vec<Pattern>> {
        let strided = variant.work == Work::Copy { access: Access::Strided };
        if self.stride.is_some() && !strided {
            anyhow::bail!("{} has no stride; leave --stride out", variant.id);
        }
        if let (Some(width), Some(height)) = (self.width, self.height) {
            if variant.work != Work::Transpose {
                anyhow::bail!(
                    "{} copies a row; leave --width and --height out, or give --n",
                    variant.id
                );
            }
            return Ok(vec![Pattern::Transpose { width, height }]);
        }
        let n = self.n.unwrap_or(DEFAULT_N);
        let strides = match self.stride {
            Some(stride) => vec![stride],
            None if strided => STRIDES.to_vec(),
            None => vec![1],
        };
        let pattern = |stride| Pattern::of(variant, n, stride, self.seed);
        Ok(strides.into_iter().map(pattern).collect::<Result<_, _>>()?)
    }
}
