//! Plans the launches of a request. This is arithmetic only and needs no device.

use warpfold_abi::BLOCK_SIZES;

use crate::{
    Data, DeviceInfo, Dtype, Error, Op, Result, Value,
    catalogue::{Completion, DynamicShared, Geometry, InBlock, Shape, Variant},
};

/// The largest number of blocks along x.
pub const MAX_GRID: u64 = (1 << 31) - 1;

/// The default block size: enough warps to hide latency, small enough that several blocks fit on a
/// multiprocessor.
pub const DEFAULT_BLOCK: u32 = 256;

pub(crate) fn require_block(given: u32) -> Result<()> {
    if BLOCK_SIZES.contains(&given) && given.is_power_of_two() {
        Ok(())
    } else {
        Err(Error::BadBlock { given })
    }
}

/// A request to a variant that is a reduction kernel.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    pub variant: &'static Variant,
    pub op: Op,
    pub dtype: Dtype,
    pub n: u64,
    /// Threads of a block: a power of two from 32 to 1024.
    pub block: u32,
    /// Blocks of the first launch, for grid-stride variants; `None` for the plan's default.
    pub grid: Option<u64>,
}

impl Request {
    /// Creates a request for these elements with the default geometry.
    pub fn new(variant: &'static Variant, op: Op, data: &Data) -> Self {
        let (dtype, n) = (data.dtype(), data.len() as u64);
        Self { variant, op, dtype, n, block: DEFAULT_BLOCK, grid: None }
    }
}

/// One kernel launch of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub grid: u32,
    pub n: u64,
    pub(crate) input: Place,
    pub(crate) output: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Input,
    /// Block results, in one of two regions that alternate between the launches.
    Partials(usize),
    Result,
}

/// The launches of a request, and the workspace that they need.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub block: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// Number of blocks per cluster; 1 without clusters.
    pub cluster: u32,
    pub steps: Vec<Step>,
    /// The depth of the summation tree: the largest number of additions on an element's path.
    pub depth: u64,
    /// The initial value of the result, for variants that accumulate into it.
    pub identity: Option<Value>,
    pub(crate) workspace: Layout,
}

/// Offsets in bytes from the workspace's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) partials: [u64; 2],
    pub(crate) counter: u64,
    pub(crate) result: u64,
    pub(crate) identity: u64,
    pub(crate) bytes: u64,
}

impl Plan {
    pub fn new(request: &Request, device: &DeviceInfo) -> Result<Self> {
        let Request { variant, op, dtype, n, block, .. } = *request;
        let shape = variant.shape().ok_or(Error::NoReduction { variant: variant.id })?;
        variant.require(op, dtype)?;
        require_block(block)?;
        variant.require_arch(device)?;
        if n == 0 && !op.has_empty_value() {
            return Err(Error::NoValue { statistic: op.into() });
        }
        let grid = first_grid(request, shape, device)?;
        let steps = match shape.completion {
            Completion::LastBlock | Completion::GridBarrier | Completion::Atomic => {
                vec![Step { grid, n, input: Place::Input, output: Place::Result }]
            }
            Completion::Relaunch => relaunches(shape, n, block, grid),
        };
        Ok(Self {
            block,
            shared: match shape.dynamic_shared {
                DynamicShared::ElementPerThread => block * dtype.size() as u32,
                DynamicShared::None => 0,
            },
            cluster: shape.cluster,
            depth: depth(shape, block, &steps),
            workspace: Layout::new(shape, dtype, &steps),
            identity: (shape.completion == Completion::Atomic).then(|| Value::identity(op, dtype)),
            steps,
        })
    }

    /// Returns the bytes of device memory that the launches need in addition to the input.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace.bytes
    }

    /// Returns the blocks of the first launch.
    pub fn grid(&self) -> u32 {
        self.steps[0].grid
    }
}

/// Returns the number of blocks of the first launch: the user's grid for a grid-stride variant,
/// otherwise enough for n elements, rounded up to whole clusters.
fn first_grid(request: &Request, shape: &Shape, device: &DeviceInfo) -> Result<u32> {
    let Request { variant, n, block, grid, .. } = *request;
    let per_thread = match shape.geometry {
        Geometry::PerThread(count) => u64::from(count),
        Geometry::GridStride | Geometry::SingleThread => 1,
    };
    let cluster = u64::from(shape.cluster);
    // An empty input still takes one block, which writes the identity.
    let enough = n.div_ceil(per_thread * u64::from(block)).max(1).next_multiple_of(cluster);
    let fixed = match shape.geometry {
        Geometry::PerThread(_) => Some(enough),
        Geometry::SingleThread => Some(1),
        Geometry::GridStride => None,
    };
    match (fixed, grid) {
        (_, Some(given)) if !(1..=MAX_GRID).contains(&given) => Err(Error::BadGrid { given }),
        (Some(needed), Some(given)) if given != needed => {
            Err(Error::FixedGrid { variant: variant.id, given, needed })
        }
        (Some(needed), _) if needed > MAX_GRID => Err(Error::TooManyBlocks { n, block, needed }),
        (Some(needed), _) => Ok(needed as u32),
        (None, Some(given)) if given % cluster != 0 => {
            Err(Error::PartialCluster { variant: variant.id, given, cluster })
        }
        (None, Some(given)) => Ok(given as u32),
        (None, None) => {
            let resident = u64::from(device.resident_blocks(block));
            Ok(enough.min((resident - resident % cluster).max(cluster)) as u32)
        }
    }
}

/// Plans launches until one result is left; each reduces the results of the preceding launch.
fn relaunches(shape: &Shape, n: u64, block: u32, grid: u32) -> Vec<Step> {
    let mut steps = vec![Step { grid, n, input: Place::Input, output: Place::Result }];
    // ladder: levels
    loop {
        let level = steps.len() - 1;
        let last = &mut steps[level];
        let results = last.grid / shape.cluster;
        if results == 1 {
            return steps;
        }
        last.output = Place::Partials(level % 2);
        let input = last.output;
        let grid = match shape.geometry {
            Geometry::PerThread(count) => results.div_ceil(count * block),
            Geometry::GridStride | Geometry::SingleThread => shape.cluster,
        };
        steps.push(Step { grid, n: results.into(), input, output: Place::Result });
    }
    // ladder: end
}

/// Returns the largest number of additions on an element's path: within threads, blocks and clusters,
/// over all launches, plus one for a rounding of the input, such as that of a square.
fn depth(shape: &Shape, block: u32, steps: &[Step]) -> u64 {
    let in_thread = |n: u64, grid: u32| match shape.geometry {
        Geometry::SingleThread => n,
        _ => n.div_ceil(u64::from(grid) * u64::from(block)).max(1),
    };
    let in_block: u64 = match shape.in_block {
        InBlock::Tree => block.ilog2().into(),
        InBlock::OneByOne => block.into(),
        InBlock::Nothing => 0,
    };
    let in_cluster = u64::from(shape.cluster - 1);
    let launches: u64 =
        steps.iter().map(|step| in_thread(step.n, step.grid) + in_block + in_cluster).sum();
    let blocks = steps[0].grid;
    let at_the_end = match shape.completion {
        Completion::LastBlock | Completion::GridBarrier => in_thread(blocks.into(), 1) + in_block,
        Completion::Atomic if shape.in_block == InBlock::Nothing => u64::from(blocks) * u64::from(block),
        Completion::Atomic => blocks.into(),
        Completion::Relaunch => 0,
    };
    1 + launches + at_the_end
}

impl Layout {
    fn new(shape: &Shape, dtype: Dtype, steps: &[Step]) -> Self {
        let bytes = |blocks: u32| u64::from(blocks) * dtype.size() as u64;
        let partials = match shape.completion {
            Completion::LastBlock | Completion::GridBarrier => [bytes(steps[0].grid), 0],
            Completion::Atomic => [0, 0],
            // The two regions alternate, and each level is smaller than the preceding one.
            Completion::Relaunch => [0, 1].map(|level: usize| match steps.get(level) {
                Some(step) if step.output == Place::Partials(level) => bytes(step.grid),
                _ => 0,
            }),
        };
        let mut end = 0;
        let mut place = |bytes: u64| {
            let start = end;
            end += bytes.next_multiple_of(ALIGNMENT);
            start
        };
        let partials = partials.map(&mut place);
        let (counter, result, identity) = (place(4), place(8), place(8));
        Self { partials, counter, result, identity, bytes: end }
    }
}

/// The regions of a workspace are aligned like device allocations.
const ALIGNMENT: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Statistic, catalogue, device::testing_info};

    fn request(id: &str, n: u64, block: u32) -> Request {
        let variant = catalogue::find(id).unwrap();
        Request { variant, op: Op::Sum, dtype: Dtype::F32, n, block, grid: None }
    }

    fn plan(request: &Request) -> Result<Plan> {
        Plan::new(request, &testing_info())
    }

    #[test]
    fn one_element_per_thread_relaunches_until_one_block_is_left() {
        let plan = plan(&request("sequential", 1 << 22, 256)).unwrap();
        let grids: Vec<_> = plan.steps.iter().map(|step| (step.n, step.grid)).collect();
        assert_eq!(grids, [(1 << 22, 1 << 14), (1 << 14, 64), (64, 1)]);
        let places: Vec<_> = plan.steps.iter().map(|step| (step.input, step.output)).collect();
        assert_eq!(
            places,
            [
                (Place::Input, Place::Partials(0)),
                (Place::Partials(0), Place::Partials(1)),
                (Place::Partials(1), Place::Result),
            ]
        );
        assert_eq!((plan.shared, plan.depth), (1024, 1 + 3 * 9));
    }

    #[test]
    fn clusters_are_whole_and_have_one_result_each() {
        let plan_of = |n| plan(&request("cluster", n, 256)).unwrap();
        let grids = |n| plan_of(n).steps.iter().map(|step| (step.n, step.grid)).collect::<Vec<_>>();
        assert_eq!(grids(0), [(0, 8)]);
        assert_eq!(grids(256 * 9), [(256 * 9, 16), (2, 8)]);
        assert_eq!(grids(1 << 30), [(1 << 30, 64), (8, 8)]);
        assert_eq!(plan_of(1).cluster, 8);
        let partial = Request { grid: Some(12), ..request("cluster", 1000, 256) };
        let message = plan(&partial).unwrap_err().to_string();
        assert!(message.contains("grid is 12") && message.contains("multiple of 8"), "{message}");
    }

    #[test]
    fn other_variants_have_no_reduction_plan() {
        let error = plan(&request("cpu_serial", 1000, 256)).unwrap_err();
        assert!(matches!(error, Error::NoReduction { variant: "cpu_serial" }));
    }

    #[test]
    fn every_launch_writes_inside_the_workspace_and_not_over_its_input() {
        for n in [1, 31, 1000, 1 << 20, (1 << 33) + 7] {
            for block in [32, 1024] {
                let plan = plan(&request("interleaved_modulo", n, block)).unwrap();
                let layout = plan.workspace;
                for step in &plan.steps {
                    assert_ne!(step.input, step.output);
                    if let Place::Partials(i) = step.output {
                        let end = layout.partials[i] + u64::from(step.grid) * 4;
                        let next = [layout.partials[1], layout.counter][i];
                        assert!(end <= next, "n {n} block {block}: {layout:?}");
                    }
                }
                assert_eq!(plan.steps.last().unwrap().grid, 1);
            }
        }
    }

    #[test]
    fn more_than_2_to_the_32_elements_are_planned() {
        let plan = plan(&request("sequential", (1 << 32) + 1, 32)).unwrap();
        assert_eq!(u64::from(plan.grid()), (1 << 27) + 1);
        assert!(super::Plan::new(&request("sequential", 1 << 37, 32), &testing_info()).is_err());
    }

    #[test]
    fn grid_is_refused_if_the_variant_fixes_it() {
        let fixed = Request { grid: Some(7), ..request("sequential", 1000, 256) };
        assert!(matches!(plan(&fixed), Err(Error::FixedGrid { given: 7, needed: 4, .. })));
        let free = Request { grid: Some(7), ..request("warp_shuffle", 1000, 256) };
        assert_eq!(plan(&free).unwrap().grid(), 7);
        for given in [0, MAX_GRID + 1] {
            let bad = Request { grid: Some(given), ..free };
            assert!(matches!(plan(&bad), Err(Error::BadGrid { .. })));
        }
    }

    #[test]
    fn block_size_must_be_a_power_of_two() {
        for block in [0, 1, 16, 33, 100, 2048, u32::MAX] {
            let message = plan(&request("sequential", 1000, block)).unwrap_err().to_string();
            assert!(message.contains(&block.to_string()) && message.contains("1024"), "{message}");
        }
    }

    #[test]
    fn empty_input_has_a_sum_but_no_maximum() {
        assert_eq!(plan(&request("warp_shuffle", 0, 32)).unwrap().grid(), 1);
        let max = Request { op: Op::Max, ..request("warp_shuffle", 0, 32) };
        assert!(matches!(plan(&max), Err(Error::NoValue { statistic: Statistic::Of(Op::Max) })));
    }
}
