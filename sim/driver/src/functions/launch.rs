use std::sync::Arc;

use warpfold_driver::sys::*;
use warpfold_sim::{Launch, Param, readable};

use super::function::find;
use super::occupancy::{resident_blocks, resident_clusters};
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{FunctionId, In, StreamId, list};
use crate::watch;
use crate::world::{self, Function, Guard, LaunchRequest, MULTIPROCESSORS, Work, limits};

/// Attributes of a launch other than grid, block and shared memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LaunchAttributes {
    pub(crate) cooperative: bool,
    pub(crate) cluster: Option<[u32; 3]>,
}

#[derive(Clone, Copy)]
pub(crate) struct Arguments {
    pub(crate) each: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
}

#[expect(clippy::too_many_arguments, reason = "the interface has them")]
pub(crate) fn cuLaunchKernel(
    function: FunctionId,
    grid_dim_x: c_uint,
    grid_dim_y: c_uint,
    grid_dim_z: c_uint,
    block_dim_x: c_uint,
    block_dim_y: c_uint,
    block_dim_z: c_uint,
    shared_bytes: c_uint,
    stream: StreamId,
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome {
    let grid = [grid_dim_x, grid_dim_y, grid_dim_z];
    let shape = Launch::new(grid, [block_dim_x, block_dim_y, block_dim_z]);
    let shape = shape.with_dynamic_shared(shared_bytes);
    let arguments = Arguments { each: kernel_params, extra };
    submit(function, shape, LaunchAttributes::default(), stream, arguments)
}

#[expect(clippy::too_many_arguments, reason = "the interface has them")]
pub(crate) fn cuLaunchCooperativeKernel(
    function: FunctionId,
    grid_dim_x: c_uint,
    grid_dim_y: c_uint,
    grid_dim_z: c_uint,
    block_dim_x: c_uint,
    block_dim_y: c_uint,
    block_dim_z: c_uint,
    shared_bytes: c_uint,
    stream: StreamId,
    kernel_params: *mut *mut c_void,
) -> Outcome {
    let grid = [grid_dim_x, grid_dim_y, grid_dim_z];
    let shape = Launch::new(grid, [block_dim_x, block_dim_y, block_dim_z]);
    let shape = shape.with_dynamic_shared(shared_bytes);
    let arguments = Arguments { each: kernel_params, extra: super::stream::null() };
    submit(function, shape, LaunchAttributes { cooperative: true, cluster: None }, stream, arguments)
}

pub(crate) fn cuLaunchKernelEx(
    config: In<LaunchConfig>,
    function: FunctionId,
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome {
    let config = config.0;
    let wishes = wishes_of(&config)?;
    let shape = Launch::new(config.grid, config.block).with_dynamic_shared(config.shared_bytes);
    let arguments = Arguments { each: kernel_params, extra };
    submit(function, shape, wishes, config.stream.into(), arguments)
}

pub(crate) fn wishes_of(config: &LaunchConfig) -> Outcome<LaunchAttributes> {
    let count = config.attribute_count as usize;
    // SAFETY: the caller passes `attribute_count` attributes.
    let attributes = unsafe { list(config.attributes.cast_const(), count) }?;
    let mut wishes = LaunchAttributes::default();
    for LaunchAttribute { id, value, .. } in attributes {
        match id {
            CU_LAUNCH_ATTRIBUTE_COOPERATIVE => wishes.cooperative = value[0] != 0,
            CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                wishes.cluster = Some([value[0], value[1], value[2]]);
            }
            // These attributes affect when and where a launch runs on a GPU, but no result.
            CU_LAUNCH_ATTRIBUTE_IGNORE
            | CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
            | CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
            | CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            | CU_LAUNCH_ATTRIBUTE_PRIORITY
            | CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
            | CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
            | CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION
            | CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
            | CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING => {}
            _ => {
                let detail = format!("launch attribute {id} is not simulated");
                return fail_with(CUDA_ERROR_NOT_SUPPORTED, detail);
            }
        }
    }
    Ok(wishes)
}

fn submit(
    function: FunctionId,
    shape: Launch,
    wishes: LaunchAttributes,
    stream: StreamId,
    arguments: Arguments,
) -> Outcome {
    watch::set_last_launch(None);
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    let context = find(&state, function)?.context;
    state.check_same_context(stream, context)?;
    let launch = prepare(&state, function, shape, wishes, arguments)?;
    let record = Arc::clone(&launch.record);
    state.submit(stream, Work::Launch(Arc::new(launch)))?;
    watch::set_last_launch(Some(record));
    Ok(())
}

/// Checks a launch and copies its parameters.
pub(crate) fn prepare(
    state: &Guard,
    id: FunctionId,
    shape: Launch,
    wishes: LaunchAttributes,
    arguments: Arguments,
) -> Outcome<LaunchRequest> {
    let function = find(state, id)?;
    let LaunchAttributes { cluster, cooperative } = wishes;
    let shape = Launch { cluster, cooperative, seed: world::seed(), ..shape };
    check_shape(function, &shape, wishes)?;
    // SAFETY: the caller passes a pointer to each parameter of the entry, or a buffer of all of them.
    let parameters = unsafe { collect(function.entry()?.params(), arguments) }?;
    Ok(LaunchRequest {
        module: function.module,
        context: function.context,
        program: function.program.clone(),
        entry: Arc::clone(&function.name),
        shape,
        parameters,
        record: Arc::default(),
    })
}

fn check_shape(function: &Function, shape: &Launch, wishes: LaunchAttributes) -> Outcome {
    let (entry, name) = (function.entry()?, readable(function.entry_name()));
    let threads = shape.block.map(u64::from).into_iter().fold(1, u64::saturating_mul);
    let most = u64::from(function.most_threads()?);
    if threads > most && threads <= u64::from(limits::THREADS_PER_BLOCK) {
        let detail =
            format!("launch of `{name}`: {threads} threads per block, allowed are at most {most}");
        return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
    }
    entry.check(shape)?;
    if shape.dynamic_shared > function.most_dynamic_shared {
        let (asked, most) = (shape.dynamic_shared, function.most_dynamic_shared);
        let detail = format!(
            "launch of `{name}`: {asked} bytes of dynamic shared memory; allowed is 0 to {most}; raise \
             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES for more"
        );
        return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
    }
    if wishes.cooperative { check_cooperative(function, shape, threads as u32) } else { Ok(()) }
}

/// Returns an error unless all blocks of a cooperative launch fit on the device at once.
fn check_cooperative(function: &Function, shape: &Launch, threads: u32) -> Outcome {
    let shared = shape.dynamic_shared.into();
    let resident = match shape.cluster.or(function.entry()?.required_cluster()) {
        None => resident_blocks(function, threads, shared)? * MULTIPROCESSORS,
        Some(cluster) => {
            let size = cluster.into_iter().fold(1, u32::saturating_mul);
            size.saturating_mul(resident_clusters(function, threads, shared, size)?)
        }
    };
    let blocks = shape.grid.map(u64::from).into_iter().fold(1, u64::saturating_mul);
    if blocks > resident.into() {
        let name = readable(function.entry_name());
        let detail = format!(
            "launch of `{name}`: {blocks} blocks, but at most {resident} fit on the device at once"
        );
        return fail_with(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, detail);
    }
    Ok(())
}

/// # Safety
/// `each` is null or an array of pointers to the parameters' bytes; `extra` is null or a list in the
/// format that `cuLaunchKernel` specifies.
unsafe fn collect(parameters: &[Param], arguments: Arguments) -> Outcome<Vec<u8>> {
    let bytes = parameters.last().map_or(0, |last| last.offset + last.size);
    if !arguments.extra.is_null() {
        if !arguments.each.is_null() {
            return fail_with(
                CUDA_ERROR_INVALID_VALUE,
                "both kernel_params and extra are given; give one of them",
            );
        }
        // SAFETY: `extra` is not null, so this function's contract gives it the format that is read.
        return unsafe { collect_extra(bytes, arguments.extra) };
    }
    if arguments.each.is_null() && !parameters.is_empty() {
        let count = parameters.len();
        return fail_with(
            CUDA_ERROR_INVALID_VALUE,
            format!("the {count} parameters are missing; give kernel_params or extra"),
        );
    }
    let mut collected = vec![0; bytes];
    for (index, parameter) in parameters.iter().enumerate() {
        // SAFETY: by this function's contract, there is a pointer for each parameter.
        let value = unsafe { arguments.each.add(index).read_unaligned() };
        if value.is_null() {
            return fail_with(CUDA_ERROR_INVALID_VALUE, format!("parameter {index} is null"));
        }
        // SAFETY: by this function's contract, the pointer is to the parameter's bytes.
        let value = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), parameter.size) };
        collected[parameter.offset..parameter.offset + parameter.size].copy_from_slice(value);
    }
    Ok(collected)
}

/// Copies the parameters from a null-terminated list of names and values.
///
/// # Safety
/// `extra` is such a list.
unsafe fn collect_extra(bytes: usize, extra: *mut *mut c_void) -> Outcome<Vec<u8>> {
    let (mut buffer, mut size) = (super::stream::null::<c_void>(), None);
    let mut at = extra;
    loop {
        // SAFETY: by this function's contract, the list is readable up to its end.
        let name = unsafe { at.read_unaligned() };
        if name == CU_LAUNCH_PARAM_END {
            break;
        }
        // SAFETY: the name is not the end of the list, so a value follows it.
        let value = unsafe { at.add(1).read_unaligned() };
        match name {
            CU_LAUNCH_PARAM_BUFFER_POINTER => buffer = value,
            CU_LAUNCH_PARAM_BUFFER_SIZE if !value.is_null() => {
                // SAFETY: by this function's contract, the value of this name points at a size.
                size = Some(unsafe { value.cast::<usize>().read_unaligned() });
            }
            _ => return fail(CUDA_ERROR_INVALID_VALUE),
        }
        // SAFETY: the value is followed by another name or the end of the list.
        at = unsafe { at.add(2) };
    }
    match size {
        // Trailing padding of the caller's structure is allowed.
        Some(size) if size >= bytes && !buffer.is_null() => {
            // SAFETY: by this function's contract, the buffer has `size` bytes.
            Ok(unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), bytes) }.to_vec())
        }
        _ => {
            fail_with(CUDA_ERROR_INVALID_VALUE, format!("extra has fewer than the {bytes} bytes needed"))
        }
    }
}
