//! What tests of kernels need.

use std::error::Error;
use std::io::{self, Write};

use super::Sim;

/// Seeds under which each test is run.
const SEEDS: u64 = 8;

/// Declares tests of the kernels of a PTX text, for `cargo test` of the crate that they are of.
///
/// Each gets a [`Sim`] of which every launch is [checked](crate::Call::checked), and is run in lock step
/// and under eight [seeds](crate::Call::seed). It may use `?`, and fails by an error, by a panic, and by
/// what checks find.
///
/// The text comes from wherever the crate has it: from `include_str!` of a file that a build script
/// makes, or from a command that the expression runs. For a crate of the target `nvptx64-nvidia-cuda`
/// that is `cargo rustc --release --target nvptx64-nvidia-cuda -Zbuild-std=core -- --emit asm`, for one
/// of rust-cuda `CudaBuilder::build` in its build script. `-Cdebuginfo=line-directives-only
/// -Zverbose-asm`, or nvcc's `-lineinfo`, put the user's line in front of what is found.
///
/// ```
/// warpfold_sim::kernel_tests! {
///     ptx: "
///         .version 7.8 .target sm_80
///         .visible .entry double(.param .u64 values) {
///             .reg .b32 %r<2>; .reg .b64 %rd<3>;
///             ld.param.u64 %rd0, [values]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4;
///             add.u64 %rd1, %rd0, %rd1; ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, %r1;
///             st.global.u32 [%rd1], %r1; ret;
///         }";
///
///     /// Each value is twice what it was.
///     fn doubles(sim) {
///         let mut values = [1_u32, 2, 3];
///         sim.kernel("double").block(3).named("values", &mut values).run()?;
///         assert_eq!(values, [2, 4, 6]);
///     }
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! kernel_tests {
    (ptx: $ptx:expr; $($(#[$meta:meta])* fn $name:ident($sim:ident) $body:block)*) => {$(
        $(#[$meta])*
        #[test]
        fn $name() {
            $crate::run_test($ptx, |$sim: &$crate::Sim| {
                $body
                ::std::result::Result::Ok(())
            });
        }
    )*};
}

/// What each test of [`kernel_tests!`] does.
///
/// # Panics
/// When the text is no PTX, and when the test fails.
#[doc(hidden)]
#[track_caller]
pub fn run_test(ptx: impl AsRef<str>, test: impl Fn(&Sim) -> Result<(), Box<dyn Error>>) {
    let load = || Sim::load(ptx.as_ref()).unwrap_or_else(|error| panic!("{error}")).checked();
    if let Err(error) = test(&load()) {
        panic!("{error}");
    }
    for seed in 0..SEEDS {
        // Asserts of the test do not know of it.
        let told = Told(seed);
        if let Err(error) = test(&load().seeded(seed)) {
            panic!("{error}");
        }
        std::mem::forget(told);
    }
}

/// Tells under which seed a test has failed.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        // Where standard error is closed, a panic here would end the tests of the process.
        let _lost = writeln!(
            io::stderr(),
            "under seed {}, and not in lock step: the order of threads matters",
            self.0
        );
    }
}
