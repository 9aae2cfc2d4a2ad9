//! Kernel launches and their arguments.

use std::ffi::{c_uint, c_void};
use std::ptr;

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{Function, Stream};
use crate::sys::{self, LaunchAttribute, LaunchConfig};

/// The maximum size in bytes of all kernel parameters together in [`Parameters::Bytes`]. Every device
/// supports it; newer devices allow more.
pub const MAX_PARAMETER_BYTES: usize = 4096;

/// The maximum number of kernel parameters in [`Parameters::Bytes`].
pub const MAX_PARAMETERS: usize = 128;

/// The configuration of a kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks in x, y and z; multiples of the cluster dimensions.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: u32,
    /// Set for a cooperative launch: all blocks are resident at once, and may wait for each other.
    pub cooperative: bool,
    /// Blocks of a cluster in x, y and z, if the blocks form clusters.
    pub cluster: Option<[u32; 3]>,
    /// Set if the kernel may start before the preceding launch in the stream has completed (programmatic
    /// dependent launch). The kernel must then wait for that launch itself.
    pub overlapping: bool,
}

impl LaunchShape {
    /// Returns the configuration of a plain launch without dynamic shared memory.
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self { grid, block, shared_bytes: 0, cooperative: false, cluster: None, overlapping: false }
    }

    /// Returns the properties that `cuLaunchKernel` cannot express, as attributes, and their count.
    fn attributes(&self) -> ([LaunchAttribute; 3], c_uint) {
        let mut attributes = [LaunchAttribute::new(sys::CU_LAUNCH_ATTRIBUTE_IGNORE, &[]); 3];
        let mut count = 0;
        let mut add = |id, words: &[u32]| {
            attributes[count] = LaunchAttribute::new(id, words);
            count += 1;
        };
        if let Some(blocks) = self.cluster {
            add(sys::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &blocks);
        }
        if self.overlapping {
            add(sys::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &[1]);
        }
        if self.cooperative {
            add(sys::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &[1]);
        }
        (attributes, count as c_uint)
    }

    /// Passes the driver's launch structure to `call`. The structure is only valid during the call.
    pub(crate) fn with_config<T>(&self, stream: Stream, call: impl FnOnce(&LaunchConfig) -> T) -> T {
        let (mut attributes, attribute_count) = self.attributes();
        call(&LaunchConfig {
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            stream: stream.raw(),
            attributes: attributes.as_mut_ptr(),
            attribute_count,
        })
    }
}

/// The location of a parameter in [`Parameters::Bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterCut {
    /// The parameter's offset in bytes.
    pub offset: u16,
    /// The parameter's size in bytes.
    pub bytes: u16,
}

/// The values of a kernel's parameters.
#[derive(Debug)]
pub enum Parameters<'a> {
    /// The bytes of all parameters, at most [`MAX_PARAMETER_BYTES`], and the location of each.
    Bytes {
        /// The parameters' values in order, with or without gaps.
        values: &'a [u8],
        /// The location of each parameter, in order.
        cuts: &'a [ParameterCut],
    },
    /// A pointer to each value, as `cuLaunchKernel` takes them.
    Pointers(&'a mut [*mut c_void]),
}

impl Driver {
    /// Enqueues a kernel. The parameter values are copied before this returns; nothing is allocated.
    ///
    /// # Errors
    /// Returns the driver's errors for the launch configuration, and `CUDA_ERROR_INVALID_VALUE` for too
    /// many parameters or one that ends past `values`. May return errors of earlier work.
    ///
    /// # Safety
    /// - `function` must be loaded in the current context, and `stream` must be alive and belong to it.
    /// - There must be a value of the right size for each parameter; pointers must point to such values.
    /// - All memory that the kernel reads and writes must stay allocated, without conflicting accesses,
    ///   until the stream was synchronised.
    pub unsafe fn launch(
        &self,
        function: Function,
        shape: &LaunchShape,
        stream: Stream,
        parameters: Parameters<'_>,
    ) -> Result<(), CallError> {
        match parameters {
            // SAFETY: the caller guarantees a valid kernel, stream and parameters.
            Parameters::Pointers(pointers) => unsafe {
                self.launch_with(function, shape, stream, pointers.as_mut_ptr())
            },
            Parameters::Bytes { values, cuts } => {
                let mut pointers = [ptr::null_mut(); MAX_PARAMETERS];
                cut(values, cuts, &mut pointers).map_err(|detail| {
                    CallError::with_detail("cuLaunchKernel", sys::CUDA_ERROR_INVALID_VALUE, detail)
                })?;
                // SAFETY: the pointers are to bytes of `values`; the caller guarantees that these are
                // valid parameters, and guarantees a valid kernel and stream.
                unsafe { self.launch_with(function, shape, stream, pointers.as_mut_ptr()) }
            }
        }
    }

    /// # Safety
    /// The conditions of [`launch`](Self::launch) apply.
    unsafe fn launch_with(
        &self,
        function: Function,
        shape: &LaunchShape,
        stream: Stream,
        parameters: *mut *mut c_void,
    ) -> Result<(), CallError> {
        let function = function.raw();
        if shape.cluster.is_some() || shape.overlapping {
            return shape.with_config(stream, |config| {
                // SAFETY: the configuration and its attributes outlive the call, which copies them; the
                // caller guarantees a valid kernel, stream and parameters.
                unsafe { call!(self.cuLaunchKernelEx(config, function, parameters, ptr::null_mut())) }
            });
        }
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        let (shared, stream, none) = (shape.shared_bytes, stream.raw(), ptr::null_mut());
        // SAFETY: the caller guarantees a valid kernel, stream and parameters.
        unsafe {
            if shape.cooperative {
                call!(self.cuLaunchCooperativeKernel(
                    function, gx, gy, gz, bx, by, bz, shared, stream, parameters
                ))
            } else {
                call!(
                    self.cuLaunchKernel(
                        function, gx, gy, gz, bx, by, bz, shared, stream, parameters, none
                    )
                )
            }
        }
    }
}

/// Stores a pointer to each parameter's value in `pointers`. The driver only reads through the pointers.
fn cut(
    values: &[u8],
    cuts: &[ParameterCut],
    pointers: &mut [*mut c_void; MAX_PARAMETERS],
) -> Result<(), String> {
    if values.len() > MAX_PARAMETER_BYTES {
        return Err(format!("{} bytes of parameters; give at most {MAX_PARAMETER_BYTES}", values.len()));
    }
    if cuts.len() > pointers.len() {
        return Err(format!("{} parameters; give at most {MAX_PARAMETERS}", cuts.len()));
    }
    for (index, (pointer, cut)) in pointers.iter_mut().zip(cuts).enumerate() {
        let (offset, bytes) = (usize::from(cut.offset), usize::from(cut.bytes));
        let Some(value) = values.get(offset..offset + bytes) else {
            return Err(format!(
                "parameter {index} is at bytes {offset} to {} of {}; keep it inside them",
                offset + bytes,
                values.len()
            ));
        };
        *pointer = value.as_ptr().cast_mut().cast();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(places: &[(u16, u16)]) -> Vec<ParameterCut> {
        places.iter().map(|&(offset, bytes)| ParameterCut { offset, bytes }).collect()
    }

    #[test]
    fn pointers_follow_parameter_offsets() {
        let values = [1_u8, 2, 3, 4, 5, 6, 7, 8];
        let mut pointers = [ptr::null_mut(); MAX_PARAMETERS];
        cut(&values, &cuts(&[(4, 4), (0, 2), (8, 0)]), &mut pointers).unwrap();
        let start = values.as_ptr().addr();
        assert_eq!(pointers[..3].iter().map(|p| p.addr() - start).collect::<Vec<_>>(), [4, 0, 8]);
        assert!(pointers[3].is_null());
    }

    #[test]
    fn out_of_range_parameters_are_a_one_line_error() {
        let mut pointers = [ptr::null_mut(); MAX_PARAMETERS];
        let many = vec![(0, 1); MAX_PARAMETERS + 1];
        for (values, places, text) in [
            (&[0; 8][..], &[(0, 4), (6, 4)][..], "parameter 1 is at bytes 6 to 10 of 8"),
            (&[0; 8], &[(u16::MAX, u16::MAX)], "parameter 0 is at bytes 65535 to 131070 of 8"),
            (&[0; MAX_PARAMETER_BYTES + 1], &[], "4097 bytes of parameters; give at most 4096"),
            (&[0; 8], &many, "129 parameters; give at most 128"),
        ] {
            let error = cut(values, &cuts(places), &mut pointers).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }

    #[test]
    fn attributes_precede_ignored_padding() {
        let shape = LaunchShape::new([4, 1, 1], [32, 1, 1]);
        assert_eq!(shape.attributes().1, 0);
        let (attributes, count) =
            LaunchShape { overlapping: true, cooperative: true, ..shape }.attributes();
        assert_eq!(count, 2);
        assert_eq!(attributes.map(|attribute| attribute.id), [6, 2, 0]);
        let (attributes, count) = LaunchShape { cluster: Some([2, 1, 1]), ..shape }.attributes();
        assert_eq!((count, attributes[0].id), (1, 4));
        assert_eq!(attributes[0].value[..4], [2, 1, 1, 0]);
    }
}
