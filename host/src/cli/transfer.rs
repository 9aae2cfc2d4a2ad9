use clap::Parser;

use super::{Elements, Program, Setting, parse_count};
use crate::{
    Error, Record,
    catalogue::{Path, Variant, Work},
    transfer::{self, Transfer, TransferRequest},
};

/// Copies host elements to the device and reduces them there; checks and, on a GPU, times it.
#[derive(Parser, Debug)]
#[command(version)]
pub(super) struct Arguments {
    #[command(flatten)]
    elements: Elements,
    /// Elements per chunk, for transfer_overlapped [default: an eighth of all, at least 4 MiB]
    #[arg(long, value_parser = parse_count)]
    chunk: Option<u64>,
    #[command(flatten)]
    setting: Setting,
}

impl Program for Arguments {
    fn json(&self) -> bool {
        self.setting.json
    }

    fn run(&self, variant: &'static Variant) -> anyhow::Result<Vec<Record>> {
        let Work::Transfer { path } = variant.work else {
            anyhow::bail!(Error::NoMovement { variant: variant.id });
        };
        if self.chunk.is_some() && path != Path::Overlapped {
            anyhow::bail!("{} copies in one piece; leave --chunk out", variant.id);
        }
        let file = self.elements.file()?;
        let (dtype, n) = self.elements.extent(variant, file.as_ref());
        let op = self.elements.op.op();
        let request = TransferRequest { variant, path, op, dtype, n, chunk: self.chunk };
        variant.require(op, dtype)?;
        let device = self.setting.device()?;
        device.require_memory(transfer::device_bytes(&request, device.info())?)?;
        let store = self.setting.store()?;
        let (data, expected) = self.elements.make(variant, file, (dtype, n))?;
        let mut transfer = Transfer::new(&device, &store, &request, &data)?;
        let options = self.setting.options();
        let record = Record::of_transfer(&mut transfer, &device, &data, &expected, options)?;
        Ok(vec![record.finish(self.elements.op)])
    }
}
