//! Transfers: host elements that are copied to the device and reduced there, at once or in chunks whose
//! copies overlap with the reductions of earlier chunks.

use std::ops::Range;

use crate::{
    Data, Device, DeviceInfo, Dtype, Error, Op, Plan, PtxStore, Reduction, Request, Result, Stream,
    Value, Workspace, catalogue,
    catalogue::{Path, Variant},
    cpu,
    device::{Allocation, HostMemory, Launched},
    plan,
    reduction::Outcome,
};

/// The reduction kernel of the transfers: the fastest one without special hardware requirements. Its
/// output needs no initial value, so that the result may be at any address.
pub const KERNEL: &str = "vectorized";

/// The default number of chunks of an overlapped transfer, at most: enough to hide the reductions, and
/// few enough that each copy is long.
const CHUNKS: u64 = 8;
/// The smallest default chunk in bytes. Each copy has an overhead of a few microseconds, and a copy of
/// this size takes some tens of times as long.
const CHUNK_BYTES: u64 = 4 << 20;
const LANES: usize = 2;
/// The alignment of chunks in elements, for vector loads.
const GRANULE: u64 = 1024;

#[derive(Debug, Clone, Copy)]
pub struct TransferRequest {
    pub variant: &'static Variant,
    pub path: Path,
    pub op: Op,
    pub dtype: Dtype,
    pub n: u64,
    /// Elements of a chunk, for overlapped transfers.
    pub chunk: Option<u64>,
}

/// A transfer and reduction prepared for the elements of one host array.
pub struct Transfer<'d> {
    request: TransferRequest,
    data: &'d Data,
    /// A page-locked copy of the elements; `None` for pageable transfers.
    locked: Option<HostMemory>,
    pieces: Vec<Piece>,
    /// Reductions of whole chunks, and of a shorter last one.
    reductions: Vec<Reduction>,
    lanes: Vec<Lane>,
    input: Allocation,
    results: Allocation,
}

struct Piece {
    elements: Range<u64>,
    reduction: usize,
}

struct Lane {
    stream: Stream,
    workspaces: Vec<Workspace>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    Copy,
    /// The reductions alone, of elements on the device.
    Reduce,
    All,
}

impl<'d> Transfer<'d> {
    /// Allocates host and device memory and loads the kernel.
    pub fn new(
        device: &Device,
        store: &PtxStore,
        request: &TransferRequest,
        data: &'d Data,
    ) -> Result<Self> {
        let TransferRequest { variant, path, op, dtype, n, chunk } = *request;
        variant.require(op, dtype)?;
        if (data.dtype(), data.len() as u64) != (dtype, n) {
            let reason =
                format!("it has {} {}, but the request is for {n} {dtype}", data.len(), data.dtype());
            return Err(Error::Mismatch { what: "data", reason });
        }
        let whole = whole_chunk(request);
        if chunk.is_some_and(|chunk| chunk == 0 || chunk > n.max(1)) {
            return Err(Error::BadSize { what: "chunk", given: whole, most: n.max(1) });
        }
        let pieces = pieces(n, whole);
        let lengths = lengths(&pieces);
        let reduction = |&n: &u64| Reduction::new(device, store, &kernel_request(request, n)?);
        let reductions: Vec<Reduction> = lengths.iter().map(reduction).collect::<Result<_>>()?;
        let lane = |_| {
            let workspaces = reductions.iter().map(Reduction::workspace).collect::<Result<_>>()?;
            Ok(Lane { stream: device.stream()?, workspaces })
        };
        let lanes = (0..LANES.min(pieces.len())).map(lane).collect::<Result<_>>()?;
        let locked = match path {
            Path::Pageable => None,
            Path::Pinned | Path::Overlapped => Some(device.lock(data.as_bytes())?),
        };
        let input = device.allocate(data.as_bytes().len() as u64)?;
        let results = device.allocate(pieces.len() as u64 * dtype.size() as u64)?;
        Ok(Self { request: *request, data, locked, pieces, reductions, lanes, input, results })
    }

    pub fn request(&self) -> &TransferRequest {
        &self.request
    }

    pub fn chunks(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the reduction of a whole chunk.
    pub fn reduction(&self) -> &Reduction {
        &self.reductions[0]
    }

    /// Returns the largest number of additions on an element's path.
    pub fn depth(&self) -> u64 {
        let plans = self.reductions.iter().map(Reduction::plan);
        joined_depth(plans.map(|plan| plan.depth), self.chunks())
    }

    /// Fills the results with a byte that no correct result consists of.
    pub fn poison(&mut self, byte: u8) -> Result<()> {
        self.results.fill(0, byte, self.results.bytes())
    }

    /// Copies, reduces, and waits for the result.
    pub fn run(&mut self) -> Result<Outcome> {
        let launched = self.execute(Parts::All)?;
        Ok(Outcome { value: self.collect()?, counters: launched.counters() })
    }

    /// Executes some of the parts and waits for them.
    pub fn execute(&mut self, parts: Parts) -> Result<Launched> {
        let enqueued = self.enqueue(parts);
        // Even after an error, nothing may be running when this returns.
        let waited: Vec<Result<()>> = self.lanes.iter().map(|lane| lane.stream.synchronize()).collect();
        let launched = enqueued?;
        waited.into_iter().collect::<Result<()>>()?;
        Ok(launched)
    }

    fn enqueue(&mut self, parts: Parts) -> Result<Launched> {
        let size = self.request.dtype.size() as u64;
        let lanes = self.lanes.len();
        let mut all = Launched::default();
        // ladder: streams
        for (at, piece) in self.pieces.iter().enumerate() {
            let Lane { stream, workspaces } = &mut self.lanes[at % lanes];
            // ladder: end
            let start = piece.elements.start * size;
            let bytes = start as usize..(piece.elements.end * size) as usize;
            if parts != Parts::Reduce {
                match &self.locked {
                    // ladder: pinned
                    // SAFETY: both memories belong to `self`, which waits before it returns.
                    Some(locked) => unsafe {
                        self.input.write_from(stream, start, locked, bytes)?;
                    },
                    // ladder: end
                    // ladder: pageable
                    None => self.input.write(start, &self.data.as_bytes()[bytes])?,
                    // ladder: end
                }
            }
            // ladder: reduce
            if parts != Parts::Copy {
                let reduction = &self.reductions[piece.reduction];
                let workspace = &mut workspaces[piece.reduction];
                // SAFETY: the piece is inside the input. Input and workspace belong to `self`, which
                // waits before it returns, and the launches of a lane are ordered on its stream. The
                // kernel itself writes the result to an address of this piece alone: a copy of a few
                // bytes would wait in the copy engine's queue and delay the next piece.
                all += unsafe {
                    let (input, result) =
                        (self.input.address() + start, self.results.address() + at as u64 * size);
                    reduction.launch_into(stream, input, workspace, result)?
                };
            }
            // ladder: end
        }
        Ok(all)
    }

    /// Combines the results of the last run's pieces in order.
    fn collect(&self) -> Result<Value> {
        let TransferRequest { op, dtype, .. } = self.request;
        let mut results = vec![0; self.results.bytes() as usize];
        self.results.read(0, &mut results)?;
        let values = results.chunks(dtype.size()).map(|slot| Value::from_bytes(dtype, slot));
        Ok(values.reduce(|sum, value| cpu::combine(op, sum, value)).expect("there is a piece"))
    }
}

fn kernel_request(request: &TransferRequest, n: u64) -> Result<Request> {
    let TransferRequest { op, dtype, .. } = *request;
    let variant = catalogue::find(KERNEL)?;
    Ok(Request { variant, op, dtype, n, block: plan::DEFAULT_BLOCK, grid: None })
}

/// Returns the number of elements of a piece other than the last.
fn whole_chunk(request: &TransferRequest) -> u64 {
    let TransferRequest { path, dtype, n, chunk, .. } = *request;
    match path {
        Path::Pageable | Path::Pinned => n,
        Path::Overlapped => chunk.unwrap_or_else(|| default_chunk(n, dtype)),
    }
}

/// Returns the depth: the largest within a piece, plus the additions of the pieces' results.
fn joined_depth(depths: impl Iterator<Item = u64>, pieces: usize) -> u64 {
    depths.max().unwrap_or(0) + pieces as u64
}

/// Returns the largest number of additions on an element's path, for a transfer to the device `info`.
pub fn depth(request: &TransferRequest, info: &DeviceInfo) -> Result<u64> {
    let pieces = pieces(request.n, whole_chunk(request));
    let depth = |&n: &u64| Ok(Plan::new(&kernel_request(request, n)?, info)?.depth);
    let depths: Vec<u64> = lengths(&pieces).iter().map(depth).collect::<Result<_>>()?;
    Ok(joined_depth(depths.into_iter(), pieces.len()))
}

fn default_chunk(n: u64, dtype: Dtype) -> u64 {
    n.div_ceil(CHUNKS).max(CHUNK_BYTES / dtype.size() as u64).next_multiple_of(GRANULE)
}

fn pieces(n: u64, whole: u64) -> Vec<Piece> {
    // An empty input is one piece, whose reduction writes the identity.
    let count = n.div_ceil(whole.max(1)).max(1);
    let piece = |at: u64| {
        let elements = at * whole..((at + 1) * whole).min(n);
        Piece { reduction: usize::from(at > 0 && elements.end - elements.start < whole), elements }
    };
    (0..count).map(piece).collect()
}

fn lengths(pieces: &[Piece]) -> Vec<u64> {
    let mut lengths: Vec<u64> = [pieces.first(), pieces.last()]
        .iter()
        .flatten()
        .map(|p| p.elements.end - p.elements.start)
        .collect();
    lengths.dedup();
    lengths
}

/// Returns the bytes of device memory that a transfer needs, for a check before the elements are
/// generated.
pub fn device_bytes(request: &TransferRequest, info: &DeviceInfo) -> Result<u64> {
    let TransferRequest { dtype, n, .. } = *request;
    let workspace = Plan::new(&kernel_request(request, n)?, info)?.workspace_bytes();
    Ok(n.saturating_mul(dtype.size() as u64).saturating_add(4 * workspace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_all_elements_once() {
        for (n, whole) in [(0, 1024), (1, 1024), (1024, 1024), (1025, 1024), (10_000, 1024), (7, 7)] {
            let pieces = pieces(n, whole);
            let lengths = lengths(&pieces);
            let mut next = 0;
            for piece in &pieces {
                assert_eq!(piece.elements.start, next);
                assert_eq!(piece.elements.end - piece.elements.start, lengths[piece.reduction]);
                next = piece.elements.end;
            }
            assert_eq!(next, n);
        }
    }
}
